//! Joins without keys look at every pair of rows, and do not look up while they do so: a query of two large inputs
//! could not be stopped for minutes, and would keep its thread from all others. Their probe side comes in small batches
//! here, as many rows as take little time, between which the thread is given back now and then.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};

use super::slices::{Pace, SlicesExec};
use crate::node::{SakiNode, find};

/// Puts [`SlicesExec`] below joins without keys.
#[derive(Debug)]
pub struct YieldingJoins;

impl PhysicalOptimizerRule for YieldingJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let transformed = plan.transform_up(|plan| {
            let is_join = plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>();
            let [build, probe] = plan.children()[..] else { return Ok(Transformed::no(plan)) };
            if !is_join || find(probe.as_ref()).is_some_and(SakiNode::yields) {
                return Ok(Transformed::no(plan));
            }
            let children = vec![Arc::clone(build), SlicesExec::new(Arc::clone(probe), Pace::Turns).into_plan()];
            replace_children_if_necessary(plan, children).map(Transformed::yes)
        });
        transformed.map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "saki_yielding_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::RecordBatch;

    use super::*;
    use crate::fixture::{memory_plan, run, small_batch, small_schema};
    use crate::node::Plan;

    fn numbered(rows: i64) -> RecordBatch {
        small_batch(&(0..rows).map(|k| (Some(k), None, None)).collect::<Vec<_>>())
    }

    #[test]
    fn joins_without_keys_get_one_above_their_probe_side() {
        let side = || memory_plan(&[vec![numbered(3), numbered(2)]], &small_schema());
        let cross: Plan = Arc::new(CrossJoinExec::new(side(), side()));
        let expected = run(&cross);
        let plan = YieldingJoins.optimize(cross, &ConfigOptions::default()).unwrap();
        let yields = |plan: &Plan| find(plan.as_ref()).is_some_and(SakiNode::yields);
        assert_eq!(plan.children().into_iter().map(yields).collect::<Vec<_>>(), [false, true]);
        assert_eq!(run(&plan), expected);
        let again = YieldingJoins.optimize(Arc::clone(&plan), &ConfigOptions::default()).unwrap();
        assert!(!yields(again.children()[1].children()[0]), "one is enough");
    }
}
