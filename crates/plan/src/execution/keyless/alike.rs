//! Rows without columns are all alike: in whatever order they come, they are sorted by anything.
//!
//! The planner's sorts cannot make batches of them. `row_number() OVER (ORDER BY (SELECT 1))` asks for one.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::StatisticsArgs;

use crate::node::{EachNode, Plan, SakiNode, statistics_of};

/// Puts [`AlikeExec`] in the place of sorts of rows without columns.
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
    Ok(Transformed::yes(AlikeExec { input, properties: Arc::clone(plan.properties()) }.into_plan()))
}

/// Its input, in the order that was asked for.
#[derive(Debug)]
struct AlikeExec {
    input: Plan,
    /// Those of the sort.
    properties: Arc<PlanProperties>,
}

impl SakiNode for AlikeExec {
    fn name(&self) -> &'static str {
        "AlikeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Self { input, properties: Arc::clone(&self.properties) }.into_plan())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn statistics(&self, _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        statistics_of(self.input.as_ref())
    }
}
