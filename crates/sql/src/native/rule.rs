//! Puts native nodes in the place of DataFusion's.
//!
//! Filters and projections follow their input: they become native where it is, so that no form changes for
//! their sake, and no order of rows is lost. Aggregates and joins take any input. The rule belongs before DataFusion distributes rows over
//! partitions, which native nodes do not need.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::extensions_options;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use saki_vector::aggregate::{Call, Function};

use super::aggregate::{NativeAggregateExec, PlannedCall};
use super::as_native;
use super::columns::{ColumnSet, column_index};
use super::join::{JoinPlan, NativeHashJoinExec};
use super::node::statistics_of;
use super::offer::offer_keys;
use super::project::NativeProjectExec;
use crate::chain::renumber;

extensions_options! {
    /// Which operators are native.
    pub struct NativeOptions {
        /// Filters and projections over native nodes.
        pub filter: bool, default = true
        /// Aggregates.
        pub aggregate: bool, default = true
        /// Hash joins.
        pub join: bool, default = true
    }
}

impl ConfigExtension for NativeOptions {
    const PREFIX: &'static str = "native";
}

/// The optimizer rule; belongs before rows are distributed.
#[derive(Debug)]
pub struct NativeRule;

impl PhysicalOptimizerRule for NativeRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<NativeOptions>().cloned().unwrap_or_default();
        let offers_keys = config.optimizer.enable_dynamic_filter_pushdown;
        // What a recursion runs again and again starts anew each time: native nodes run once.
        let enter = |node: Arc<dyn ExecutionPlan>| {
            let recursion =
                if node.is::<RecursiveQueryExec>() { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue };
            Ok(Transformed::new(node, false, recursion))
        };
        let replace = |node: Arc<dyn ExecutionPlan>| {
            let replaced = replacement(&node, &options, offers_keys)?;
            Ok(replaced.map_or_else(|| Transformed::no(node), Transformed::yes))
        };
        plan.transform_down_up(enter, replace).map(|transformed| transformed.data)
    }

    fn name(&self) -> &'static str {
        "native_operators"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The native node for one of DataFusion's whose children have been replaced; `None` to keep it.
fn replacement(
    node: &Arc<dyn ExecutionPlan>,
    options: &NativeOptions,
    offers_keys: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return if options.filter { native_filter(filter) } else { Ok(None) };
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return native_projection(projection, options);
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return if options.aggregate { native_aggregate(aggregate) } else { Ok(None) };
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return if options.join { native_join(join, offers_keys) } else { Ok(None) };
    }
    Ok(None)
}

fn native_filter(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if as_native(filter.input().as_ref()).is_none() || filter.fetch().is_some() {
        return Ok(None);
    }
    let input = filter.input().schema();
    let all = (0..input.fields().len()).collect();
    let columns: Vec<usize> = filter.projection().as_ref().map_or(all, |projection| projection.to_vec());
    let output = columns.iter().map(|index| Arc::new(Column::new(input.field(*index).name(), *index)) as _).collect();
    let condition = Some(Arc::clone(filter.predicate()));
    let statistics = statistics_of(filter)?;
    let native = NativeProjectExec::new(Arc::clone(filter.input()), condition, output, filter.schema(), statistics)?;
    Ok(Some(Arc::new(native)))
}

fn native_projection(projection: &ProjectionExec, options: &NativeOptions) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let input = projection.input();
    if as_native(input.as_ref()).is_none() {
        return Ok(None);
    }
    let (schema, statistics) = (projection.schema(), statistics_of(projection)?);
    let exprs: Vec<Arc<dyn PhysicalExpr>> = projection.expr().iter().map(|item| Arc::clone(&item.expr)).collect();
    if let Some(join) = input.downcast_ref::<NativeHashJoinExec>() {
        if let Some(columns) = exprs.iter().map(column_index).collect::<Option<Vec<_>>>() {
            let plan = join.plan.projected(&columns, schema, statistics);
            return Ok(Some(Arc::new(NativeHashJoinExec::new(plan)?)));
        }
        if !options.filter {
            return Ok(None);
        }
        // Only what the expressions name needs to be gathered.
        let used = ColumnSet::of(&exprs);
        let narrow = used.schema(&join.schema())?;
        let plan = join.plan.projected(used.columns(), narrow, Arc::clone(&join.plan.statistics));
        let exprs = exprs.iter().map(|expr| used.renumber(expr)).collect();
        let input = Arc::new(NativeHashJoinExec::new(plan)?);
        return Ok(Some(Arc::new(NativeProjectExec::new(input, None, exprs, schema, statistics)?)));
    }
    if !options.filter {
        return Ok(None);
    }
    if let Some(inner) = input.downcast_ref::<NativeProjectExec>()
        && inner.only_columns()
    {
        let source = |output: usize| inner.source(output).unwrap_or(output);
        let exprs = exprs.iter().map(|expr| renumber(expr, &source)).collect();
        let (input, condition) = (Arc::clone(&inner.input), inner.condition.clone());
        return Ok(Some(Arc::new(NativeProjectExec::new(input, condition, exprs, schema, statistics)?)));
    }
    Ok(Some(Arc::new(NativeProjectExec::new(Arc::clone(input), None, exprs, schema, statistics)?)))
}

fn native_join(join: &HashJoinExec, offers_keys: bool) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(mut plan) = JoinPlan::of(join)? else { return Ok(None) };
    if offers_keys {
        offer_keys(&mut plan)?;
    }
    Ok(Some(Arc::new(NativeHashJoinExec::new(plan)?)))
}

/// An aggregate in one step, for DataFusion's two: partial groups for each partition, then all of them.
fn native_aggregate(last: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let first = match last.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => last,
        AggregateMode::Final | AggregateMode::FinalPartitioned => match last.input().downcast_ref::<AggregateExec>() {
            Some(partial) if *partial.mode() == AggregateMode::Partial => partial,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let grouping = first.group_expr();
    // A limit on groups ends early; sets of groupings see rows several times.
    let limited = first.limit_options().is_some() || last.limit_options().is_some();
    if limited || grouping.has_grouping_set() || !(grouping.is_single() || grouping.is_true_no_grouping()) {
        return Ok(None);
    }
    let input = first.input().schema();
    let group_by: Vec<Arc<dyn PhysicalExpr>> = grouping.expr().iter().map(|(expr, _)| Arc::clone(expr)).collect();
    let mut calls = Vec::with_capacity(first.aggr_expr().len());
    for (function, filter) in first.aggr_expr().iter().zip(first.filter_expr()) {
        if function.is_distinct() || !function.order_bys().is_empty() {
            return Ok(None);
        }
        let arguments = function.expressions();
        let [argument] = &arguments[..] else { return Ok(None) };
        let data_type = argument.data_type(&input)?;
        let result = function.field().data_type().clone();
        let Some(kind) = aggregate_function(function.fun().name()) else { return Ok(None) };
        let counts_rows = kind == Function::Count && !argument.nullable(&input)?;
        calls.push(PlannedCall {
            call: Call { function: kind, argument: (!counts_rows).then_some(data_type), result },
            argument: (!counts_rows).then(|| Arc::clone(argument)),
            filter: filter.clone(),
            text: function.human_display().unwrap_or_else(|| function.name()).to_owned(),
        });
    }
    let statistics = statistics_of(last)?;
    let native = NativeAggregateExec::new(Arc::clone(first.input()), group_by, calls, last.schema(), statistics)?;
    Ok(if native.is_supported() { Some(Arc::new(native)) } else { None })
}

fn aggregate_function(name: &str) -> Option<Function> {
    Some(match name {
        "count" => Function::Count,
        "sum" => Function::Sum,
        "avg" => Function::Average,
        "min" => Function::Min,
        "max" => Function::Max,
        _ => return None,
    })
}
