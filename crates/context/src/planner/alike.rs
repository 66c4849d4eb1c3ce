//! Rows without columns are all alike: whatever they are sorted by, their order is right as it is.
//!
//! The planner's sorts cannot make batches of them. `row_number() OVER (ORDER BY (SELECT 1))` asks for one.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use saki_plan::{EachNode, Plan};

/// Leaves sorts of rows without columns out, and their limits in.
pub const ALIKE_ROWS: EachNode = EachNode::new("saki_alike_rows", unsorted);

fn unsorted(plan: Plan, _: &ConfigOptions) -> Result<Transformed<Plan>> {
    if !plan.schema().fields().is_empty() {
        return Ok(Transformed::no(plan));
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return Ok(Transformed::yes(limited(Arc::clone(sort.input()), sort.fetch())));
    }
    if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        let together = Arc::new(CoalescePartitionsExec::new(Arc::clone(merge.input())));
        return Ok(Transformed::yes(limited(together, merge.fetch())));
    }
    Ok(Transformed::no(plan))
}

/// The first rows of each partition, as a sort gives them.
fn limited(plan: Plan, fetch: Option<usize>) -> Plan {
    match fetch {
        Some(rows) => Arc::new(LocalLimitExec::new(plan, rows)),
        None => plan,
    }
}
