//! How far a query has come, for those who watch.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use crate::pipeline_exec::PipelineExec;

/// What the pipelines of a query have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Pages visited.
    pub visits_done: u64,
    /// Rows that the planner expects of the pipelines that have begun; they have as many visits, or fewer.
    pub visits_estimated: u64,
}

/// The last query of a session, for as long as it runs.
#[derive(Default)]
pub struct QueryProgress(Mutex<Option<Weak<dyn ExecutionPlan>>>);

impl QueryProgress {
    /// A query begins.
    pub fn begin(&self, plan: &Arc<dyn ExecutionPlan>) {
        *self.0.lock() = Some(Arc::downgrade(plan));
    }

    /// Nothing, once it has ended.
    pub fn now(&self) -> Progress {
        let plan = self.0.lock().as_ref().and_then(Weak::upgrade);
        let mut progress = Progress::default();
        plan.iter().for_each(|plan| add(plan, &mut progress));
        progress
    }
}

fn add(plan: &Arc<dyn ExecutionPlan>, progress: &mut Progress) {
    if let Some(pipeline) = plan.downcast_ref::<PipelineExec>()
        && let Some(run) = pipeline.run()
    {
        let visits = run.metrics().stages.iter().map(|stage| stage.visits.load(Ordering::Relaxed)).sum::<u64>();
        progress.visits_done += visits;
        progress.visits_estimated += (pipeline.estimate.rows as u64).max(visits);
    }
    plan.children().into_iter().for_each(|child| add(child, progress));
}
