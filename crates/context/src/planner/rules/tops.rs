//! Aggregates that keep the first groups only make room for all that they may keep at their beginning. Of a limit such
//! as programs write that want all rows, that is more than any machine has: these take groups as others do.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_plan::aggregates::AggregateExec;
use saki_plan::{EachNode, Plan};

/// Groups that room is made for at most.
const GROUPS_MAX: usize = 1 << 17;

/// Takes limits from aggregates that are too large for them.
pub const MODEST_TOPS: EachNode = EachNode::new("saki_modest_tops", modest);

fn modest(plan: Plan, _: &ConfigOptions) -> Result<Transformed<Plan>> {
    let aggregate = plan.downcast_ref::<AggregateExec>();
    let large = aggregate.filter(|node| node.limit_options().is_some_and(|limit| limit.limit > GROUPS_MAX));
    Ok(match large {
        Some(aggregate) => Transformed::yes(Arc::new(aggregate.with_new_limit_options(None)) as _),
        None => Transformed::no(plan),
    })
}
