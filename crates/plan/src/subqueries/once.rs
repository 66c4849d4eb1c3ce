//! Queries of WITH that run once, however often they are named. The planner puts each in the place of its names; those
//! that must not run again, as they call functions whose values differ each time or are said to be materialized, are
//! marked, and what has one mark shares its rows.
//!
//! ```text
//!   OnceExec ──► cell ◄── OnceExec      whichever is asked first runs the query, in a task of its own,
//!      │           │          │         so that it goes on while its reader waits for the other;
//!    input   rows, counted   input      the other's input is never run
//! ```

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, SubqueryAlias, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlanProperties, Partitioning, PlanProperties};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::execution::weight::shown_bytes;
use crate::node::{Plan, SakiNode};

/// A plan in which the relations with a mark as their alias share their rows; `mark` tells the number that those of one
/// query have.
///
/// # Errors
/// What the planner says.
pub fn shared(plan: LogicalPlan, mark: impl Fn(&str) -> Option<u64>) -> Result<LogicalPlan> {
    if !is_marked(&plan, &mark)? {
        return Ok(plan);
    }
    let shared = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) = &node else {
            return Ok(Transformed::no(node));
        };
        let Some(number) = mark(alias.table()) else { return Ok(Transformed::no(node)) };
        let once = Arc::new(OnceNode { number, input: input.as_ref().clone() });
        let once = LogicalPlan::Extension(Extension { node: once });
        Ok(Transformed::yes(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(once), alias.clone())?)))
    })?;
    Ok(shared.data)
}

/// Whether a plan has a relation with a mark as its alias.
///
/// # Errors
/// What the planner says.
pub fn is_marked(plan: &LogicalPlan, mark: impl Fn(&str) -> Option<u64>) -> Result<bool> {
    let mut is_marked = false;
    plan.apply_with_subqueries(|node| {
        is_marked |=
            matches!(node, LogicalPlan::SubqueryAlias(SubqueryAlias { alias, .. }) if mark(alias.table()).is_some());
        Ok(if is_marked { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_marked)
}

/// A query that shares its rows with others of its number.
#[derive(PartialEq, Eq, Hash, Debug)]
struct OnceNode {
    number: u64,
    input: LogicalPlan,
}

impl PartialOrd for OnceNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal).or_else(|| self.number.partial_cmp(&other.number))
    }
}

impl UserDefinedLogicalNodeCore for OnceNode {
    fn name(&self) -> &str {
        "Once"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.into_iter().next() {
            Some(input) => Ok(Self { number: self.number, input }),
            None => internal_err!("a query that runs once without its input"),
        }
    }
}

/// Plans these queries; one for each plan.
#[derive(Default)]
pub struct OncePlanner(Mutex<HashMap<u64, Arc<Cell>>>);

#[async_trait]
impl ExtensionPlanner for OncePlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Plan],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Plan>> {
        let (Some(once), [input]) = (node.as_any().downcast_ref::<OnceNode>(), inputs) else { return Ok(None) };
        let cell = Arc::clone(self.0.lock().entry(once.number).or_default());
        Ok(Some(OnceExec::new(Arc::clone(input), cell).into_plan()))
    }
}

/// The rows of a query, once it has run; or why it could not.
#[derive(Default, Debug)]
struct Cell(OnceCell<Result<Rows, Arc<DataFusionError>>>);

#[derive(Debug)]
struct Rows {
    batches: Vec<RecordBatch>,
    _held: MemoryReservation,
}

impl Cell {
    /// The rows, of `input` if nobody has asked yet.
    async fn rows(&self, input: Plan, context: Arc<TaskContext>) -> Result<Vec<RecordBatch>> {
        let run = async || {
            let task = SpawnedTask::spawn(collect(input, context));
            let rows = task.join_unwind().await.unwrap_or_else(|error| Err(DataFusionError::External(Box::new(error))));
            rows.map_err(Arc::new)
        };
        match self.0.get_or_init(run).await {
            Ok(rows) => Ok(rows.batches.clone()),
            Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }
}

async fn collect(input: Plan, context: Arc<TaskContext>) -> Result<Rows> {
    let held = MemoryConsumer::new("WITH").register(context.memory_pool());
    let mut batches = Vec::new();
    let mut stream = input.execute(0, context)?;
    while let Some(batch) = stream.try_next().await? {
        held.try_grow(shown_bytes(&batch))?;
        batches.push(batch);
    }
    Ok(Rows { batches, _held: held })
}

/// The rows of a query that all nodes with its cell share.
#[derive(Debug)]
struct OnceExec {
    /// Of one partition.
    input: Plan,
    cell: Arc<Cell>,
    properties: Arc<PlanProperties>,
}

impl OnceExec {
    fn new(input: Plan, cell: Arc<Cell>) -> Self {
        let input: Plan = match input.output_partitioning().partition_count() {
            1 => input,
            _ => Arc::new(CoalescePartitionsExec::new(input)),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { input, cell, properties: Arc::new(properties) }
    }
}

impl SakiNode for OnceExec {
    fn name(&self) -> &'static str {
        "OnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Self::new(input, Arc::clone(&self.cell)).into_plan())
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (cell, input) = (Arc::clone(&self.cell), Arc::clone(&self.input));
        let rows = async move { cell.rows(input, context).await.map(|batches| stream::iter(batches).map(Ok)) };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(rows).try_flatten())))
    }

    /// Plans with such queries are not kept.
    fn is_renewable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::Statistics;

    use super::*;
    use crate::fixture::{block_on, memory_plan, small_batch, small_schema, task_context};
    use crate::node::NodeBase;

    /// Counts how often it runs.
    #[derive(Debug)]
    struct CountedRuns(NodeBase, Arc<Mutex<u32>>);

    impl SakiNode for CountedRuns {
        fn name(&self) -> &'static str {
            "CountedRuns"
        }

        fn properties(&self) -> &Arc<PlanProperties> {
            &self.0.properties
        }

        fn with_children(&self, _: Vec<Plan>) -> Result<Plan> {
            internal_err!("it has none")
        }

        fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.name())
        }

        fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
            *self.1.lock() += 1;
            let batch = small_batch(&[(Some(1), None, None), (Some(2), None, None)]);
            memory_plan(&[vec![batch]], &small_schema()).execute(0, context)
        }
    }

    #[test]
    fn whoever_reads_one_cell_shares_one_run() {
        let runs = Arc::new(Mutex::new(0));
        let input = || {
            let statistics = Arc::new(Statistics::new_unknown(&small_schema()));
            let base = NodeBase::new(small_schema(), 2, EmissionType::Incremental, statistics);
            CountedRuns(base, Arc::clone(&runs)).into_plan()
        };
        let cell = Arc::new(Cell::default());
        let readers = [1, 2].map(|_| OnceExec::new(input(), Arc::clone(&cell)).into_plan());
        let context = task_context(1);
        let rows = block_on(async {
            let streams = readers.iter().map(|reader| reader.execute(0, Arc::clone(&context)).unwrap());
            let rows = streams.map(|stream| stream.try_fold(0, async |rows, batch| Ok(rows + batch.num_rows())));
            futures::future::try_join_all(rows).await.unwrap()
        });
        assert_eq!(rows, [4, 4]);
        assert_eq!(*runs.lock(), 2, "each of its partitions once");
        drop((readers, cell));
        assert_eq!(context.memory_pool().reserved(), 0);
    }
}
