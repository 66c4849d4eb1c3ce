//! Conditions into the scans below them, where the planner's own rule may be trusted.
//!
//! DataFusion pushes a condition through a projection by the names of its columns. Of a join whose sides have columns
//! of the same name it then asks the wrong one. So its rule runs on plans without projections only, which is where
//! conditions that no test of storage says end up: right above a scan, or a join of scans.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use saki_plan::Plan;

/// The rule; stands in for the one that it runs.
#[derive(Debug)]
pub struct PushFilters;

impl PhysicalOptimizerRule for PushFilters {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let rule = FilterPushdown::new();
        plan.transform_up(|node| {
            if !node.is::<FilterExec>() || node.exists(|below| Ok(below.is::<ProjectionExec>()))? {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(rule.optimize(node, config)?))
        })
        .map(|transformed| transformed.data)
    }

    fn name(&self) -> &'static str {
        "push_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
