//! Outer rows on their way through a tree: their keys, encoded and sorted, so
//! that the probes for one page are consecutive in the batch.

use saki_base::key::{KeyLayout, encode_column};

use crate::error::ExecError;
use crate::overlay::EntryKeys;
use crate::plan::{JoinKind, KeySource, Stage};
use crate::rows::registers::RegisterBatch;
use saki_vector::surface::array_value;

/// A batch of outer rows and the probes made of them. It lives until its last probe has been answered.
pub(crate) struct ProbeBatch {
    pub rows: RegisterBatch,
    /// The outer row of each probe; probes are sorted by key. Rows with a NULL in the key have none.
    order: Vec<u32>,
    /// Encoded keys in probe order, back to back.
    keys: Vec<u8>,
    ends: Vec<u32>,
    /// By row, for stages that must know which rows matched; empty otherwise.
    pub matched: Vec<bool>,
    /// Pieces of work that have not been done yet.
    pub outstanding: u32,
    /// Bytes charged to the execution's budget.
    pub charged_bytes: usize,
}

/// Memory reused from batch to batch.
#[derive(Default)]
pub(crate) struct ProbeScratch {
    keys: Vec<u8>,
    ends: Vec<u32>,
    rows: Vec<u32>,
    sorted: Vec<(u64, u32)>,
}

impl ProbeBatch {
    /// An empty batch, to be filled by [`Self::build`].
    pub(crate) fn new(rows: RegisterBatch) -> Self {
        Self {
            rows,
            order: Vec::new(),
            keys: Vec::new(),
            ends: Vec::new(),
            matched: Vec::new(),
            outstanding: 0,
            charged_bytes: 0,
        }
    }

    /// Encodes and sorts the keys of all rows for `stage`.
    pub(crate) fn build(&mut self, stage: &Stage, scratch: &mut ProbeScratch) -> Result<(), ExecError> {
        self.matched.clear();
        if stage.kind != JoinKind::Inner {
            self.matched.resize(self.rows.rows, false);
        }
        scratch.keys.clear();
        scratch.ends.clear();
        scratch.rows.clear();
        for row in 0..self.rows.rows {
            let start = scratch.keys.len();
            if encode_key(&stage.access.key, &stage.key, &self.rows, row, &mut scratch.keys)? {
                scratch.ends.push(scratch.keys.len() as u32);
                scratch.rows.push(row as u32);
            } else {
                scratch.keys.truncate(start);
            }
        }
        self.sort(scratch);
        self.charged_bytes = self.rows.memory_bytes() + self.keys.len() + self.order.len() * 9;
        Ok(())
    }

    /// Sorts by the first eight bytes, and by the rest only where these tie.
    fn sort(&mut self, scratch: &mut ProbeScratch) {
        let ProbeScratch { keys, ends, rows, sorted } = scratch;
        let key = |probe: u32| key_of(keys, ends, probe as usize);
        sorted.clear();
        sorted.extend((0..ends.len() as u32).map(|probe| (head(key(probe)), probe)));
        sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
        self.order.clear();
        self.keys.clear();
        self.ends.clear();
        for &(_, probe) in sorted.iter() {
            self.order.push(rows[probe as usize]);
            self.keys.extend_from_slice(key(probe));
            self.ends.push(self.keys.len() as u32);
        }
    }

    /// Drops the probes for which `keep` (of probe, its row, and which rows have matched) is false.
    pub(crate) fn retain(&mut self, keep: impl Fn(usize, usize, &[bool]) -> bool) {
        let (mut kept, mut bytes, mut start) = (0, 0, 0);
        for probe in 0..self.order.len() {
            let end = self.ends[probe] as usize;
            if keep(probe, self.order[probe] as usize, &self.matched) {
                self.order[kept] = self.order[probe];
                self.keys.copy_within(start..end, bytes);
                bytes += end - start;
                self.ends[kept] = bytes as u32;
                kept += 1;
            }
            start = end;
        }
        self.order.truncate(kept);
        self.ends.truncate(kept);
        self.keys.truncate(bytes);
    }

    /// The probes' keys.
    pub(crate) fn entry_keys(&self) -> EntryKeys<'_> {
        EntryKeys::of_list(&self.keys, &self.ends)
    }

    pub(crate) fn probes(&self) -> u32 {
        self.order.len() as u32
    }

    #[inline]
    pub(crate) fn key(&self, probe: u32) -> &[u8] {
        key_of(&self.keys, &self.ends, probe as usize)
    }

    #[inline]
    pub(crate) fn row(&self, probe: u32) -> usize {
        self.order[probe as usize] as usize
    }
}

#[inline]
fn key_of<'k>(keys: &'k [u8], ends: &[u32], probe: usize) -> &'k [u8] {
    let start = if probe == 0 { 0 } else { ends[probe - 1] as usize };
    &keys[start..ends[probe] as usize]
}

/// The first eight bytes as a number that orders as they do; shorter keys are filled with zeros.
#[inline]
fn head(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Appends the key of a row; `false` if one of its columns is NULL, which matches nothing.
fn encode_key(
    layout: &KeyLayout,
    sources: &[KeySource],
    rows: &RegisterBatch,
    row: usize,
    out: &mut Vec<u8>,
) -> Result<bool, ExecError> {
    for (column, source) in layout.columns().iter().zip(sources) {
        let value = match source {
            KeySource::Encoded(bytes) => {
                out.extend_from_slice(bytes);
                continue;
            }
            KeySource::Register(register) => rows.columns[*register].value(row),
            KeySource::Outer(index) => {
                let outer = rows.outer.as_ref().ok_or_else(|| ExecError::Internal("no outer rows".into()))?;
                let (batch, outer_row) = outer.rows[row];
                let array = outer.batches[batch as usize].column(*index);
                array_value(array, column.data_type, outer_row as usize).ok_or_else(|| {
                    ExecError::Input(format!("a key of type {} comes as {}", column.data_type, array.data_type()))
                })?
            }
        };
        if value == saki_base::ValueRef::Null {
            return Ok(false);
        }
        encode_column(*column, value, out).map_err(|error| ExecError::Input(error.to_string()))?;
    }
    Ok(true)
}
