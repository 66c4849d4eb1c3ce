//! Joins: a table of build rows, probed by batches; by hashed keys, and by ranges of a value among rows of one key.
//!
//! ```text
//!   JoinBuild (one per thread) ─┐
//!   JoinBuild                  ─┼─► JoinTable:  keys ─► index ─► positions ─► pairs of rows ─► gather
//!   …                          ─┘                        │
//!                                              (`key_index`)
//! ```
//! With a range, the rows of a key lie sorted by their values, and what is found of them are runs ([`ranges`]).

mod build;
mod marks;
mod payload;
mod ranges;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use arrow_array::{BooleanArray, UInt32Array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};

pub use build::JoinBuild;
use marks::Marks;
use ranges::Ranges;
pub use ranges::{RangeKey, Runs};

use crate::key_index::positions::{NOWHERE, unique_pairs};
use crate::key_index::{Index, parallel};
use crate::{Column, KeyFilter, Result, VectorError};

pub use crate::key_index::positions::Matches;

/// The build side of a join, complete; shared by all who probe.
#[derive(Debug)]
pub struct JoinTable {
    rows: usize,
    index: Index,
    /// Rows lie in its order, if there is one; else as they came.
    ranges: Option<Ranges>,
    /// Key columns of each batch, and its rows.
    keys: Vec<(Vec<Column>, usize)>,
    payload: Vec<Column>,
    marks: Option<Marks>,
}

impl JoinTable {
    /// Of what each thread gathered. Batches may change places, the rows of one stay together. `track_matches`:
    /// remember which build rows found a partner (right, full, semi and anti joins that yield build rows). May use
    /// `threads` scoped threads. While it is made, the parts and the table take memory.
    pub fn build(parts: Vec<JoinBuild>, track_matches: bool, threads: usize) -> Result<Arc<Self>> {
        let mut parts = parts.into_iter();
        let mut all = parts.next().ok_or_else(|| VectorError::internal("a join table of no parts"))?;
        parts.try_for_each(|part| all.append(part))?;
        all.sort_batches()?;
        let rows = all.rows();
        let index = Index::build(&all.key_types, &all.keys, all.bounds.as_deref(), all.nulls_equal, threads)?;
        let sorted = all.range.map(|range| Ranges::build(&range, &all.ranged, rows, index.groups())).transpose()?;
        let (ranges, order) = sorted.unzip();
        let order = order.map(UInt32Array::from);
        let columns: Vec<_> = all.payload.into_iter().zip(&all.payload_types).collect();
        let payload = unite_payload(columns, order.as_ref(), parallel::shares(rows, threads))?;
        let marks = track_matches.then(|| Marks::new(rows));
        Ok(Arc::new(Self { rows, index, ranges, keys: all.keys, payload, marks }))
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Memory the table takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let keys: usize = self.keys.iter().flat_map(|(columns, _)| columns).map(payload::column_bytes).sum();
        let payload: usize = self.payload.iter().map(payload::column_bytes).sum();
        let index = self.index.memory_bytes() + self.ranges.as_ref().map_or(0, Ranges::memory_bytes);
        keys + payload + index + self.marks.as_ref().map_or(0, Marks::memory_bytes)
    }

    /// No two build rows have the same key: a probe row has one partner at most. If then an inner join's
    /// [`Matches::probe`] is as long as the batch, it is all rows of it, in order.
    pub fn is_unique(&self) -> bool {
        self.index.groups().is_none()
    }

    /// A filter on key column `key` for the probe side's scan; `None` where its type has none, or if NULLs are equal.
    pub fn key_filter(&self, key: usize) -> Option<KeyFilter> {
        if self.index.nulls_equal() {
            return None;
        }
        let columns = self.keys.iter().map(|(columns, _)| columns.get(key)).collect::<Option<Vec<_>>>()?;
        KeyFilter::of(&columns)
    }

    /// Of a join with a range: the partners of each probe row. `keys` has the bounds after the columns that are to be
    /// equal. `None`: it has no range, and is asked by [`JoinTable::probe`] and its like.
    pub fn runs(&self, keys: &[Column], rows: usize) -> Result<Option<Runs>> {
        let Some(ranges) = &self.ranges else { return Ok(None) };
        let (keys, bounds) = keys.split_at(keys.len().saturating_sub(ranges.bounds_each_row()));
        let bounds = ranges.bounds(bounds)?;
        let mut runs = Vec::with_capacity(rows);
        self.index.find(keys, rows, |start, positions| {
            let rows = (start as usize..).zip(positions);
            runs.extend(rows.map(|(row, position)| ranges.find(*position, row, &bounds)));
        })?;
        Ok(Some(Runs::new(runs)))
    }

    /// Every pair of matching rows, in the order of the probe rows, appended to `matches`, which is empty, until there
    /// are `pairs_max`; a row's are all there or none. How many rows were looked up, one at least. NULL matches
    /// nothing.
    pub fn probe(&self, keys: &[Column], rows: usize, pairs_max: usize, matches: &mut Matches) -> Result<usize> {
        self.pairs(keys, rows, false, pairs_max, matches)
    }

    /// As [`JoinTable::probe`], and each probe row without a partner once, with [`Matches::NO_ROW`] as its build row.
    pub fn probe_outer(&self, keys: &[Column], rows: usize, pairs_max: usize, matches: &mut Matches) -> Result<usize> {
        self.pairs(keys, rows, true, pairs_max, matches)
    }

    fn pairs(
        &self,
        keys: &[Column],
        rows: usize,
        outer: bool,
        pairs_max: usize,
        matches: &mut Matches,
    ) -> Result<usize> {
        debug_assert!(matches.build.is_empty() && pairs_max > 0, "a look-up gets on");
        let mut stopped = None;
        self.index.find(keys, rows, |start, positions| match self.index.groups() {
            None => unique_pairs(positions, start, outer, matches),
            Some(_) if stopped.is_some() => {}
            Some(groups) => {
                let done = groups.pairs(positions, start, outer, pairs_max, matches);
                stopped = (done < positions.len()).then_some(start as usize + done);
            }
        })?;
        Ok(stopped.unwrap_or(rows))
    }

    /// Whether each probe row has a partner; never NULL.
    pub fn probe_semi(&self, keys: &[Column], rows: usize) -> Result<BooleanArray> {
        let mut found = BooleanBufferBuilder::new(rows);
        self.index.find(keys, rows, |_, positions| {
            found.append_buffer(&BooleanBuffer::collect_bool(positions.len(), |row| positions[row] != NOWHERE));
        })?;
        Ok(BooleanArray::new(found.finish(), None))
    }

    /// Payload columns of build rows; a NULL position gives NULLs.
    pub fn gather(&self, rows: &UInt32Array, columns: &[usize]) -> Result<Vec<Column>> {
        let column = |column: &usize| match self.payload.get(*column) {
            Some(column) => column.take(rows),
            None => Err(VectorError::internal(format!("no payload column {column}"))),
        };
        columns.iter().map(column).collect()
    }

    /// Notes that these build rows have found a partner ([`Matches::NO_ROW`] is none).
    pub fn mark(&self, rows: &[u32]) {
        if let Some(marks) = &self.marks {
            marks.mark(rows);
        }
    }

    /// Build rows of part `part` of `parts` that have (`matched`) or have not been marked, ascending. Not before all
    /// probing has ended.
    pub fn marked(&self, matched: bool, part: usize, parts: usize) -> Vec<u32> {
        let bound = |part: usize| (self.rows as u128 * part as u128 / parts.max(1) as u128) as usize;
        let range = bound(part)..bound(part + 1).min(self.rows);
        match &self.marks {
            Some(marks) => marks.rows(matched, range),
            None => Vec::new(),
        }
    }
}

/// Each payload column as one array, in another order if there is one; threads share the columns out.
fn unite_payload(
    columns: Vec<(Vec<Column>, &arrow_schema::DataType)>,
    order: Option<&UInt32Array>,
    threads: usize,
) -> Result<Vec<Column>> {
    let width = columns.len();
    let mut shares: Vec<Vec<_>> = (0..threads.clamp(1, width.max(1))).map(|_| Vec::new()).collect();
    let threads = shares.len();
    for (position, column) in columns.into_iter().enumerate() {
        shares[position % threads].push((position, column));
    }
    let unite = |share: Vec<(usize, (Vec<Column>, &arrow_schema::DataType))>| -> Result<Vec<(usize, Column)>> {
        // Each column's batches are dropped once it is one.
        let one = |(position, (batches, logical)): (usize, (Vec<Column>, _))| -> Result<(usize, Column)> {
            let column = payload::unite(&batches, logical)?;
            Ok((position, order.map_or_else(|| Ok(column.clone()), |order| column.take(order))?))
        };
        share.into_iter().map(one).collect()
    };
    let united = parallel::run(shares.into_iter().map(|share| || unite(share)).collect())?;
    let mut united: Vec<(usize, Column)> = united.into_iter().flatten().collect();
    united.sort_unstable_by_key(|(position, _)| *position);
    Ok(united.into_iter().map(|(_, column)| column).collect())
}
