//! Grouped aggregation.
//!
//! Each thread fills an [`Aggregator`] of its own; [`merge`] makes groups of all of them.

use arrow_schema::DataType;

use crate::{Batch, Column, Result};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// Of rows, or of the argument's values that are not NULL.
    Count,
    Sum,
    Average,
    Min,
    Max,
}

/// One aggregate of a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub function: Function,
    /// Logical type of the argument; `None`: COUNT(*).
    pub argument: Option<DataType>,
    /// Logical type of the result, as the plan states it.
    pub result: DataType,
}

/// What is grouped by, and what is aggregated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Aggregation {
    /// Logical types of the group columns; none: one group, even of no rows.
    pub keys: Vec<DataType>,
    pub calls: Vec<Call>,
}

/// The groups of the rows that one thread has seen.
pub struct Aggregator;

impl Aggregator {
    pub fn new(aggregation: &Aggregation) -> Self {
        let _ = aggregation;
        todo!()
    }

    /// Adds rows: the group columns, and the argument of each call (`None` for COUNT(*)).
    pub fn update(&mut self, keys: &[Column], arguments: &[Option<Column>], rows: usize) -> Result<()> {
        let _ = (keys, arguments, rows);
        todo!()
    }

    /// Groups so far.
    pub fn groups(&self) -> usize {
        todo!()
    }

    /// Memory the groups take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        todo!()
    }
}

/// Splits what the threads have seen into `partitions` parts that have no group in common and can be finished side by side.
pub fn merge(aggregators: Vec<Aggregator>, partitions: usize) -> Result<Vec<Part>> {
    let _ = (aggregators, partitions);
    todo!()
}

/// Groups of one part, still to be combined.
pub struct Part;

impl Part {
    /// Combines and gives the groups: key columns, then a column for each call, in batches.
    pub fn finish(self) -> Result<Vec<Batch>> {
        todo!()
    }
}
