//! Aggregates and window functions that see rows one after another, over a subquery with ORDER BY: they see them in
//! its order. The planner takes relations for sets, and leaves such a sort out.
//!
//! The rows of the subquery get numbers in a column of their own, which goes up with them, and by which the function is
//! ordered. The column ends where the function is.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{AggregateFunction, Sort, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection, SubqueryAlias, Window, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};

/// What the column is called: as none of a statement.
const NUMBER: &str = "\u{1}order";
const AGGREGATES: [&str; 5] = ["array_agg", "first_value", "last_value", "nth_value", "string_agg"];
const WINDOWS: [&str; 7] = ["first_value", "lag", "last_value", "lead", "nth_value", "ntile", "row_number"];

/// A plan in which such functions have their order.
///
/// # Errors
/// Of the planner.
pub fn kept(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan
        .transform_up_with_subqueries(|plan| {
            let ordered = match &plan {
                LogicalPlan::Aggregate(node) => aggregate(node)?,
                LogicalPlan::Window(node) => window(node)?,
                _ => None,
            };
            Ok(match ordered {
                Some(ordered) => Transformed::yes(ordered),
                None => Transformed::no(plan),
            })
        })?
        .data)
}

fn aggregate(node: &Aggregate) -> Result<Option<LogicalPlan>> {
    let sees_order = |expr: &Expr| match expr.clone().unalias() {
        Expr::AggregateFunction(call) => {
            call.params.order_by.is_empty() && !call.params.distinct && AGGREGATES.contains(&call.func.name())
        }
        _ => false,
    };
    if !node.aggr_expr.iter().any(sees_order) {
        return Ok(None);
    }
    let Some((input, number)) = numbered(&node.input)? else { return Ok(None) };
    let ordered = |expr: &Expr| match expr.clone().unalias() {
        Expr::AggregateFunction(mut call) if sees_order(expr) => {
            call.params.order_by = vec![by(&number)];
            let AggregateFunction { func, params } = call;
            Expr::AggregateFunction(AggregateFunction { func, params }).alias(expr.schema_name().to_string())
        }
        _ => expr.clone(),
    };
    let calls = node.aggr_expr.iter().map(ordered).collect();
    Ok(Some(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), node.group_expr.clone(), calls)?)))
}

fn window(node: &Window) -> Result<Option<LogicalPlan>> {
    let sees_order = |expr: &Expr| match expr.clone().unalias() {
        Expr::WindowFunction(call) => call.params.order_by.is_empty() && is_ordered(&call),
        _ => false,
    };
    if !node.window_expr.iter().any(sees_order) {
        return Ok(None);
    }
    let Some((input, number)) = numbered(&node.input)? else { return Ok(None) };
    let ordered = |expr: &Expr| match expr.clone().unalias() {
        Expr::WindowFunction(mut call) if sees_order(expr) => {
            call.params.order_by = vec![by(&number)];
            Expr::WindowFunction(call).alias(expr.schema_name().to_string())
        }
        _ => expr.clone(),
    };
    let calls = node.window_expr.iter().map(ordered).collect();
    let plan = LogicalPlan::Window(Window::try_new(calls, Arc::new(input))?);
    let columns = node.schema.columns().into_iter().map(Expr::Column);
    Ok(Some(LogicalPlanBuilder::from(plan).project(columns)?.build()?))
}

/// Whether a function's value depends on which rows come first.
fn is_ordered(call: &WindowFunction) -> bool {
    let frame = &call.params.window_frame;
    let is_whole = matches!(&frame.start_bound, WindowFrameBound::Preceding(bound) if bound.is_null())
        && matches!(&frame.end_bound, WindowFrameBound::Following(bound) if bound.is_null());
    let name = call.fun.name();
    WINDOWS.contains(&name) || AGGREGATES.contains(&name) || frame.units == WindowFrameUnits::Rows && !is_whole
}

fn by(number: &Column) -> Sort {
    Sort::new(Expr::Column(number.clone()), true, false)
}

/// A relation with the numbers of its rows, if it has an order.
fn numbered(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Column)>> {
    Ok(match plan {
        LogicalPlan::Sort(sort) => {
            let is_volatile = sort.expr.iter().any(|key| key.expr.is_volatile());
            if is_volatile || plan.contains_outer_reference() {
                return Ok(None);
            }
            let mut call = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), Vec::new());
            call.params.order_by = sort.expr.clone();
            call.params.window_frame = WindowFrame::new(Some(true));
            let call = Expr::WindowFunction(Box::new(call)).alias(NUMBER);
            let window = Window::try_new(vec![call], Arc::new(plan.clone()))?;
            Some((LogicalPlan::Window(window), Column::new_unqualified(NUMBER)))
        }
        LogicalPlan::Projection(projection) => {
            let Some((input, number)) = numbered(&projection.input)? else { return Ok(None) };
            let mut columns = projection.expr.clone();
            columns.push(Expr::Column(number.clone()));
            Some((LogicalPlan::Projection(Projection::try_new(columns, Arc::new(input))?), number))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some((input, _)) = numbered(&alias.input)? else { return Ok(None) };
            let number = Column::new(Some(alias.alias.clone()), NUMBER);
            Some((LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?), number))
        }
        LogicalPlan::Filter(filter) => {
            let Some((input, number)) = numbered(&filter.input)? else { return Ok(None) };
            Some((LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(input))?), number))
        }
        LogicalPlan::Limit(limit) => {
            let Some((input, number)) = numbered(&limit.input)? else { return Ok(None) };
            let mut limit = limit.clone();
            limit.input = Arc::new(input);
            Some((LogicalPlan::Limit(limit), number))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn rows_are_seen_in_the_order_of_the_subquery() {
        let from = "(VALUES (1, 30, 'x'), (2, 20, 'y'), (3, 10, 'z'), (4, 10, 'x')) AS t(a, b, c)";
        check(
            &[
                ("SELECT array_agg(a) FROM (SELECT a FROM # ORDER BY b, a DESC) q", "[4, 3, 2, 1]"),
                ("SELECT string_agg(c, '') FROM (SELECT c FROM # ORDER BY a DESC) q", "xzyx"),
                ("SELECT array_agg(x) FROM (SELECT a + 1 AS x, b FROM # ORDER BY b, a) q WHERE b < 30", "[4, 5, 3]"),
                ("SELECT array_agg(a) FROM (SELECT a FROM # ORDER BY b, a LIMIT 2) q", "[3, 4]"),
                ("SELECT array_agg(a ORDER BY a) FROM (SELECT a FROM # ORDER BY b, a) q", "[1, 2, 3, 4]"),
                (
                    "SELECT c, array_agg(a), count(*) FROM (SELECT * FROM # ORDER BY b) q GROUP BY c ORDER BY c",
                    "x|[4, 1]|2 y|[2]|1 z|[3]|1",
                ),
                ("WITH q AS (SELECT a FROM # ORDER BY b, a) SELECT array_agg(a) FROM q", "[3, 4, 2, 1]"),
                ("SELECT a, row_number() OVER () FROM (SELECT a FROM # ORDER BY b, a) q ORDER BY a", "1|4 2|3 3|1 4|2"),
                (
                    "SELECT a, lag(a) OVER () AS l FROM (SELECT a FROM # ORDER BY b, a) q ORDER BY a",
                    "1|2 2|4 3|NULL 4|3",
                ),
                ("SELECT a, sum(a) OVER () FROM (SELECT a FROM # ORDER BY b, a) q ORDER BY a", "1|10 2|10 3|10 4|10"),
                ("SELECT (SELECT array_agg(a) FROM (SELECT a FROM # ORDER BY -a) q)", "[4, 3, 2, 1]"),
                ("SELECT max(n) FROM (SELECT row_number() OVER () AS n FROM (SELECT a FROM # ORDER BY b) p) q", "4"),
            ],
            |sql| shown(&sql.replace('#', from)),
        );
    }
}
