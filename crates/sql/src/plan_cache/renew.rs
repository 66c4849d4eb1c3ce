//! A plan again, as if it had never run, over another view of the same snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::Volatility;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
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
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use crate::column_scan::ColumnScanExec;
use crate::native::{DynamicKeys, NativeAggregateExec, NativeHashJoinExec, NativeProjectExec};
use crate::pipeline_exec::PipelineExec;
use crate::query_env::QueryEnv;
use crate::yielding::YieldingExec;

/// Whether all state of a plan's nodes is known here. Filters that change while a query runs are state of several nodes at once, and so
/// are the results of scalar subqueries.
pub fn is_renewable(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let node = plan.as_ref();
    let known = match node.downcast_ref::<PipelineExec>() {
        Some(pipeline) => !pipeline.chain.filters.iter().any(|filter| is_dynamic(&filter.condition)),
        None => is_ours(node) || is_known(node),
    };
    known && is_immutable(node) && node.children().into_iter().all(is_renewable)
}

/// Whether a node calls nothing but functions of their arguments: others may hold plans of their own, or what the moment was.
fn is_immutable(node: &dyn ExecutionPlan) -> bool {
    let mut immutable = true;
    let visited = node.apply_expressions(&mut |expr| {
        immutable &= has_immutable_calls(expr);
        Ok(TreeNodeRecursion::Continue)
    });
    immutable && visited.is_ok()
}

fn has_immutable_calls(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let call = expr.downcast_ref::<ScalarFunctionExpr>();
    call.is_none_or(|call| call.fun().signature().volatility == Volatility::Immutable)
        && expr.children().into_iter().all(has_immutable_calls)
}

fn is_dynamic(condition: &Arc<dyn PhysicalExpr>) -> bool {
    condition.is::<DynamicFilterPhysicalExpr>() || condition.children().into_iter().any(is_dynamic)
}

fn is_ours(node: &dyn ExecutionPlan) -> bool {
    node.is::<ColumnScanExec>()
        || node.is::<NativeHashJoinExec>()
        || node.is::<NativeAggregateExec>()
        || node.is::<NativeProjectExec>()
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
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<UnionExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<WindowAggExec>()
        || node.is::<YieldingExec>()
}

/// The plan over the view of `env`; nodes share nothing with the old ones that running changes.
pub fn renew(plan: &Arc<dyn ExecutionPlan>, env: &Arc<QueryEnv>) -> Result<Arc<dyn ExecutionPlan>> {
    Renewal { env, keys: HashMap::new() }.node(plan)
}

struct Renewal<'e> {
    env: &'e Arc<QueryEnv>,
    /// By the address of those that they take the place of.
    keys: HashMap<*const DynamicKeys, Arc<DynamicKeys>>,
}

impl Renewal<'_> {
    fn node(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = plan.children().into_iter().map(|child| self.node(child)).collect::<Result<Vec<_>>>()?;
        if let Some(pipeline) = plan.downcast_ref::<PipelineExec>() {
            return Ok(Arc::new(pipeline.renewed(self.env, children.into_iter().next())));
        }
        if let Some(scan) = plan.downcast_ref::<ColumnScanExec>() {
            return Ok(Arc::new(scan.renewed(self.env, |keys| self.keys(keys))));
        }
        if let (Some(join), [left, right]) = (plan.downcast_ref::<NativeHashJoinExec>(), &children[..]) {
            return Ok(Arc::new(join.renewed(left, right, |keys| self.keys(keys))));
        }
        if let (Some(aggregate), [input]) = (plan.downcast_ref::<NativeAggregateExec>(), &children[..]) {
            return Ok(Arc::new(aggregate.renewed(input)));
        }
        if let (Some(project), [input]) = (plan.downcast_ref::<NativeProjectExec>(), &children[..]) {
            return Ok(Arc::new(project.renewed(input)));
        }
        let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        Arc::clone(plan).replace_children(children, same)?.reset_state()
    }

    fn keys(&mut self, before: &Arc<DynamicKeys>) -> Arc<DynamicKeys> {
        Arc::clone(self.keys.entry(Arc::as_ptr(before)).or_insert_with(|| Arc::new(before.renewed())))
    }
}
