//! Long constants stand in every row: a batch of 8 192 rows beside a text of 1 MB would take 8 GB before anybody could
//! count it. Expressions with such constants get their rows in small batches.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::constants::held_bytes;
use super::slices::Pace;
use crate::node::{EachNode, PassingExec, Plan};

/// What long values may come to in a batch.
pub const BATCH_BYTES: usize = 16 << 20;

/// Puts slices below projections, filters, aggregates and windows with long constants.
pub const NARROW_BATCHES: EachNode = EachNode::new("saki_narrow_batches", narrow);

fn narrow(plan: Plan, config: &ConfigOptions) -> Result<Transformed<Plan>> {
    let batch_rows = usize::from(config.execution.batch_size);
    let rows = BATCH_BYTES / bytes_of_constants(&plan).max(1);
    let [input] = plan.children()[..] else { return Ok(Transformed::no(plan)) };
    if rows >= batch_rows {
        return Ok(Transformed::no(plan));
    }
    let input = PassingExec::plan(Arc::clone(input), Pace::Rows(rows.max(1)));
    replace_children_if_necessary(plan, vec![input]).map(Transformed::yes)
}

/// Bytes of all constants that a node works out its rows with.
pub(super) fn bytes_of_constants(plan: &Plan) -> usize {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return projection.expr().iter().map(|item| bytes_within(&item.expr)).sum();
    }
    if let Some(aggregates) = plan.downcast_ref::<AggregateExec>() {
        // What a final aggregate is given are its states: it works out nothing.
        if !matches!(aggregates.mode().input_mode(), AggregateInputMode::Raw) {
            return 0;
        }
        let keys = aggregates.group_expr().expr().iter().map(|(key, _)| bytes_within(key));
        let filters = aggregates.filter_expr().iter().flatten().map(bytes_within);
        return aggregates
            .aggr_expr()
            .iter()
            .map(|call| bytes_of_all(&call.expressions()))
            .chain(keys)
            .chain(filters)
            .sum();
    }
    let windows = plan.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr);
    let bounded = || plan.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr);
    if let Some(windows) = windows.or_else(bounded) {
        return windows.iter().map(|window| bytes_of_all(&window.expressions())).sum();
    }
    plan.downcast_ref::<FilterExec>().map_or(0, |filter| bytes_within(filter.predicate()))
}

fn bytes_of_all(exprs: &[Arc<dyn PhysicalExpr>]) -> usize {
    exprs.iter().map(bytes_within).sum()
}

fn bytes_within(expr: &Arc<dyn PhysicalExpr>) -> usize {
    let mut bytes = 0;
    let walked = expr.apply(|expr| {
        let literal = expr.downcast_ref::<Literal>().map(|literal| literal.value().size());
        bytes += literal.or_else(|| held_bytes(expr)).unwrap_or(0);
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_or(0, |_| bytes)
}

#[cfg(test)]
mod tests {
    use arrow_array::RecordBatch;
    use datafusion::common::ScalarValue;
    use datafusion::functions_aggregate::min_max::max_udaf;
    use datafusion::physical_expr::aggregate::AggregateExprBuilder;
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_optimizer::PhysicalOptimizerRule;
    use datafusion::physical_plan::aggregates::{AggregateMode, PhysicalGroupBy};
    use datafusion::physical_plan::projection::ProjectionExpr;
    use futures::StreamExt;

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

    /// The greatest of constant texts of so many bytes, as the first and as the last of two steps.
    fn greatest(bytes: usize) -> [Plan; 2] {
        let text = lit(ScalarValue::Utf8(Some("x".repeat(bytes))));
        let rows = memory_plan(&[vec![numbered(40)]], &small_schema());
        let schema = rows.schema();
        let call = AggregateExprBuilder::new(max_udaf(), vec![text]).schema(Arc::clone(&schema)).alias("greatest");
        let call = Arc::new(call.build().unwrap());
        let step = |mode, input: Plan| -> Plan {
            let (keys, calls) = (PhysicalGroupBy::new_single(Vec::new()), vec![Arc::clone(&call)]);
            Arc::new(AggregateExec::try_new(mode, keys, calls, vec![None], input, Arc::clone(&schema)).unwrap())
        };
        let first = step(AggregateMode::Partial, rows);
        [Arc::clone(&first), step(AggregateMode::Final, first)]
    }

    #[test]
    fn aggregates_of_long_constants_get_small_batches() {
        let [first, last] = greatest(1 << 20).map(optimized);
        assert_eq!(first.children()[0].name(), "NarrowExec");
        assert_eq!(last.children()[0].name(), "AggregateExec");
        assert_eq!(run(&last).len(), 1);
        let [first, _] = greatest(100).map(optimized);
        assert_eq!(first.children()[0].name(), "DataSourceExec");
    }

    fn optimized(plan: Plan) -> Plan {
        NARROW_BATCHES.optimize(plan, &ConfigOptions::default()).unwrap()
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
}
