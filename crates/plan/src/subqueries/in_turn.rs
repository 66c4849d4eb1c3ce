//! UNION ALL of constants, and lists of VALUES that become one: their rows come in the order in which they are written.
//! An INSERT counts them so, and of two with one key the first is the one that is there already.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::node::{EachNode, Plan, SakiNode, statistics_of};

/// Puts [`InTurnExec`] in the place of unions of constants.
pub const UNIONS_IN_TURN: EachNode = EachNode::new("saki_unions_in_turn", in_turn);

fn in_turn(plan: Plan, _: &ConfigOptions) -> Result<Transformed<Plan>> {
    match plan.downcast_ref::<UnionExec>() {
        Some(union) if union.inputs().iter().all(is_constant) => {
            Ok(Transformed::yes(InTurnExec::of(union).into_plan()))
        }
        _ => Ok(Transformed::no(plan)),
    }
}

/// Whether a plan reads nothing.
fn is_constant(plan: &Plan) -> bool {
    let children = plan.children();
    plan.output_partitioning().partition_count() == 1
        && if children.is_empty() { plan.is::<PlaceholderRowExec>() } else { children.into_iter().all(is_constant) }
}

/// The rows of one input after those of the other.
#[derive(Debug)]
struct InTurnExec {
    /// Of one partition each.
    inputs: Vec<Plan>,
    properties: Arc<PlanProperties>,
}

impl InTurnExec {
    fn of(union: &UnionExec) -> Self {
        let (rows, one) = (EquivalenceProperties::new(union.schema()), Partitioning::UnknownPartitioning(1));
        let properties = PlanProperties::new(rows, one, EmissionType::Incremental, Boundedness::Bounded);
        Self { inputs: union.inputs().clone(), properties: Arc::new(properties) }
    }
}

impl SakiNode for InTurnExec {
    fn name(&self) -> &'static str {
        "InTurnExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        self.inputs.iter().collect()
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        Ok(Self { inputs: children, properties: Arc::clone(&self.properties) }.into_plan())
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let inputs = self.inputs.clone().into_iter();
        let rows = stream::iter(inputs).map(move |input| input.execute(0, Arc::clone(&context))).try_flatten();
        let schema = self.schema();
        // A column that is NULL in one of them may be none in another.
        let told = rows.map(move |batch| Ok(batch?.with_schema(Arc::clone(&schema))?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), told)))
    }

    fn statistics(&self, _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let parts = self.inputs.iter().map(|input| statistics_of(input.as_ref())).collect::<Result<Vec<_>>>()?;
        let mut all = Statistics::new_unknown(&self.schema());
        let rows = parts.iter().map(|part| part.num_rows).reduce(|a, b| a.add(&b));
        all.num_rows = rows.unwrap_or(all.num_rows);
        Ok(Arc::new(all))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_optimizer::PhysicalOptimizerRule;
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::fixture::{block_on, task_context};

    #[test]
    fn constants_come_in_the_order_in_which_they_are_written() {
        let sql = (0..50).map(|n| format!("SELECT {n} AS n")).collect::<Vec<_>>().join(" UNION ALL ");
        let plan = block_on(async { SessionContext::new().sql(&sql).await?.create_physical_plan().await }).unwrap();
        let plan = UNIONS_IN_TURN.optimize(plan, &ConfigOptions::default()).unwrap();
        assert_eq!(plan.output_partitioning().partition_count(), 1);
        let batches = block_on(plan.execute(0, task_context(8)).unwrap().try_collect::<Vec<_>>()).unwrap();
        let shown = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        let numbers: Vec<usize> = shown.lines().filter_map(|line| line.trim_matches(['|', ' ']).parse().ok()).collect();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    }
}
