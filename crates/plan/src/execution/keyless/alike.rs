//! Rows without columns are all alike: in whatever order they come, they are sorted by anything.
//!
//! The planner's sorts cannot make batches of them. `row_number() OVER (ORDER BY (SELECT 1))` asks for one.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

use crate::node::{EachNode, Passing, PassingExec, Plan};

/// Puts [`Alike`] in the place of sorts of rows without columns.
pub const ALIKE_ROWS: EachNode = EachNode::new("saki_alike_rows", unsorted);

fn unsorted(plan: Plan, _: &ConfigOptions) -> Result<Transformed<Plan>> {
    if !plan.schema().fields().is_empty() {
        return Ok(Transformed::no(plan));
    }
    let (input, fetch): (Plan, _) = if let Some(sort) = plan.downcast_ref::<SortExec>() {
        (Arc::clone(sort.input()), sort.fetch())
    } else if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        (Arc::new(CoalescePartitionsExec::new(Arc::clone(merge.input()))), merge.fetch())
    } else {
        return Ok(Transformed::no(plan));
    };
    let input = match fetch {
        Some(rows) => Arc::new(LocalLimitExec::new(input, rows)),
        None => input,
    };
    Ok(Transformed::yes(PassingExec::plan(input, Alike(Arc::clone(plan.properties())))))
}

/// Passes rows on as the sort's: they are in the order that was asked for.
#[derive(Clone, Debug)]
struct Alike(Arc<PlanProperties>);

impl Passing for Alike {
    fn name(&self) -> &'static str {
        "AlikeExec"
    }

    fn pass(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> Result<SendableRecordBatchStream> {
        Ok(rows)
    }

    fn properties(&self, _: &Plan) -> Arc<PlanProperties> {
        Arc::clone(&self.0)
    }

    fn maintains_input_order(&self) -> bool {
        false
    }
}
