//! Planning that is told to stop.
//!
//! Planning computes and does not look up, so nobody could end it from outside. While names are resolved it is asked at
//! each relation, operator and aggregate whether anybody waits for it still; the rules of the planner ask before each
//! node of a plan or each plan that they look at. Loops of subqueries ask for each row.

use std::any::Any;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Once};
use std::task::Context;

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawWindowExpr, RelationPlanner,
    RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerContext;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::TableFactor;
use futures::FutureExt;
use futures::future::BoxFuture;
use saki_store::Stop;

/// Does `work`; what it computes, and what tasks of its plans compute, ends soon after `stop` is told.
pub async fn stoppable<T>(stop: Stop, work: impl Future<Output = T>) -> T {
    static TASKS: Once = Once::new();
    // Where somebody else traces tasks, they do not look up.
    TASKS.call_once(|| drop(set_join_set_tracer(&Inheriting)));
    let mut work = pin!(work);
    let step = |cx: &mut Context<'_>| {
        let _working = stop.enter();
        work.as_mut().poll(cx)
    };
    poll_fn(step).await
}

/// Tasks that a plan starts work for the statement of the task that starts them.
struct Inheriting;

impl JoinSetTracer for Inheriting {
    fn trace_future(&self, work: BoxFuture<'static, Box<dyn Any + Send>>) -> BoxFuture<'static, Box<dyn Any + Send>> {
        stoppable(Stop::current(), work).boxed()
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        let stop = Stop::current();
        Box::new(move || {
            let _working = stop.enter();
            work()
        })
    }
}

/// Whether planning goes on.
///
/// # Errors
/// 57014 once it was told to stop.
fn look_up() -> Result<()> {
    Ok(Stop::current().check()?)
}

/// Looks up while names are resolved, and plans nothing itself.
#[derive(Debug)]
pub struct WhileResolving;

impl ExprPlanner for WhileResolving {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        look_up().map(|()| PlannerResult::Original(expr))
    }

    fn plan_array_literal(&self, elements: Vec<Expr>, _: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        look_up().map(|()| PlannerResult::Original(elements))
    }

    fn plan_aggregate(&self, expr: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        look_up().map(|()| PlannerResult::Original(expr))
    }

    fn plan_window(&self, expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        look_up().map(|()| PlannerResult::Original(expr))
    }
}

impl RelationPlanner for WhileResolving {
    fn plan_relation(&self, relation: TableFactor, _: &mut dyn RelationPlannerContext) -> Result<RelationPlanning> {
        look_up().map(|()| RelationPlanning::Original(Box::new(relation)))
    }
}

/// A rule that looks up before it looks at a plan.
#[derive(Debug)]
pub struct Interruptible<R: ?Sized>(Arc<R>);

impl Interruptible<dyn OptimizerRule + Send + Sync> {
    pub fn logical(rule: Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
        Arc::new(Interruptible(rule))
    }
}

impl Interruptible<dyn PhysicalOptimizerRule + Send + Sync> {
    pub fn physical(
        rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
    ) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        Arc::new(Interruptible(rule))
    }
}

impl OptimizerRule for Interruptible<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    /// Of one node where the planner walks the plan, and of the whole where the rule does.
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        look_up()?;
        self.0.rewrite(plan, config)
    }
}

impl PhysicalOptimizerRule for Interruptible<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        look_up()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        look_up()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::DataFusionError;
    use datafusion::common::runtime::SpawnedTask;
    use datafusion::execution::context::SessionState;
    use saki_base::memory::Pool;
    use saki_catalog::SqlError;

    use super::*;
    use crate::planner::state::new_state;

    #[tokio::test]
    async fn tasks_of_plans_look_up_for_the_statement_that_started_them() {
        let stop = Stop::default();
        let looked = || async { SpawnedTask::spawn(async { look_up().is_err() }).await.unwrap() };
        stoppable(stop.clone(), async {
            assert!(!looked().await);
            stop.tell();
            assert!(looked().await);
        })
        .await;
        assert!(!looked().await, "nobody tells what is no statement");
    }

    #[tokio::test]
    async fn names_are_resolved_no_more_once_planning_is_told_to_stop() {
        let state = new_state(&Arc::new(Pool::new(1 << 30)));
        for statement in ["SELECT * FROM (SELECT 1) a", "SELECT 1 + 2", "SELECT max(1)", "SELECT max(1) OVER ()"] {
            for is_told in [false, true] {
                let stop = Stop::default();
                if is_told {
                    stop.tell();
                }
                let plan = stoppable(stop, state.create_logical_plan(statement)).await;
                let code = plan.err().map(|error| SqlError::from(error).sqlstate().to_owned());
                assert_eq!(code, is_told.then(|| "57014".to_owned()), "{statement}");
            }
        }
    }

    #[tokio::test]
    async fn rules_are_asked_for_nothing_once_planning_is_told_to_stop() {
        let state = new_state(&Arc::new(Pool::new(1 << 30)));
        let logical = state.create_logical_plan("SELECT 1 AS a ORDER BY a").await.unwrap();
        let physical = state.create_physical_plan(&logical).await.unwrap();
        for is_told in [false, true] {
            let stop = Stop::default();
            if is_told {
                stop.tell();
            }
            let (of_logical, of_physical) = stoppable(stop, async {
                let physical = |state: &SessionState| {
                    let mut rules = state.physical_optimizers().iter();
                    rules.try_fold(Arc::clone(&physical), |plan, rule| rule.optimize(plan, state.config_options()))
                };
                (state.optimize(&logical).err(), physical(&state).err())
            })
            .await;
            let code = |error: Option<DataFusionError>| error.map(|error| SqlError::from(error).sqlstate().to_owned());
            let expected = is_told.then(|| "57014".to_owned());
            assert_eq!((code(of_logical), code(of_physical)), (expected.clone(), expected));
        }
    }
}
