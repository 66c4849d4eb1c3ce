//! Joins without keys look at every pair of rows, and do not look up while they do so: a query of two large inputs could not be
//! stopped for minutes, and would keep its thread from all others. Their probe side comes in small batches here, as many rows as take
//! little time, between which the thread is given back now and then.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{Stream, StreamExt};

/// How long a thread computes before it is given back, about.
const TURN: Duration = Duration::from_millis(10);

/// Puts [`YieldingExec`] below joins without keys.
#[derive(Debug)]
pub struct YieldingJoins;

impl PhysicalOptimizerRule for YieldingJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let transformed = plan.transform_up(|plan| {
            let is_join = plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>();
            let [build, probe] = plan.children()[..] else { return Ok(Transformed::no(plan)) };
            if !is_join || probe.is::<YieldingExec>() {
                return Ok(Transformed::no(plan));
            }
            let children = vec![Arc::clone(build), Arc::new(YieldingExec::new(Arc::clone(probe))) as _];
            replace_children_if_necessary(plan, children).map(Transformed::yes)
        });
        transformed.map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "saki_yielding_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Its input in small batches, with pauses.
#[derive(Debug)]
pub struct YieldingExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl YieldingExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            input.equivalence_properties().clone(),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for YieldingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("YieldingExec")
    }
}

impl ExecutionPlan for YieldingExec {
    fn name(&self) -> &str {
        "YieldingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.pop() {
            Some(input) => Arc::new(Self::new(input)),
            None => self,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let now = Instant::now();
        let slices =
            Slices { input: self.input.execute(partition, context)?, batch: None, rows: 1, given: None, turn: now };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), slices)))
    }
}

struct Slices {
    input: SendableRecordBatchStream,
    /// What is left of the last batch.
    batch: Option<RecordBatch>,
    /// Rows of the next slice: as many as are joined with all of the other side in a part of a turn.
    rows: usize,
    /// When the last slice was given, until it is known how long that took.
    given: Option<Instant>,
    /// Since when the thread has not been given back.
    turn: Instant,
}

impl Slices {
    /// The next rows of a batch; the rest is kept.
    fn cut(&mut self, batch: RecordBatch) -> RecordBatch {
        let rows = batch.num_rows();
        if rows <= self.rows {
            return batch;
        }
        self.batch = Some(batch.slice(self.rows, rows - self.rows));
        batch.slice(0, self.rows)
    }

    /// Learns from how long the last slice took.
    fn adapt(&mut self) {
        let Some(took) = self.given.take().map(|given| given.elapsed()) else { return };
        if took < TURN / 8 {
            self.rows = self.rows.saturating_mul(2);
        } else if took > TURN {
            self.rows = (self.rows / 2).max(1);
        }
    }
}

impl Stream for Slices {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.adapt();
        if self.turn.elapsed() >= TURN {
            self.turn = Instant::now();
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => match std::task::ready!(self.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => batch,
                end => return Poll::Ready(end),
            },
        };
        let slice = self.cut(batch);
        self.given = Some(Instant::now());
        Poll::Ready(Some(Ok(slice)))
    }
}
