//! Planning that is told to stop.
//!
//! Planning computes and does not look up, so nobody could end it from outside. The rules of the planner ask, before
//! each node of a plan or each plan that they look at, whether anybody waits for it still.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerContext;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use saki_store::Stop;

tokio::task_local! {
    static STOP: Stop;
}

/// Does `work`; what it plans ends soon after `stop` is told.
pub async fn stoppable<T>(stop: Stop, work: impl Future<Output = T>) -> T {
    STOP.scope(stop, work).await
}

/// Whether planning goes on.
///
/// # Errors
/// 57014 once it was told to stop.
fn look_up() -> Result<()> {
    Ok(STOP.try_with(Stop::check).unwrap_or(Ok(()))?)
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
    use datafusion::execution::context::SessionState;
    use saki_base::memory::Pool;
    use saki_catalog::SqlError;

    use super::*;
    use crate::planner::state::new_state;

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
