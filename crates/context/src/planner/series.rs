//! Rows of a series come in its order, as those who write `SELECT g * 2 FROM generate_series(1, 50000) g` expect. The
//! planner would spread them over partitions wherever something is computed of them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

/// Leaves series in one partition.
#[derive(Debug)]
pub struct SeriesInOrder;

impl PhysicalOptimizerRule for SeriesInOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let transformed = plan.transform_up(|plan| {
            let spread = plan.downcast_ref::<RepartitionExec>().map(RepartitionExec::partitioning);
            let is_spread = matches!(spread, Some(Partitioning::RoundRobinBatch(_)));
            Ok(match plan.children()[..] {
                [input] if is_spread && is_series(input) => Transformed::yes(Arc::clone(input)),
                _ => Transformed::no(plan),
            })
        });
        transformed.map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "saki_series_in_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a plan is a series, or what is made of its rows one by one.
fn is_series(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<LazyMemoryExec>() || matches!(plan.children()[..], [only] if is_series(only))
}
