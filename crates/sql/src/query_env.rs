//! What one statement's plan needs of the database: its snapshot, its session's choices, and the executor.

use std::fmt;
use std::sync::Arc;

use saki_exec::{Executor, SegmentReader};

use crate::cost::CostModel;
use crate::settings::Settings;
use crate::snapshot::Snapshot;

/// Shared by all nodes of a statement's plan.
pub struct QueryEnv {
    pub snapshot: Arc<Snapshot>,
    pub settings: Settings,
    pub costs: CostModel,
    pub executor: Arc<Executor>,
    pub segment_reader: Arc<SegmentReader>,
}

impl fmt::Debug for QueryEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryEnv").field("settings", &self.settings).finish_non_exhaustive()
    }
}
