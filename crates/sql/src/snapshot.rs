//! A published generation and its catalog: what a statement works on.

use std::sync::Arc;

use saki_base::Generation;
use saki_volume::SnapshotGuard;

use crate::catalog::Catalog;

/// Immutable; while it is held every page it refers to stays readable.
pub struct Snapshot {
    pub guard: Arc<SnapshotGuard>,
    pub catalog: Catalog,
}

impl Snapshot {
    pub fn generation(&self) -> Generation {
        self.guard.generation()
    }
}
