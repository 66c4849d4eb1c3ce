//! A published generation and its catalog: what a statement works on.

use std::collections::HashMap;
use std::sync::Arc;

use saki_base::{Generation, TableId};
use saki_columns::SegmentTable;
use saki_volume::SnapshotGuard;

use crate::catalog::{Catalog, Table};
use crate::delta::Delta;
use crate::error::Result;
use crate::segments::SegmentTables;

/// Immutable; while it is held every page it refers to stays readable.
pub struct Snapshot {
    pub guard: Arc<SnapshotGuard>,
    pub catalog: Catalog,
    pub(crate) segment_tables: Arc<SegmentTables>,
    /// Of every table; none before the first change that went to a delta.
    pub(crate) deltas: HashMap<TableId, Arc<Delta>>,
}

impl Snapshot {
    pub fn generation(&self) -> Generation {
        self.guard.generation()
    }

    /// What is newer than the base of a table of this snapshot's catalog; `None`: no table has a delta yet.
    pub(crate) fn delta(&self, table: &Table) -> Option<&Arc<Delta>> {
        self.deltas.get(&table.delta)
    }

    /// The segments of a table of this snapshot's catalog; `None` if it has none (`columns = off`). Read once per generation of the
    /// table: the first call waits for storage.
    pub fn segments(&self, table: &Table) -> Result<Option<Arc<SegmentTable>>> {
        self.segment_tables.get(table)
    }
}
