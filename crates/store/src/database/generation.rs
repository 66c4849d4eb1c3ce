//! A published generation and its catalog.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use saki_base::{GenerationNumber, TableId};
use saki_columns::SegmentTable;
use saki_volume::HeldGeneration;

use super::segment_tables::SegmentTables;
use crate::delta::Delta;
use saki_catalog::{Catalog, Result, SharedMap, Table};

/// Tells a generation from all others that there have been since the process began, published ones and those that open
/// transactions have of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity(u64);

impl Identity {
    /// Another one.
    pub fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: it is only to be another.
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Never 0.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Immutable; while it is held every page it refers to stays readable.
pub struct Generation {
    /// What is kept for a catalog is known by this. A transaction that changes its catalog has another with each
    /// change, and again the one of before when it goes back to that.
    pub identity: Identity,
    /// No two that are ever the newest have the same. A transaction's own has that of the published one that it is made
    /// of.
    pub number: GenerationNumber,
    /// How many publications since the database was opened have made what is not in its logs: definitions, and rows
    /// that were loaded. Between two with the same number lie merges, and the positions of sequences.
    pub unlogged: u64,
    pub guard: Arc<HeldGeneration>,
    pub catalog: Catalog,
    pub segment_tables: Arc<SegmentTables>,
    /// Of every table; none before the first change that went to a delta.
    pub deltas: SharedMap<TableId, Arc<Delta>>,
}

/// A generation that is no longer the newest.
pub(crate) struct Past {
    pub number: GenerationNumber,
    pub generation: Weak<Generation>,
    pub superseded: Instant,
}

impl Past {
    pub fn is_in_use(&self) -> bool {
        self.generation.strong_count() > 0
    }
}

impl Generation {
    pub fn number(&self) -> GenerationNumber {
        self.number
    }

    /// Whether the volume has it. One that the device refused is in memory alone, and the last before the next opening:
    /// see `draft::commit`.
    pub fn is_published(&self) -> bool {
        self.number == self.guard.generation()
    }

    /// What is newer than the base of a table of this generation's catalog; `None`: no table has a delta yet.
    pub fn delta(&self, table: &Table) -> Option<&Arc<Delta>> {
        self.deltas.get(&table.delta)
    }

    /// The segments of a table of this generation's catalog; `None` if it has none (`columns = off`). Read once per
    /// generation of the table: the first call waits for storage.
    pub fn segments(&self, table: &Table) -> Result<Option<Arc<SegmentTable>>> {
        self.segment_tables.get(table)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::fixture::{Bench, Shape};

    #[test]
    fn older_generations_are_known_as_long_as_somebody_holds_them() {
        let bench = Bench::new(Shape::default());
        let held = bench.db().generation();
        bench.db().write(|_| Ok(())).expect("published");
        assert_eq!(bench.db().older_generations().len(), 1);
        assert!(held.number() < bench.db().generation().number());
        drop(held);
        assert!(bench.db().older_generations().is_empty());
    }

    #[test]
    fn segments_are_read_once_for_all_generations_that_have_them() {
        let bench = Bench::new(Shape::default());
        bench.load((0..1_000).map(|id| (id, id))).expect("loaded");
        let read = || bench.db().generation().segments(&bench.table()).expect("readable").expect("columns are on");
        let first = read();
        bench.db().write(|_| Ok(())).expect("published");
        assert!(Arc::ptr_eq(&first, &read()));
        bench.load((1_000..2_000).map(|id| (id, id))).expect("appended");
        assert!(!Arc::ptr_eq(&first, &read()));
    }
}
