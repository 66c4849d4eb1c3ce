//! A plan again, as if it had never run, over another view of the same snapshot.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::Volatility;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::{ScalarSubqueryExec, ScalarSubqueryLink};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use crate::node::{Plan, QueryEnv, Renewal, find};

/// Whether all state of a plan's nodes is known here.
pub fn is_renewable(plan: &Plan) -> bool {
    let node = plan.as_ref();
    let (known, renews_subqueries) = match find(node) {
        Some(ours) => (ours.is_renewable(), ours.renews_subqueries()),
        None => (is_known(node), false),
    };
    known
        // Others may hold plans of their own, or what the moment was.
        && all_expressions(node, has_immutable_calls)
        && (renews_subqueries || all_expressions(node, |expr| !reads_subquery(expr)))
        && node.children().into_iter().all(is_renewable)
}

fn all_expressions(node: &dyn ExecutionPlan, is_fine: impl Fn(&Arc<dyn PhysicalExpr>) -> bool) -> bool {
    let mut all = true;
    let visited = node.apply_expressions(&mut |expr| {
        all &= is_fine(expr);
        Ok(TreeNodeRecursion::Continue)
    });
    all && visited.is_ok()
}

fn reads_subquery(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<ScalarSubqueryExpr>() || expr.children().into_iter().any(reads_subquery)
}

fn has_immutable_calls(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let call = expr.downcast_ref::<ScalarFunctionExpr>();
    call.is_none_or(|call| call.fun().signature().volatility == Volatility::Immutable)
        && expr.children().into_iter().all(has_immutable_calls)
}

/// Nodes of DataFusion that `reset_state` makes new.
fn is_known(node: &dyn ExecutionPlan) -> bool {
    node.is::<AggregateExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<CooperativeExec>()
        || node.is::<EmptyExec>()
        || node.is::<FilterExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<PlaceholderRowExec>()
        || node.is::<ProjectionExec>()
        || node.is::<RepartitionExec>()
        || node.is::<ScalarSubqueryExec>()
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<UnionExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<WindowAggExec>()
}

/// The plan over the view of `env`; nodes share nothing with the old ones that running changes.
pub fn renew(plan: &Plan, env: &Arc<QueryEnv>) -> Result<Plan> {
    renewed(plan, &mut Renewal::new(env))
}

fn renewed(plan: &Plan, renewal: &mut Renewal<'_>) -> Result<Plan> {
    if let Some(node) = plan.downcast_ref::<ScalarSubqueryExec>() {
        return with_subqueries(node, renewal);
    }
    let children = plan.children().into_iter().map(|child| renewed(child, renewal)).collect::<Result<Vec<_>>>()?;
    if let Some(node) = find(plan.as_ref()) {
        return node.renewed(children, renewal);
    }
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Arc::clone(plan).replace_children(children, same)?.reset_state()
}

/// The results of subqueries are known before anything that reads them is made anew.
fn with_subqueries(before: &ScalarSubqueryExec, renewal: &mut Renewal<'_>) -> Result<Plan> {
    let results = renewal.results(before.results(), before.subqueries().len());
    let input = renewed(before.input(), renewal)?;
    let mut subquery =
        |link: &ScalarSubqueryLink| Ok(ScalarSubqueryLink { plan: renewed(&link.plan, renewal)?, index: link.index });
    let subqueries = before.subqueries().iter().map(&mut subquery).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ScalarSubqueryExec::new(input, subqueries, results)))
}
