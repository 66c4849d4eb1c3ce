//! A plan again, as if it had never run, over another view of the same snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::Volatility;
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
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

use crate::column_scan::ColumnScanExec;
use crate::native::{DynamicKeys, NativeAggregateExec, NativeHashJoinExec, NativeProjectExec};
use crate::pipeline_exec::PipelineExec;
use crate::query_env::QueryEnv;
use crate::yielding::YieldingExec;

/// Whether all state of a plan's nodes is known here. Filters that change while a query runs are state of several nodes at once.
pub fn is_renewable(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let node = plan.as_ref();
    let known = match node.downcast_ref::<PipelineExec>() {
        Some(pipeline) => !pipeline.chain.filters.iter().any(|filter| is_dynamic(&filter.condition)),
        None => is_ours(node) || is_known(node),
    };
    known
        // Others may hold plans of their own, or what the moment was.
        && all_expressions(node, has_immutable_calls)
        && (reads_subqueries_anew(node) || all_expressions(node, |expr| !reads_subquery(expr)))
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

/// Whether [`Renewal::node`] gives a node's expressions the results of the new run's subqueries.
fn reads_subqueries_anew(node: &dyn ExecutionPlan) -> bool {
    node.is::<PipelineExec>() || node.is::<ColumnScanExec>() || node.is::<NativeProjectExec>()
}

fn reads_subquery(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<ScalarSubqueryExpr>() || expr.children().into_iter().any(reads_subquery)
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
        || node.is::<ScalarSubqueryExec>()
        || node.is::<SortExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<UnionExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<WindowAggExec>()
        || node.is::<YieldingExec>()
}

/// The plan over the view of `env`; nodes share nothing with the old ones that running changes.
pub fn renew(plan: &Arc<dyn ExecutionPlan>, env: &Arc<QueryEnv>) -> Result<Arc<dyn ExecutionPlan>> {
    Renewal { env, keys: HashMap::new(), results: Vec::new() }.node(plan)
}

struct Renewal<'e> {
    env: &'e Arc<QueryEnv>,
    /// By the address of those that they take the place of.
    keys: HashMap<*const DynamicKeys, Arc<DynamicKeys>>,
    /// Of scalar subqueries, the old beside the new.
    results: Vec<(ScalarSubqueryResults, ScalarSubqueryResults)>,
}

impl Renewal<'_> {
    fn node(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(subqueries) = plan.downcast_ref::<ScalarSubqueryExec>() {
            return self.subqueries(subqueries);
        }
        let children = plan.children().into_iter().map(|child| self.node(child)).collect::<Result<Vec<_>>>()?;
        if let Some(pipeline) = plan.downcast_ref::<PipelineExec>() {
            let conditions = pipeline.chain.filters.iter().map(|filter| self.expr(&filter.condition));
            let conditions = conditions.collect::<Result<Vec<_>>>()?;
            return Ok(Arc::new(pipeline.renewed(self.env, children.into_iter().next(), conditions)?));
        }
        if let Some(scan) = plan.downcast_ref::<ColumnScanExec>() {
            let rest = self.exprs(&scan.scan().rest)?;
            return Ok(Arc::new(scan.renewed(self.env, rest, |keys| self.keys(keys))?));
        }
        if let (Some(join), [left, right]) = (plan.downcast_ref::<NativeHashJoinExec>(), &children[..]) {
            return Ok(Arc::new(join.renewed(left, right, |keys| self.keys(keys))));
        }
        if let (Some(aggregate), [input]) = (plan.downcast_ref::<NativeAggregateExec>(), &children[..]) {
            return Ok(Arc::new(aggregate.renewed(input)));
        }
        if let (Some(project), [input]) = (plan.downcast_ref::<NativeProjectExec>(), &children[..]) {
            let condition = project.condition.as_ref().map(|condition| self.expr(condition)).transpose()?;
            let output = self.exprs(&project.output)?;
            return Ok(Arc::new(project.renewed(input, condition, output)?));
        }
        let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        Arc::clone(plan).replace_children(children, same)?.reset_state()
    }

    /// The results of subqueries are known before anything that reads them is made anew.
    fn subqueries(&mut self, before: &ScalarSubqueryExec) -> Result<Arc<dyn ExecutionPlan>> {
        let results = ScalarSubqueryResults::new(before.subqueries().len());
        self.results.push((before.results().clone(), results.clone()));
        let input = self.node(before.input())?;
        let subquery =
            |link: &ScalarSubqueryLink| Ok(ScalarSubqueryLink { plan: self.node(&link.plan)?, index: link.index });
        let subqueries = before.subqueries().iter().map(subquery).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(ScalarSubqueryExec::new(input, subqueries, results)))
    }

    fn exprs(&self, before: &[Arc<dyn PhysicalExpr>]) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        before.iter().map(|expr| self.expr(expr)).collect()
    }

    /// The same expression over the results of the new run's subqueries; itself if it reads none.
    fn expr(&self, before: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        if self.results.is_empty() {
            return Ok(Arc::clone(before));
        }
        let replaced = Arc::clone(before).transform_up(|expr| {
            let Some(read) = expr.downcast_ref::<ScalarSubqueryExpr>() else { return Ok(Transformed::no(expr)) };
            let new = self.results.iter().find(|(old, _)| old == read.results()).map(|(_, new)| new.clone());
            let new = new.ok_or_else(|| DataFusionError::Internal("a subquery that nothing runs".into()))?;
            let field = read.return_field(&Schema::empty())?;
            // Said to be for serialization alone, and there is no other way to make the expression again.
            #[expect(deprecated)]
            let index = read.index();
            let expr = ScalarSubqueryExpr::new(field.data_type().clone(), field.is_nullable(), index, new);
            Ok(Transformed::yes(Arc::new(expr) as Arc<dyn PhysicalExpr>))
        })?;
        Ok(if replaced.transformed { replaced.data } else { Arc::clone(before) })
    }

    fn keys(&mut self, before: &Arc<DynamicKeys>) -> Arc<DynamicKeys> {
        Arc::clone(self.keys.entry(Arc::as_ptr(before)).or_insert_with(|| Arc::new(before.renewed())))
    }
}
