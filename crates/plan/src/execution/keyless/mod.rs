//! Where there are no keys: joins without them, and sorts of rows that have nothing to be sorted by.
//!
//! Joins without keys look at every pair of rows. Between two of them, a query could not be stopped for minutes, and
//! would keep its thread from all others: they give it back now and then.
//!
//! - Nested loops do not look up before they have gone through all pairs of a batch of their probe side: that comes in
//!   small batches, as many rows as take little time.
//! - Cross joins give a batch for each row of their build side, so that small ones of the probe side would only make
//!   them slower; the thread is given back between what they give. Of a build side without columns they hold every
//!   batch, and count none: it is only counted how many rows it has.

mod alike;
mod rows_alone;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};

pub use self::alike::ALIKE_ROWS;
use self::rows_alone::rows_alone;
use super::slices::Pace;
use crate::node::{EachNode, PassingExec, Plan, SakiNode, find};

/// Puts slices and [`rows_alone`] around joins without keys.
pub const KEYLESS_JOINS: EachNode = EachNode::new("saki_keyless_joins", stoppable);

fn stoppable(plan: Plan, _: &ConfigOptions) -> Result<Transformed<Plan>> {
    if let [below] = plan.children()[..]
        && yields(&plan)
        && yields(below)
    {
        // It has been put here before.
        return Ok(Transformed::yes(Arc::clone(below)));
    }
    let [build, probe] = plan.children()[..] else { return Ok(Transformed::no(plan)) };
    if plan.is::<NestedLoopJoinExec>() && !yields(probe) {
        let children = vec![Arc::clone(build), PassingExec::plan(Arc::clone(probe), Pace::Slices)];
        return replace_children_if_necessary(plan, children).map(Transformed::yes);
    }
    if !plan.is::<CrossJoinExec>() {
        return Ok(Transformed::no(plan));
    }
    let children = vec![rows_alone(build), Arc::clone(probe)];
    let plan = replace_children_if_necessary(plan, children)?;
    Ok(Transformed::yes(PassingExec::plan(plan, Pace::Batches)))
}

fn yields(plan: &Plan) -> bool {
    find(plan.as_ref()).is_some_and(SakiNode::yields)
}

#[cfg(test)]
mod tests {
    use arrow_array::RecordBatch;
    use datafusion::common::JoinType;
    use datafusion::physical_optimizer::PhysicalOptimizerRule;

    use super::*;
    use crate::fixture::{memory_plan, run, small_batch, small_schema};

    fn numbered(rows: i64) -> RecordBatch {
        small_batch(&(0..rows).map(|k| (Some(k), None, None)).collect::<Vec<_>>())
    }

    fn side() -> Plan {
        memory_plan(&[vec![numbered(3), numbered(2)]], &small_schema())
    }

    fn optimized(plan: &Plan) -> Plan {
        KEYLESS_JOINS.optimize(Arc::clone(plan), &ConfigOptions::default()).unwrap()
    }

    fn shown(plan: &Plan) -> String {
        datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string()
    }

    #[test]
    fn nested_loops_get_small_batches_of_their_probe_side() {
        let join = NestedLoopJoinExec::try_new(side(), side(), None, &JoinType::Left, None).unwrap();
        let join: Plan = Arc::new(join);
        let plan = optimized(&join);
        assert_eq!(plan.children().into_iter().map(yields).collect::<Vec<_>>(), [false, true]);
        assert_eq!(run(&plan), run(&join));
        assert_eq!(shown(&optimized(&plan)), shown(&plan), "once is enough");
    }

    #[test]
    fn cross_joins_yield_between_whole_batches() {
        let join: Plan = Arc::new(CrossJoinExec::new(side(), side()));
        let plan = optimized(&join);
        assert!(yields(&plan) && !yields(plan.children()[0].children()[1]));
        assert_eq!(run(&plan), run(&join));
        assert_eq!(shown(&optimized(&plan)), shown(&plan), "once is enough");
    }
}
