//! Puts native nodes in the place of DataFusion's.
//!
//! Filters and projections follow their input: they become native where it is, so that no form changes for
//! their sake, and no order of rows is lost. Aggregates and joins take any input. The rule belongs before DataFusion
//! distributes rows over partitions, which native nodes do not need.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use saki_vector::aggregate::{Call, Function};

use super::NativeOptions;
use super::aggregate::{NativeAggregateExec, PlannedCall};
use super::join::{JoinPlan, NativeHashJoinExec, offer_keys, ranged_loops, with_range};
use super::project::NativeProjectExec;
use crate::node::{Plan, Projection, SakiNode, find, find_native, statistics_of};

/// The optimizer rule; belongs before rows are distributed.
#[derive(Debug)]
pub struct NativeRule;

impl PhysicalOptimizerRule for NativeRule {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let options = config.extensions.get::<NativeOptions>().cloned().unwrap_or_default();
        let offers_keys = config.optimizer.enable_dynamic_filter_pushdown;
        // What a recursion runs again and again starts anew each time: native nodes run once.
        let enter = |node: Plan| {
            let recursion =
                if node.is::<RecursiveQueryExec>() { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue };
            Ok(Transformed::new(node, false, recursion))
        };
        let replace = |node: Plan| {
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
fn replacement(node: &Plan, options: &NativeOptions, offers_keys: bool) -> Result<Option<Plan>> {
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
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>().filter(|_| options.join) {
        return ranged_loops(join)?.map(|plan| Ok(NativeHashJoinExec::new(plan)?.into_plan())).transpose();
    }
    Ok(None)
}

fn native_filter(filter: &FilterExec) -> Result<Option<Plan>> {
    if find_native(filter.input().as_ref()).is_none() || filter.fetch().is_some() {
        return Ok(None);
    }
    let input = filter.input().schema();
    let all = (0..input.fields().len()).collect();
    let columns: Vec<usize> = filter.projection().as_ref().map_or(all, |projection| projection.to_vec());
    let output = columns.iter().map(|index| Arc::new(Column::new(input.field(*index).name(), *index)) as _).collect();
    let condition = Some(Arc::clone(filter.predicate()));
    let statistics = statistics_of(filter)?;
    let native = NativeProjectExec::new(Arc::clone(filter.input()), condition, output, filter.schema(), statistics)?;
    Ok(Some(native.into_plan()))
}

fn native_projection(projection: &ProjectionExec, options: &NativeOptions) -> Result<Option<Plan>> {
    let input = projection.input();
    if find_native(input.as_ref()).is_none() {
        return Ok(None);
    }
    let wanted = Projection {
        exprs: projection.expr().iter().map(|item| Arc::clone(&item.expr)).collect(),
        schema: projection.schema(),
        statistics: statistics_of(projection)?,
        computes: options.filter,
    };
    if let Some(node) = find(input.as_ref())
        && let Some(plan) = node.projected(&wanted)?
    {
        return Ok(Some(plan));
    }
    if !options.filter {
        return Ok(None);
    }
    let Projection { exprs, schema, statistics, .. } = wanted;
    Ok(Some(NativeProjectExec::new(Arc::clone(input), None, exprs, schema, statistics)?.into_plan()))
}

fn native_join(join: &HashJoinExec, offers_keys: bool) -> Result<Option<Plan>> {
    let Some(plan) = JoinPlan::of(join)? else { return Ok(None) };
    let mut plan = with_range(plan)?;
    if offers_keys {
        offer_keys(&mut plan)?;
    }
    Ok(Some(NativeHashJoinExec::new(plan)?.into_plan()))
}

/// An aggregate in one step, for DataFusion's two: partial groups for each partition, then all of them.
fn native_aggregate(last: &AggregateExec) -> Result<Option<Plan>> {
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
    Ok(native.is_supported().then(|| native.into_plan()))
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
