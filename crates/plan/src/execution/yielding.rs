//! Joins without keys look at every pair of rows, and do not look up while they do so: a query of two large inputs
//! could not be stopped for minutes, and would keep its thread from all others. Their probe side comes in small batches
//! here, as many rows as take little time, between which the thread is given back now and then.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{Stream, StreamExt};

use crate::node::{Plan, Renewal, SakiNode, find, statistics_of};

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
            if !is_join || find(probe.as_ref()).is_some_and(SakiNode::yields) {
                return Ok(Transformed::no(plan));
            }
            let children = vec![Arc::clone(build), YieldingExec::new(Arc::clone(probe)).into_plan()];
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
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl YieldingExec {
    fn new(input: Plan) -> Self {
        let properties = PlanProperties::new(
            input.equivalence_properties().clone(),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { input, properties: Arc::new(properties) }
    }
}

impl SakiNode for YieldingExec {
    fn name(&self) -> &'static str {
        "YieldingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Self::new(input).into_plan())
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let now = Instant::now();
        let slices =
            Slices { input: self.input.execute(partition, context)?, batch: None, rows: 1, given: None, turn: now };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), slices)))
    }

    /// As many rows as its input has.
    fn statistics(&self, _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        statistics_of(self.input.as_ref())
    }

    fn benefits_from_input_partitioning(&self) -> bool {
        true
    }

    fn maintains_input_order(&self) -> bool {
        true
    }

    fn yields(&self) -> bool {
        true
    }

    fn renewed(&self, children: Vec<Plan>, _: &mut Renewal<'_>) -> Result<Plan> {
        self.with_children(children)
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

#[cfg(test)]
mod tests {
    use futures::stream;
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{block_on, memory_plan, run, small_batch, small_schema, task_context};

    fn slices(batches: Vec<RecordBatch>) -> Slices {
        let input = RecordBatchStreamAdapter::new(small_schema(), stream::iter(batches.into_iter().map(Ok)));
        Slices { input: Box::pin(input), batch: None, rows: 1, given: None, turn: Instant::now() }
    }

    fn numbered(rows: i64) -> RecordBatch {
        small_batch(&(0..rows).map(|k| (Some(k), None, None)).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn slices_are_the_rows_of_the_input_in_order(sizes in prop::collection::vec(0_i64..40, 0..6)) {
            let batches: Vec<RecordBatch> = sizes.iter().map(|rows| numbered(*rows)).collect();
            let given = block_on(slices(batches.clone()).collect::<Vec<_>>());
            let given: Vec<RecordBatch> = given.into_iter().map(Result::unwrap).collect();
            let together = |batches: &[RecordBatch]| arrow::compute::concat_batches(&small_schema(), batches).unwrap();
            prop_assert_eq!(together(&given), together(&batches));
        }
    }

    #[test]
    fn slices_grow_while_they_are_quick_and_shrink_when_they_are_slow() {
        let mut slices = slices(vec![]);
        slices.given = Some(Instant::now());
        slices.adapt();
        assert_eq!(slices.rows, 2);
        slices.rows = 64;
        slices.given = Instant::now().checked_sub(TURN * 3);
        slices.adapt();
        assert_eq!(slices.rows, 32);
        slices.given = Instant::now().checked_sub(TURN / 2);
        slices.adapt();
        assert_eq!(slices.rows, 32, "about right");
        slices.adapt();
        assert_eq!(slices.rows, 32, "nothing was given meanwhile");
        slices.rows = 1;
        slices.given = Instant::now().checked_sub(TURN * 3);
        slices.adapt();
        assert_eq!(slices.rows, 1);
    }

    #[test]
    fn the_thread_is_given_back_when_a_turn_is_over() {
        let mut slices = slices(vec![numbered(10)]);
        slices.turn = Instant::now().checked_sub(TURN * 2).unwrap();
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(slices.poll_next_unpin(&mut context).is_pending());
        assert!(slices.poll_next_unpin(&mut context).is_ready(), "a new turn");
    }

    #[test]
    fn joins_without_keys_get_one_above_their_probe_side() {
        let side = || memory_plan(&[vec![numbered(3), numbered(2)]], &small_schema());
        let cross: Plan = Arc::new(CrossJoinExec::new(side(), side()));
        let expected = run(&cross);
        let plan = YieldingJoins.optimize(cross, &ConfigOptions::default()).unwrap();
        let yields = |plan: &Plan| find(plan.as_ref()).is_some_and(SakiNode::yields);
        assert_eq!(plan.children().into_iter().map(yields).collect::<Vec<_>>(), [false, true]);
        assert_eq!(run(&plan), expected);
        let again = YieldingJoins.optimize(Arc::clone(&plan), &ConfigOptions::default()).unwrap();
        assert!(!yields(again.children()[1].children()[0]), "one is enough");
    }

    #[test]
    fn an_error_of_the_input_comes_through() {
        let failing = stream::iter([Err(datafusion::common::DataFusionError::Execution("broken".into()))]);
        let input = RecordBatchStreamAdapter::new(small_schema(), failing);
        let mut slices = Slices { input: Box::pin(input), batch: None, rows: 1, given: None, turn: Instant::now() };
        assert!(block_on(slices.next()).unwrap().unwrap_err().to_string().contains("broken"));
        let plan = YieldingExec::new(memory_plan(&[vec![numbered(2)]], &small_schema())).into_plan();
        assert!(plan.execute(0, task_context(1)).is_ok());
        assert_eq!(plan.maintains_input_order(), [true]);
    }
}
