//! Rows of a series come in its order, as those who write `SELECT g * 2 FROM generate_series(1, 50000) g` expect. The
//! planner would spread them over partitions wherever something is computed of them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_plan::Partitioning;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use saki_plan::{EachNode, Plan};

/// Leaves series in one partition.
pub const SERIES_IN_ORDER: EachNode = EachNode::new("saki_series_in_order", in_order);

fn in_order(plan: Plan, _: &ConfigOptions) -> Result<Transformed<Plan>> {
    let spread = plan.downcast_ref::<RepartitionExec>().map(RepartitionExec::partitioning);
    let is_spread = matches!(spread, Some(Partitioning::RoundRobinBatch(_)));
    Ok(match plan.children()[..] {
        [input] if is_spread && is_series(input) => Transformed::yes(Arc::clone(input)),
        _ => Transformed::no(plan),
    })
}

/// Whether a plan is a series, or what is made of its rows one by one.
fn is_series(plan: &Plan) -> bool {
    plan.is::<LazyMemoryExec>() || matches!(plan.children()[..], [only] if is_series(only))
}
