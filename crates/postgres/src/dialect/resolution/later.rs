//! Functions whose value differs from call to call, in the select list of a query with ORDER BY or LIMIT: they are
//! called for the rows that are left, in their order, so that `nextval` numbers these. The planner computes a select
//! list first.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, Projection, Sort};

/// A plan in which they are.
///
/// # Errors
/// Of the planner.
pub fn called_last(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan
        .transform_up_with_subqueries(|plan| {
            let later = match &plan {
                LogicalPlan::Sort(sort) => after_sort(sort)?,
                LogicalPlan::Limit(limit) => after_limit(limit)?,
                _ => None,
            };
            Ok(later.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })?
        .data)
}

/// The projection of an input, if it calls such a function.
fn volatile(input: &LogicalPlan) -> Option<&Projection> {
    match input {
        LogicalPlan::Projection(projection) if projection.expr.iter().any(Expr::is_volatile) => Some(projection),
        _ => None,
    }
}

fn after_sort(sort: &Sort) -> Result<Option<LogicalPlan>> {
    let Some(projection) = volatile(&sort.input) else { return Ok(None) };
    let columns = projection.schema.columns();
    let values: Vec<Expr> = projection.expr.iter().map(|expr| expr.clone().unalias()).collect();
    let replaced: HashMap<_, _> = columns.iter().zip(&values).collect();
    let mut keys = sort.expr.clone();
    for key in &mut keys {
        let expr = std::mem::take(&mut key.expr);
        key.expr = expr
            .transform_up(|expr| {
                Ok(match &expr {
                    Expr::Column(column) => match replaced.get(column) {
                        Some(value) => Transformed::yes((*value).clone()),
                        None => Transformed::no(expr),
                    },
                    _ => Transformed::no(expr),
                })
            })?
            .data;
        // What is sorted by has to be known before.
        if key.expr.is_volatile() {
            return Ok(None);
        }
    }
    let input = Arc::clone(&projection.input);
    let sorted = LogicalPlan::Sort(Sort { expr: keys, input, fetch: sort.fetch });
    Ok(Some(LogicalPlan::Projection(Projection::try_new(projection.expr.clone(), Arc::new(sorted))?)))
}

fn after_limit(limit: &Limit) -> Result<Option<LogicalPlan>> {
    let Some(projection) = volatile(&limit.input) else { return Ok(None) };
    let limited = Limit { input: Arc::clone(&projection.input), ..limit.clone() };
    let limited = Arc::new(LogicalPlan::Limit(limited));
    Ok(Some(LogicalPlan::Projection(Projection::try_new(projection.expr.clone(), limited)?)))
}
