//! Plans of any nodes, and what is asked of them.

use std::sync::Arc;

use datafusion::common::{Result, Statistics};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties, StatisticsContext};

/// A node of a plan, and all below it.
pub type Plan = Arc<dyn ExecutionPlan>;

/// What is known of a node's rows.
pub fn statistics_of(plan: &dyn ExecutionPlan) -> Result<Arc<Statistics>> {
    StatisticsContext::new().compute(plan, &StatisticsArgs::new())
}

/// Partitions in which a node's rows come.
pub fn partitions_of(plan: &Plan) -> usize {
    plan.properties().output_partitioning().partition_count()
}

/// The properties of a node that gives its input's rows as they come.
pub fn passed_on(input: &Plan) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        input.equivalence_properties().clone(),
        input.output_partitioning().clone(),
        input.pipeline_behavior(),
        input.boundedness(),
    ))
}

/// The position of the column that an expression is, if it is one.
pub fn column_index(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}
