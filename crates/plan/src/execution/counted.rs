//! Windows over all of their rows hold them until the last one is there, and count nothing. Aggregates that gather
//! values count those, and neither the array that becomes of them nor what is made of that for a client. What comes to
//! them is counted below them, so that a query that needs too much is refused. What joins without keys give is counted
//! by nobody: of a row of either side there are as many as the other has, each with all of its texts.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use futures::StreamExt;

use super::narrow::bytes_of_constants;
use super::weight::shown_bytes;
use crate::node::{EachNode, Passing, PassingExec, Plan, SakiNode, find};

/// How often the rows are held: as they come, and as the one batch that they become; or, beside what an aggregate
/// counts, as its result, and as a row of it; or as the batch that a join has given, and the next that it makes.
const COPIES: usize = 2;

/// Aggregates whose results are as large as what comes to them.
const GATHERING: [&str; 2] = ["array_agg", "string_agg"];

/// Has rows counted below operators that hold more of their rows than they count, and above joins without keys.
pub const COUNTED_INPUTS: EachNode = EachNode::new("saki_counted_inputs", counted);

fn counted(plan: Plan, _: &ConfigOptions) -> Result<Transformed<Plan>> {
    if is_keyless(&plan) {
        return Ok(Transformed::yes(PassingExec::plan(plan, Until::Next)));
    }
    let [input] = plan.children()[..] else { return Ok(Transformed::no(plan)) };
    let is_named = |plan: &Plan, name| find(plan.as_ref()).is_some_and(|node| node.name() == name);
    if is_named(&plan, GIVEN) && is_named(input, GIVEN) {
        // It has been put here before.
        return Ok(Transformed::yes(Arc::clone(input)));
    }
    let gathers = gathers(&plan);
    if !(plan.is::<WindowAggExec>() || gathers) || is_named(input, NAME) {
        return Ok(Transformed::no(plan));
    }
    // Constants that an aggregate gathers are in no row of its input.
    let of_row = if gathers { bytes_of_constants(&plan) } else { 0 };
    let input = PassingExec::plan(Arc::clone(input), Until::End { of_row });
    replace_children_if_necessary(plan, vec![input]).map(Transformed::yes)
}

/// Whether it is a join without keys; a cross join with what gives its thread back.
fn is_keyless(plan: &Plan) -> bool {
    let yields = || find(plan.as_ref()).is_some_and(SakiNode::yields);
    plan.is::<NestedLoopJoinExec>() || (yields() && plan.children().iter().any(|input| input.is::<CrossJoinExec>()))
}

/// Whether a plan is the first stage of an aggregation that gathers values.
fn gathers(plan: &Plan) -> bool {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return false };
    let is_first = !matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned);
    is_first && aggregate.aggr_expr().iter().any(|expr| GATHERING.contains(&expr.fun().name()))
}

const NAME: &str = "CountedExec";
const GIVEN: &str = "CountedBatchesExec";

/// How long a batch that is passed on is reserved.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// For as long as the input is being taken in; each row comes to so many bytes beside its own.
    End { of_row: usize },
    /// Until there is the next.
    Next,
}

impl Passing for Until {
    fn name(&self) -> &'static str {
        match self {
            Self::End { .. } => NAME,
            Self::Next => GIVEN,
        }
    }

    fn pass(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> Result<SendableRecordBatchStream> {
        let held = MemoryConsumer::new("rows that are held").register(context.memory_pool());
        let (until, schema) = (*self, rows.schema());
        let counted = rows.map(move |batch| {
            let batch = batch?;
            let bytes = shown_bytes(&batch);
            match until {
                Self::End { of_row } => {
                    let bytes = bytes.saturating_add(of_row.saturating_mul(batch.num_rows()));
                    held.try_grow(bytes.saturating_mul(COPIES))?;
                }
                Self::Next => held.try_resize(bytes.saturating_mul(COPIES))?,
            }
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::{DataFusionError, JoinType};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::functions_aggregate::array_agg::array_agg_udaf;
    use datafusion::functions_aggregate::sum::sum_udaf;
    use datafusion::logical_expr::{WindowFrame, WindowFunctionDefinition};
    use datafusion::physical_expr::aggregate::AggregateExprBuilder;
    use datafusion::physical_expr::expressions::{col, lit};
    use datafusion::physical_optimizer::PhysicalOptimizerRule;
    use datafusion::physical_plan::aggregates::PhysicalGroupBy;
    use datafusion::physical_plan::windows::create_window_expr;

    use super::*;
    use crate::execution::slices::Pace;
    use crate::fixture::{block_on, memory_plan, small_batch, small_schema};

    fn over_all(rows: i64) -> Plan {
        let batch = small_batch(&(0..rows).map(|k| (Some(k), None, None)).collect::<Vec<_>>());
        over(memory_plan(&[vec![batch; 4]], &small_schema()))
    }

    fn over(input: Plan) -> Plan {
        let schema = input.schema();
        let of = col(schema.field(0).name(), &schema).unwrap();
        let window = create_window_expr(
            &WindowFunctionDefinition::AggregateUDF(sum_udaf()),
            "sum".to_owned(),
            &[of],
            &[],
            &[],
            Arc::new(WindowFrame::new(None)),
            Arc::clone(&schema),
            false,
            false,
            None,
        );
        Arc::new(WindowAggExec::try_new(vec![window.unwrap()], input, false).unwrap())
    }

    fn gathered(rows: i64, constant: Option<usize>) -> Plan {
        let schema = small_schema();
        let batch = small_batch(&(0..rows).map(|k| (Some(k), None, None)).collect::<Vec<_>>());
        let of = match constant {
            None => col(schema.field(0).name(), &schema).unwrap(),
            Some(bytes) => lit("y".repeat(bytes)),
        };
        let call = AggregateExprBuilder::new(array_agg_udaf(), vec![of]).schema(Arc::clone(&schema)).alias("all");
        let (calls, keys) = (vec![Arc::new(call.build().unwrap())], PhysicalGroupBy::default());
        let input = memory_plan(&[vec![batch; 4]], &schema);
        let (mode, schema) = (AggregateMode::Single, Arc::clone(&schema));
        Arc::new(AggregateExec::try_new(mode, keys, calls, vec![None], input, schema).unwrap())
    }

    #[test]
    fn what_windows_take_in_is_counted() {
        is_counted(over_all(1000), 16 << 10);
    }

    /// The values alone would fit.
    #[test]
    fn what_aggregates_gather_is_counted_with_what_becomes_of_it() {
        is_counted(gathered(1000, None), 80 << 10);
    }

    /// What comes to it is small, what it gathers is not.
    #[test]
    fn constants_that_aggregates_gather_are_counted() {
        is_counted(gathered(20, Some(2_000)), 400 << 10);
    }

    /// Either side would fit many times; each row of one is beside all of the other.
    #[test]
    fn what_joins_without_keys_give_is_counted() {
        let side = || {
            let batch = small_batch(&(0..60).map(|k| (Some(k), None, Some("fourteen bytes"))).collect::<Vec<_>>());
            memory_plan(&[vec![batch]], &small_schema())
        };
        let nested =
            || -> Plan { Arc::new(NestedLoopJoinExec::try_new(side(), side(), None, &JoinType::Inner, None).unwrap()) };
        let cross = || PassingExec::plan(Arc::new(CrossJoinExec::new(side(), side())), Pace::Batches);
        // Nested loops give many rows of the build side at a time, cross joins one.
        let joins: [(&dyn Fn() -> Plan, usize); 2] = [(&nested, 100 << 10), (&cross, 6 << 10)];
        for (join, too_few) in joins {
            let optimized = |plan: Plan| COUNTED_INPUTS.optimize(plan, &ConfigOptions::default()).unwrap();
            let plan = optimized(join());
            assert_eq!(find(plan.as_ref()).map(SakiNode::name), Some(GIVEN));
            let again = optimized(Arc::clone(&plan));
            assert!(find(again.children()[0].as_ref()).is_none_or(|node| node.name() != GIVEN), "once is enough");
            is_refused(|| optimized(join()), too_few);
            let window = optimized(over(plan));
            let counted = Arc::clone(window.children()[0]);
            assert_eq!(find(counted.as_ref()).map(SakiNode::name), Some(NAME), "it is all of them that a window holds");
        }
    }

    /// A megabyte is enough for it, and so many bytes are not.
    fn is_counted(plan: Plan, too_few: usize) {
        let plan = COUNTED_INPUTS.optimize(plan, &ConfigOptions::default()).unwrap();
        assert_eq!(find(plan.children()[0].as_ref()).map(SakiNode::name), Some(NAME));
        let again = COUNTED_INPUTS.optimize(Arc::clone(&plan), &ConfigOptions::default()).unwrap();
        assert!(find(again.children()[0].children()[0].as_ref()).is_none(), "once is enough");
        is_refused(|| Arc::clone(&plan), too_few);
    }

    /// Joins keep their build side with the plan.
    fn is_refused(plan: impl Fn() -> Plan, too_few: usize) {
        for (limit, fits) in [(1 << 20, true), (too_few, false)] {
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
            let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc().unwrap();
            let context = Arc::new(TaskContext::default().with_runtime(runtime));
            let plan = plan();
            let mut stream = plan.execute(0, context).unwrap();
            let answer = block_on(stream.next()).unwrap();
            match answer {
                Ok(batch) => assert!(fits && batch.num_rows() > 0),
                Err(error) => {
                    assert!(!fits && matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
                }
            }
            drop((stream, plan));
            assert_eq!(pool.reserved(), 0, "all is given back");
        }
    }
}
