//! Grouped aggregation.
//!
//! Each thread fills an [`Aggregator`] of its own; [`merge`] makes groups of all of them.
//!
//! ```text
//!   key columns ─► Keys ──► group of each row ──┐
//!                   ├ Whole   no keys           ├─► an Accumulator for each call: arrays by group
//!                   ├ Packed  64-bit keys       │
//!                   └ Rows    bytes             │
//!   argument columns ───────────────────────────┘
//! ```
//!
//! Keys are packed into 64 bits as long as they fit: integers by their distance from the least, text by the number of
//! the word. Packed keys that come in ascending order need no lookup, those of a small range index an array, others a
//! hash table. Keys that do not fit are compared as rows of bytes. A batch may change which of these is used; groups
//! keep their numbers.
//!
//! NULL is a group of its own, and so is NaN; 0 and -0 are one. Results do not depend on how rows were cut into
//! batches; but for sums of floats, neither on their order.

mod accumulators;
mod call;
mod keys;
mod merge;
mod string_array;
#[cfg(test)]
mod tests;
mod values;

use arrow_array::BooleanArray;
use arrow_schema::DataType;

use crate::{Column, Result, VectorError};
use accumulators::{Accumulators, Arguments, Assignment, FEW, Step};
pub use call::{Call, Function};
use keys::{Keys, rows};
pub use merge::{Part, merge};

/// What is grouped by, and what is aggregated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Aggregation {
    /// Logical types of the group columns; none: one group, even of no rows.
    pub keys: Vec<DataType>,
    pub calls: Vec<Call>,
}

impl Aggregation {
    /// Whether all keys and calls are of types that an [`Aggregator`] takes. Others are [`VectorError::Internal`]
    /// errors.
    pub fn is_supported(&self) -> bool {
        self.keys.iter().all(rows::is_key) && self.calls.iter().all(Call::is_supported)
    }
}

/// The groups of the rows that one thread has seen.
pub struct Aggregator {
    aggregation: Aggregation,
    keys: Keys,
    accumulators: Accumulators,
    /// Rows by group, if a call wants them.
    rows: Vec<i64>,
    counts_rows: bool,
    /// The group of each row of a batch; in bytes if there are few groups.
    assigned: Vec<u32>,
    assigned_few: Vec<u8>,
}

impl Aggregator {
    pub fn new(aggregation: &Aggregation) -> Self {
        let mut accumulators = Accumulators::new(&aggregation.calls);
        let counts_rows =
            aggregation.calls.iter().any(|call| matches!(call.function, Function::Count | Function::Average));
        let keys = Keys::new(&aggregation.keys);
        let mut rows = Vec::new();
        if matches!(keys, Keys::Whole) {
            accumulators.expect_nothing();
            rows.resize(usize::from(counts_rows), 0);
        }
        Self {
            aggregation: aggregation.clone(),
            keys,
            accumulators,
            rows,
            counts_rows,
            assigned: Vec::new(),
            assigned_few: Vec::new(),
        }
    }

    /// Adds rows: the group columns, and the argument of each call (`None` for COUNT(*)). After an error the groups are
    /// of no use.
    pub fn update(&mut self, keys: &[Column], arguments: &[Option<Column>], rows: usize) -> Result<()> {
        self.update_filtered(keys, arguments, &[], rows)
    }

    /// As [`Self::update`], for calls with a FILTER clause: a call takes the rows for which its filter, if it has one,
    /// is true. `filters` is empty or has a place for each call.
    pub fn update_filtered(
        &mut self,
        keys: &[Column],
        arguments: &[Option<Column>],
        filters: &[Option<BooleanArray>],
        rows: usize,
    ) -> Result<()> {
        self.check(keys, arguments, filters, rows)?;
        if rows == 0 {
            return Ok(());
        }
        let known = self.keys.groups();
        self.keys.assign(&self.aggregation.keys, keys, rows, &mut self.assigned)?;
        let groups = self.keys.groups();
        let assignment = match self.keys {
            Keys::Whole => Assignment::Whole,
            Keys::Packed(_) | Keys::Rows(_) if groups <= FEW => {
                self.assigned_few.clear();
                self.assigned_few.extend(self.assigned.iter().map(|group| *group as u8));
                Assignment::Few(&self.assigned_few)
            }
            Keys::Packed(_) | Keys::Rows(_) => Assignment::Many(&self.assigned),
        };
        if self.counts_rows {
            self.rows.resize(groups, 0);
            assignment.count(rows, &mut self.rows);
        }
        let step = Step { assignment, rows, groups, known };
        self.accumulators.update(step, Arguments { columns: arguments, filters })
    }

    fn check(
        &self,
        keys: &[Column],
        arguments: &[Option<Column>],
        filters: &[Option<BooleanArray>],
        rows: usize,
    ) -> Result<()> {
        let calls = self.aggregation.calls.len();
        let fit = keys.len() == self.aggregation.keys.len()
            && arguments.len() == calls
            && (filters.is_empty() || filters.len() == calls)
            && keys.iter().chain(arguments.iter().flatten()).all(|column| column.len() == rows)
            && filters.iter().flatten().all(|filter| arrow_array::Array::len(filter) == rows);
        if !fit {
            return Err(VectorError::internal("an aggregate's columns do not fit its plan"));
        }
        if self.keys.groups() + rows >= u32::MAX as usize {
            return Err(VectorError::OutOfRange("number of groups".to_owned()));
        }
        Ok(())
    }

    /// Groups so far.
    pub fn groups(&self) -> usize {
        self.keys.groups()
    }

    /// Memory the groups take, in bytes. A caller with a bound asks after each batch: a batch adds at most its own size
    /// a few times over, or doubles a table.
    pub fn memory_bytes(&self) -> usize {
        let scratch = self.assigned.capacity() * size_of::<u32>() + self.assigned_few.capacity();
        self.keys.memory_bytes() + self.accumulators.memory_bytes() + self.rows.capacity() * size_of::<i64>() + scratch
    }
}
