//! A run in memory: as it was read, compared with its checksum, or decoded.

use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::{Array, BooleanArray};
use arrow_buffer::Buffer;
use parking_lot::Mutex;
use saki_base::{DataType, PageAddress, checksum};
use saki_vector::Column;

use crate::segment::ColumnRun;
use crate::{Codec, ColumnsError, Test};

/// What the bytes of a run are.
#[derive(Clone, Copy)]
pub struct RunContent<'a> {
    pub run: &'a ColumnRun,
    pub data_type: DataType,
    pub rows: usize,
    pub codec: &'a dyn Codec,
}

/// A run in memory.
pub struct Resident {
    page: PageAddress,
    /// Held while decoding: a second query then finds the column, and would have had to decode for as long as it waits.
    state: Mutex<State>,
    /// Scans that have asked for it. The first takes what it needs from the encoded bytes and leaves them as they are:
    /// a run that is scanned once does not take the memory of its values. The second decodes it for all that follow.
    uses: AtomicU32,
}

enum State {
    /// Whole pages.
    Read(Buffer),
    /// The blob, with the right checksum.
    Verified(Buffer),
    Decoded(Column),
}

impl Resident {
    pub(super) fn new(page: PageAddress, bytes: Buffer) -> Self {
        Self { page, state: Mutex::new(State::Read(bytes)), uses: AtomicU32::new(1) }
    }

    /// The run's first page.
    pub fn page(&self) -> PageAddress {
        self.page
    }

    pub(super) fn note_use(&self) {
        self.uses.fetch_add(1, Ordering::Relaxed);
    }

    fn used_again(&self) -> bool {
        self.uses.load(Ordering::Relaxed) > 1
    }

    /// Whether its values can be had without decoding.
    pub fn is_decoded(&self) -> bool {
        matches!(&*self.state.lock(), State::Decoded(_))
    }

    /// The values; and, if it was this call that decoded them for good, how many bytes they take.
    pub(super) fn column(&self, content: &RunContent<'_>) -> Result<(Column, Option<usize>), ColumnsError> {
        let mut state = self.state.lock();
        if let State::Decoded(column) = &*state {
            return Ok((column.clone(), None));
        }
        let bytes = verified(&mut state, content.run)?;
        let column = content.codec.decode(&bytes, content.data_type, content.rows)?;
        if column.len() != content.rows {
            let what = format!("{} values in a segment of {} rows", column.len(), content.rows);
            return Err(ColumnsError::Corrupt(what));
        }
        let column = match content.run.zone.bounds() {
            Some(bounds) => Column::with_bounds(column.array().clone(), bounds),
            None => column,
        };
        if !self.used_again() {
            return Ok((column, None));
        }
        let size = column.array().get_array_memory_size();
        *state = State::Decoded(column.clone());
        Ok((column, Some(size)))
    }

    pub(super) fn select(&self, content: &RunContent<'_>, test: &Test) -> Result<Option<BooleanArray>, ColumnsError> {
        let bytes = {
            let mut state = self.state.lock();
            if matches!(&*state, State::Decoded(_)) || self.used_again() {
                return Ok(None);
            }
            verified(&mut state, content.run)?
        };
        let rows = content.codec.select(&bytes, content.data_type, content.rows, test)?;
        match rows {
            Some(rows) if rows.len() != content.rows => {
                let what = format!("{} values in a segment of {} rows", rows.len(), content.rows);
                Err(ColumnsError::Corrupt(what))
            }
            rows => Ok(rows),
        }
    }
}

/// The blob of a run that is not decoded yet, after its checksum has been compared once.
fn verified(state: &mut State, run: &ColumnRun) -> Result<Buffer, ColumnsError> {
    let pages = match state {
        State::Verified(blob) => return Ok(blob.clone()),
        State::Read(pages) => pages,
        State::Decoded(_) => return Err(ColumnsError::Internal("a decoded run has no bytes".into())),
    };
    let length = run.bytes as usize;
    if pages.len() < length {
        return Err(ColumnsError::Corrupt(format!("{} bytes were read of {length}", pages.len())));
    }
    let blob = pages.slice_with_length(0, length);
    if checksum(&blob) != run.checksum {
        let what = format!("{length} bytes from {} do not have the checksum {:016x}", run.first_page, run.checksum);
        return Err(ColumnsError::Corrupt(what));
    }
    *state = State::Verified(blob.clone());
    Ok(blob)
}
