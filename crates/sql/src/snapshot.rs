//! A published generation and its catalog: what a statement works on.

use std::sync::Arc;

use saki_base::Generation;
use saki_columns::SegmentTable;
use saki_volume::SnapshotGuard;

use crate::catalog::{Catalog, Table};
use crate::error::Result;
use crate::segments::SegmentTables;

/// Immutable; while it is held every page it refers to stays readable.
pub struct Snapshot {
    pub guard: Arc<SnapshotGuard>,
    pub catalog: Catalog,
    pub(crate) segment_tables: Arc<SegmentTables>,
}

impl Snapshot {
    pub fn generation(&self) -> Generation {
        self.guard.generation()
    }

    /// The segments of a table of this snapshot's catalog; `None` if it has none (`columns = off`). Read once per generation of the
    /// table: the first call waits for storage.
    pub fn segments(&self, table: &Table) -> Result<Option<Arc<SegmentTable>>> {
        self.segment_tables.get(table)
    }
}
