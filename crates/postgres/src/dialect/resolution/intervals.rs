//! Intervals that are equal and not the same, as a month and thirty days: they are of one group, which shows one of
//! them. So they are grouped by their length, and an aggregate brings back the first.

use std::sync::Arc;

use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Subquery,
};

use crate::dialect::types::is_interval;

/// What a column that brings an interval back is called: as none of a statement.
const FIRST: &str = "\u{1}interval";

/// Groups of which no two are equal.
///
/// # Errors
/// Of the planner.
pub fn grouped(node: Aggregate) -> Result<LogicalPlan> {
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = &node;
    let is_one = |key: &Expr| key.get_type(input.schema()).is_ok_and(|of| is_interval(&of));
    // Sets of groups are left as they are: a set without the interval shows none.
    let has_sets = group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
    if has_sets || !group_expr.iter().any(is_one) {
        return Ok(LogicalPlan::Aggregate(node));
    }
    let (mut keys, mut calls) = (Vec::with_capacity(group_expr.len()), aggr_expr.clone());
    let mut columns: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    for (at, key) in group_expr.iter().enumerate() {
        if !is_one(key) {
            keys.push(key.clone());
            continue;
        }
        let name = format!("{FIRST} {at}");
        let interval = key.clone().unalias();
        calls.push(first_value_udaf().call(vec![interval.clone()]).alias(&name));
        keys.push(saki_times::length(interval));
        let (relation, field) = schema.qualified_field(at);
        columns[at] = Expr::Column(Column::new_unqualified(name)).alias_qualified(relation.cloned(), field.name());
    }
    let groups = LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(input), keys, calls)?);
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(groups))?))
}

/// Rows of which no two are equal.
///
/// # Errors
/// Of the planner.
pub fn distinct(node: Distinct) -> Result<LogicalPlan> {
    match node {
        Distinct::All(input) if has_intervals(&input) => {
            let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
            grouped(Aggregate::try_new(input, columns, Vec::new())?)
        }
        Distinct::On(mut on) => {
            let length = |key: Expr| match key.get_type(on.input.schema()) {
                Ok(of) if is_interval(&of) => saki_times::length(key),
                _ => key,
            };
            on.on_expr = std::mem::take(&mut on.on_expr).into_iter().map(length).collect();
            for key in on.sort_expr.iter_mut().flatten() {
                key.expr = length(std::mem::take(&mut key.expr));
            }
            LogicalPlan::Distinct(Distinct::On(on)).recompute_schema()
        }
        other => LogicalPlan::Distinct(other).recompute_schema(),
    }
}

fn has_intervals(plan: &LogicalPlan) -> bool {
    plan.schema().fields().iter().any(|field| is_interval(field.data_type()))
}

/// A subquery of one interval as one of its length.
///
/// # Errors
/// Of the planner.
pub fn lengths(subquery: Subquery) -> Result<Subquery> {
    let plan = Arc::unwrap_or_clone(subquery.subquery);
    let lengths = plan.schema().columns().into_iter().map(|column| saki_times::length(Expr::Column(column)));
    let plan = LogicalPlanBuilder::from(plan.clone()).project(lengths.collect::<Vec<_>>())?.build()?;
    Ok(Subquery { subquery: Arc::new(plan), ..subquery })
}
