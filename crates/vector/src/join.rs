//! Hash joins: a table of build rows, probed by batches.

use std::sync::Arc;

use arrow_array::UInt32Array;
use arrow_schema::DataType;

use crate::{Batch, Column, KeyFilter, Result};

/// Build rows of one thread, being gathered.
pub struct JoinBuild;

impl JoinBuild {
    /// `keys`: logical types of the key columns, equal on both sides; `payload`: of the other columns that are kept.
    pub fn new(keys: &[DataType], payload: &[DataType]) -> Self {
        let _ = (keys, payload);
        todo!()
    }

    /// Adds rows. `batch` has the payload columns. Rows with a NULL key stay as rows (outer joins want them) and match nothing.
    pub fn push(&mut self, keys: &[Column], batch: &Batch) -> Result<()> {
        let _ = (keys, batch);
        todo!()
    }

    pub fn rows(&self) -> usize {
        todo!()
    }

    pub fn memory_bytes(&self) -> usize {
        todo!()
    }
}

/// The build side of a join, complete; shared by all who probe.
pub struct JoinTable;

impl JoinTable {
    /// Of what each thread gathered. `track_matches`: remember which build rows found a partner (right, full, semi and anti joins
    /// that yield build rows). May use `threads` scoped threads.
    pub fn build(parts: Vec<JoinBuild>, track_matches: bool, threads: usize) -> Result<Arc<Self>> {
        let _ = (parts, track_matches, threads);
        todo!()
    }

    pub fn rows(&self) -> usize {
        todo!()
    }

    pub fn memory_bytes(&self) -> usize {
        todo!()
    }

    /// A filter on key column `key` for the probe side's scan.
    pub fn key_filter(&self, key: usize) -> Option<KeyFilter> {
        let _ = key;
        todo!()
    }

    /// Every pair of matching rows, in the order of the probe rows, appended to `matches`. NULL matches nothing.
    pub fn probe(&self, keys: &[Column], rows: usize, matches: &mut Matches) -> Result<()> {
        let _ = (keys, rows, matches);
        todo!()
    }

    /// Payload columns of build rows; a NULL position gives NULLs.
    pub fn gather(&self, rows: &UInt32Array, columns: &[usize]) -> Result<Vec<Column>> {
        let _ = (rows, columns);
        todo!()
    }

    /// Notes that these build rows have found a partner.
    pub fn mark(&self, rows: &[u32]) {
        let _ = rows;
        todo!()
    }

    /// Build rows of part `part` of `parts` that have (`matched`) or have not been marked, ascending.
    pub fn marked(&self, matched: bool, part: usize, parts: usize) -> Vec<u32> {
        let _ = (matched, part, parts);
        todo!()
    }
}

/// Pairs of matching rows. Kept between batches, so that probing allocates nothing.
#[derive(Default, Debug)]
pub struct Matches {
    pub build: Vec<u32>,
    pub probe: Vec<u32>,
}
