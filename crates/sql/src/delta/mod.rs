//! The newer half of every table: its **delta**, rows in memory over the published trees, its **base**.
//!
//! ```text
//!   INSERT, UPDATE, DELETE ─► Delta (rows in `saki-mvcc`, one table of its own for each of ours) ─► logs
//!                                │ hides base rows of its keys                │
//!   queries ◄── ReadView ◄───────┤                                            │ cut
//!                 │              ▼ merge (checkpoint)                         ▼
//!                 └────────► base: trees and column segments of a generation
//! ```
//!
//! # Invariants
//! - A key that the delta has, be it a row or a deletion, hides the base row of that key in every access path.
//! - A snapshot is (timestamp, generation): the generation is taken first, so the timestamp is never before the merge that
//!   made it, and the rows a generation is without are still in memory for as long as somebody holds it.
//! - A delta belongs to one layout of its table. A statement that changes the layout merges the delta first and begins a new one.
//!
//! # Failure model
//! Logs lie in a directory beside the database. The catalog says whether there are any, so a database without its logs is
//! refused, not opened with rows missing.

mod background;
mod checkpoint;
mod engine;
mod gates;
mod overlay;
mod segments;
mod view;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use saki_base::{KeyColumn, KeyLayout, ValueRef};
use saki_mvcc::{Direction, IndexDefinition, KeyRange, TableDefinition};

use crate::catalog::Table;
use crate::error::{Result, SqlError};

pub(crate) use background::Checkpointer;
pub use checkpoint::CheckpointReport;
pub(crate) use checkpoint::{Alone, Release};
pub use engine::{Engine, LogState, log_directory};
pub(crate) use gates::{Gate, Gates};
pub(crate) use overlay::IndexEntries;
pub(crate) use segments::SegmentOverlay;
pub use view::ReadView;

/// The rows of one layout of a table that are newer than its base.
pub struct Delta {
    engine: saki_mvcc::Database,
    pub rows: saki_mvcc::Table,
    /// Its table's.
    pub gate: Arc<Gate>,
    next_row_id: AtomicI64,
    last_overlay: segments::LastOverlay,
}

impl Delta {
    /// Of a table that the engine knows; `table` is what the catalog says of it.
    fn new(engine: &saki_mvcc::Database, rows: saki_mvcc::Table, table: &Table, gate: Arc<Gate>) -> Result<Self> {
        let newest = match table.primary_key.is_empty() {
            true => newest_row_id(engine, &rows)?,
            false => None,
        };
        let next = newest.map_or(0, |id| id + 1).max(table.next_row_id);
        Ok(Self {
            engine: engine.clone(),
            rows,
            gate,
            next_row_id: AtomicI64::new(next),
            last_overlay: segments::LastOverlay::default(),
        })
    }

    /// Takes `count` hidden row ids; the first of them.
    pub fn row_ids(&self, count: usize) -> i64 {
        self.next_row_id.fetch_add(count as i64, Ordering::Relaxed)
    }

    /// The next hidden row id.
    pub fn next_row_id(&self) -> i64 {
        self.next_row_id.load(Ordering::Relaxed)
    }
}

impl Drop for Delta {
    fn drop(&mut self) {
        // No snapshot has it any more. The engine keeps no file of its tables, so there is nothing to fail.
        let _ = self.engine.drop_table(&self.rows);
    }
}

/// The highest hidden row id in a delta.
fn newest_row_id(engine: &saki_mvcc::Database, rows: &saki_mvcc::Table) -> Result<Option<i64>> {
    let layout =
        KeyLayout::new([KeyColumn { data_type: saki_base::DataType::Int8, nullable: false, descending: false }]);
    let reader = engine.view().and_then(|view| view.reader()).map_err(mvcc_error)?;
    let mut newest = None;
    reader.scan(rows, &KeyRange::all(), Direction::Reverse, |key, _, _| {
        newest = match layout.decode(key, 0, &mut Vec::new()) {
            Ok(ValueRef::Int8(id)) => Some(id),
            _ => None,
        };
        ControlFlow::Break(())
    });
    Ok(newest)
}

/// What the engine is to know of a table.
pub(crate) fn definition(table: &Table) -> TableDefinition {
    TableDefinition {
        name: table.name.clone(),
        columns: table.columns.clone(),
        primary_key: table.primary_key.clone(),
        indexes: table
            .indexes
            .iter()
            .map(|index| IndexDefinition {
                name: index.name.clone(),
                columns: index.columns.iter().map(|column| column.column).collect(),
                descending: index.columns.iter().map(|column| column.descending).collect(),
                unique: index.unique,
            })
            .collect(),
        over_base: true,
    }
}

/// Whether rows of one are laid out as those of the other, in the delta's table and in its indexes.
pub(crate) fn same_layout(left: &Table, right: &Table) -> bool {
    let types = |table: &Table| -> Vec<_> { table.columns.iter().map(|c| (c.data_type, c.nullable)).collect() };
    let indexes = |table: &Table| -> Vec<_> { table.indexes.iter().map(|i| (i.columns.clone(), i.unique)).collect() };
    left.layout_version == right.layout_version
        && types(left) == types(right)
        && left.primary_key == right.primary_key
        && indexes(left) == indexes(right)
}

/// An error of the engine as a statement's.
pub(crate) fn mvcc_error(error: saki_mvcc::Error) -> SqlError {
    use saki_mvcc::{Error, LogError};
    let message = error.to_string();
    match error {
        Error::Duplicate { .. } => SqlError::constraint(message).code("23505"),
        Error::Deadlock => SqlError::invalid("deadlock detected: transactions wait for each other's rows")
            .code("40P01")
            .hint("repeat the transaction"),
        error if error.is_retryable() => SqlError::invalid(format!("could not serialize access: {message}"))
            .code("40001")
            .hint("repeat the transaction"),
        Error::KeyTooLong { .. } | Error::RowTooLarge { .. } => SqlError::data(message).code("54000"),
        Error::TooManySessions { .. } => SqlError::invalid(message).code("53300"),
        Error::Memory { .. } => SqlError::storage(message).code("53200"),
        Error::Malformed { .. } => SqlError::corrupt(message),
        Error::Log(LogError::Full { .. }) => SqlError::disk_full(message),
        _ => SqlError::storage(message),
    }
}
