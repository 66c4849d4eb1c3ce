//! Long constants stand in every row: a batch of 8 192 rows beside a text of 1 MB would take 8 GB before anybody could
//! count it. Expressions with such constants get their rows in small batches.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow_array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{Stream, StreamExt};

use crate::node::{Plan, Renewal, SakiNode, statistics_of};

/// What the constants of an expression may come to in a batch.
const BATCH_BYTES: usize = 16 << 20;

/// Puts [`NarrowExec`] below projections and filters with long constants.
#[derive(Debug)]
pub struct NarrowBatches;

impl PhysicalOptimizerRule for NarrowBatches {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let batch_rows = usize::from(config.execution.batch_size);
        let transformed = plan.transform_up(|plan| {
            let rows = BATCH_BYTES / bytes_of_constants(&plan).max(1);
            let [input] = plan.children()[..] else { return Ok(Transformed::no(plan)) };
            if rows >= batch_rows {
                return Ok(Transformed::no(plan));
            }
            let input = NarrowExec::new(Arc::clone(input), rows.max(1)).into_plan();
            replace_children_if_necessary(plan, vec![input]).map(Transformed::yes)
        });
        transformed.map(|transformed| transformed.data)
    }

    fn name(&self) -> &str {
        "saki_narrow_batches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Bytes of all constants that a node works out its rows with.
fn bytes_of_constants(plan: &Plan) -> usize {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return projection.expr().iter().map(|item| bytes_within(&item.expr)).sum();
    }
    plan.downcast_ref::<FilterExec>().map_or(0, |filter| bytes_within(filter.predicate()))
}

fn bytes_within(expr: &Arc<dyn PhysicalExpr>) -> usize {
    let mut bytes = 0;
    let walked = expr.apply(|expr| {
        bytes += expr.downcast_ref::<Literal>().map_or(0, |literal| literal.value().size());
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_or(0, |_| bytes)
}

/// Its input in batches of few rows.
#[derive(Debug)]
struct NarrowExec {
    input: Plan,
    rows: usize,
    properties: Arc<PlanProperties>,
}

impl NarrowExec {
    fn new(input: Plan, rows: usize) -> Self {
        let properties = PlanProperties::new(
            input.equivalence_properties().clone(),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { input, rows, properties: Arc::new(properties) }
    }
}

impl SakiNode for NarrowExec {
    fn name(&self) -> &'static str {
        "NarrowExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn with_children(&self, children: Vec<Plan>) -> Result<Plan> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Self::new(input, self.rows).into_plan())
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: batch_rows={}", self.name(), self.rows)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let narrowed = Narrowed { input, rest: None, rows: self.rows };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), narrowed)))
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

    fn renewed(&self, children: Vec<Plan>, _: &mut Renewal<'_>) -> Result<Plan> {
        self.with_children(children)
    }
}

struct Narrowed {
    input: SendableRecordBatchStream,
    /// What is left of the last batch.
    rest: Option<RecordBatch>,
    rows: usize,
}

impl Stream for Narrowed {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = match self.rest.take() {
            Some(batch) => batch,
            None => match ready!(self.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => batch,
                end => return Poll::Ready(end),
            },
        };
        let rows = self.rows;
        if batch.num_rows() <= rows {
            return Poll::Ready(Some(Ok(batch)));
        }
        self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        Poll::Ready(Some(Ok(batch.slice(0, rows))))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_plan::projection::ProjectionExpr;

    use super::*;
    use crate::fixture::{block_on, memory_plan, run, small_batch, small_schema, task_context};

    fn numbered(rows: i64) -> RecordBatch {
        small_batch(&(0..rows).map(|k| (Some(k), None, None)).collect::<Vec<_>>())
    }

    /// A constant text of so many bytes in every row.
    fn beside(bytes: usize, rows: i64) -> Plan {
        let text = lit(ScalarValue::Utf8(Some("x".repeat(bytes))));
        let items = [ProjectionExpr { expr: text, alias: "text".to_owned() }];
        Arc::new(ProjectionExec::try_new(items, memory_plan(&[vec![numbered(rows)]], &small_schema())).unwrap())
    }

    fn optimized(plan: Plan) -> Plan {
        NarrowBatches.optimize(plan, &ConfigOptions::default()).unwrap()
    }

    #[test]
    fn rows_beside_a_long_constant_come_in_small_batches() {
        let plan = beside(1 << 20, 40);
        let expected = run(&plan);
        let plan = optimized(plan);
        assert_eq!(plan.children()[0].name(), "NarrowExec");
        assert_eq!(run(&plan), expected);
        let batches = block_on(plan.execute(0, task_context(100)).unwrap().collect::<Vec<_>>());
        let rows: Vec<_> = batches.into_iter().map(|batch| batch.unwrap().num_rows()).collect();
        assert_eq!(rows, [15, 15, 10]);
    }

    #[test]
    fn a_constant_that_is_longer_than_a_batch_stands_beside_one_row() {
        let plan = optimized(beside(BATCH_BYTES + 1, 3));
        assert_eq!(block_on(plan.execute(0, task_context(100)).unwrap().collect::<Vec<_>>()).len(), 3);
    }

    #[test]
    fn plans_with_short_constants_stay_as_they_are() {
        let plan = beside(100, 40);
        assert_eq!(optimized(plan).children()[0].name(), "DataSourceExec");
    }

    #[test]
    fn an_error_of_the_input_comes_through() {
        let failing = futures::stream::iter([Err(datafusion::common::DataFusionError::Execution("broken".into()))]);
        let input = Box::pin(RecordBatchStreamAdapter::new(small_schema(), failing));
        let mut narrowed = Narrowed { input, rest: None, rows: 1 };
        assert!(block_on(narrowed.next()).unwrap().unwrap_err().to_string().contains("broken"));
    }
}
