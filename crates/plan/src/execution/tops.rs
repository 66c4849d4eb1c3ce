//! Aggregates that keep the first groups only make room for all that they may keep at their beginning. Of a limit such
//! as programs write that want all rows, that is more than any machine has: these take groups as others do.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// Groups that room is made for at most.
const GROUPS_MAX: usize = 1 << 17;

/// Takes limits from aggregates that are too large for them.
#[derive(Debug)]
pub struct ModestTops;

impl PhysicalOptimizerRule for ModestTops {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let transformed = plan.transform_up(|plan| {
            let aggregate = plan.downcast_ref::<AggregateExec>();
            let large = aggregate.filter(|node| node.limit_options().is_some_and(|limit| limit.limit > GROUPS_MAX));
            Ok(match large {
                Some(aggregate) => Transformed::yes(Arc::new(aggregate.with_new_limit_options(None)) as _),
                None => Transformed::no(plan),
            })
        });
        transformed.map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "saki_modest_tops"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
