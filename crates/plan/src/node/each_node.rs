//! Rules of the physical planner that look at one node after the other.

use std::fmt;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use super::plan::Plan;

/// What comes in a node's place, by the planner's settings.
type Replace = fn(Plan, &ConfigOptions) -> Result<Transformed<Plan>>;

/// A rule that says for each node, after those below it, what comes in its place. The schema stays.
pub struct EachNode {
    name: &'static str,
    replace: Replace,
}

impl EachNode {
    pub const fn new(name: &'static str, replace: Replace) -> Self {
        Self { name, replace }
    }
}

impl PhysicalOptimizerRule for EachNode {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| (self.replace)(node, config)).map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl fmt::Debug for EachNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
