//! The delta of one table, and what outlives it.

use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::{KeyColumn, KeyLayout, PageSize, RowError, RowLayout, ValueRef};
use saki_mvcc::{Direction, IndexDefinition, KeyRange, TableDefinition, Transaction};
use saki_page::key_bytes_max;

use super::room::Room;
use super::row_ids::{AllRowIds, RowIds};
use crate::locks::Locks;
use saki_catalog::{Result, Table};

/// What belongs to tables, not to their deltas: those come and go.
#[derive(Clone, Default)]
pub struct PerTable {
    pub locks: Arc<Locks>,
    pub row_ids: Arc<AllRowIds>,
    /// All deltas' together.
    pub room: Arc<Room>,
}

/// What is kept from one reader of a delta for the next.
type Kept = Arc<dyn Any + Send + Sync>;

/// The rows of one layout of a table that are newer than its base.
pub struct Delta {
    engine: saki_mvcc::Database,
    /// To be read through `reader` only.
    pub(crate) rows: saki_mvcc::Table,
    /// Its table's.
    row_ids: Arc<RowIds>,
    room: Arc<Room>,
    /// How rows are written, if there may be rows in the base that were written otherwise.
    renewed: Option<RowLayout>,
    kept: Mutex<Option<Kept>>,
}

impl Delta {
    /// Of a table that the engine knows; `table` is what the catalog says of it.
    pub(super) fn new(
        engine: &saki_mvcc::Database,
        rows: saki_mvcc::Table,
        table: &Table,
        of_table: &PerTable,
    ) -> Result<Self> {
        let row_ids = of_table.row_ids.of(table);
        if table.primary_key.is_empty()
            && let Some(newest) = newest_row_id(engine, &rows)?
        {
            row_ids.raise(newest + 1);
        }
        let room = Arc::clone(&of_table.room);
        let renewed = (!table.stored.is_plain()).then(|| table.primary_layout().row);
        Ok(Self { engine: engine.clone(), rows, row_ids, room, renewed, kept: Mutex::default() })
    }

    /// Takes `count` hidden row ids; the first of them.
    pub fn row_ids(&self, count: usize) -> i64 {
        self.row_ids.take(count)
    }

    /// Makes a row, or a deletion for `None`, the newest version of a key. A row may be the base's as it is there, to
    /// hold it: here all are of the table's present era, since the engine knows of no other.
    ///
    /// # Errors
    /// As [`Transaction::write`]: the first to commit wins, whether the version it meets has been merged or not.
    /// `Memory` if deltas take more than they may.
    pub fn write(
        &self,
        transaction: &mut Transaction<'_>,
        key: &[u8],
        row: Option<&[u8]>,
    ) -> Result<(), saki_mvcc::Error> {
        self.room.admit(&self.engine)?;
        if let (Some(layout), Some(row)) = (&self.renewed, row) {
            let malformed = |error: RowError| saki_mvcc::Error::Malformed {
                table: self.rows.name().into(),
                reason: error.to_string(),
            };
            if let Some(renewed) = layout.renewed(row).map_err(malformed)? {
                return transaction.write(&self.rows, key, Some(&renewed));
            }
        }
        transaction.write(&self.rows, key, row)
    }

    /// Has a serializable transaction answer for all that is in the delta.
    pub fn answer_for_all(&self, transaction: &Transaction<'_>) {
        transaction.scan_all(&self.rows, &KeyRange::all(), Direction::Forward, |_, _| ControlFlow::Continue(()));
    }

    /// Rows in memory, deletions and those that have been merged and not released included, about.
    pub fn rows(&self) -> u64 {
        self.rows.rows()
    }

    /// Bytes that these take, about.
    pub fn bytes(&self) -> u64 {
        self.rows.bytes()
    }

    /// Whether a commit later than `timestamp` has changed it.
    pub fn changed_since(&self, timestamp: u64) -> bool {
        self.engine.changed_since(&self.rows, timestamp)
    }

    /// Keeps something for the next reader, in place of what was kept.
    pub(crate) fn keep(&self, made: Kept) {
        *self.kept.lock() = Some(made);
    }

    pub(crate) fn kept(&self) -> Option<Kept> {
        self.kept.lock().clone()
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
    let reader = engine.moment().and_then(|moment| moment.reader())?;
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

/// What the engine is to know of a table whose base has pages of that size.
pub fn definition(table: &Table, page_size: PageSize) -> TableDefinition {
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
        // What could not be merged is not to be written.
        key_bytes_max: Some(key_bytes_max(page_size)),
    }
}
