//! Aggregates of rows that compare with the row outside otherwise than by equality. The values that there are outside
//! are joined with the rows first; then equalities tie the joined rows to a row outside, as the planner wants it:
//!
//! ```text
//!   count(*) of  b where b.x = outside.x and b.y > outside.y
//!   count(*) of (distinct x, y of outside) o join b on b.x = o.x and b.y > o.y
//!               where o.x = outside.x and o.y = outside.y
//! ```
//!
//! No comparison is true of a NULL outside, nor is an equality: such rows get what an aggregate says of no rows.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::Between;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator,
};

use super::inner::{any_expression, filtered, is_plain, refers_out};

/// Such an aggregate, tied by equalities; `None`: it is none, or tied by these alone, or by what is no comparison.
pub fn compared(query: &LogicalPlan, outside: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let fits = !any_expression(query, Expr::is_volatile)? && is_repeatable(outside)?;
    if fits { tied(query, outside, false) } else { Ok(None) }
}

/// Whether a plan has the same rows each time, whatever order it works in: what is not among the values the first time
/// would be taken to compare with nothing.
fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let is_exact = |call: &Expr, input: &LogicalPlan| match call {
        Expr::AggregateFunction(called) => {
            matches!(called.func.name(), "count" | "min" | "max" | "sum" | "avg")
                && call.get_type(input.schema()).is_ok_and(|data_type| !data_type.is_floating())
        }
        _ => false,
    };
    let may_differ = plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => false,
            LogicalPlan::Sort(sort) => sort.fetch.is_some(),
            LogicalPlan::Aggregate(groups) => !groups.aggr_expr.iter().all(|call| is_exact(call, &groups.input)),
            _ => true,
        })
    })?;
    Ok(!may_differ && !any_expression(plan, Expr::is_volatile)? && !refers_out(plan)?)
}

/// A node with the filter beneath it tied so. Below the aggregate only columns may be worked out: nothing that could
/// fail for rows of nobody.
fn tied(node: &LogicalPlan, outside: &LogicalPlan, is_below: bool) -> Result<Option<LogicalPlan>> {
    let (input, is_below) = match node {
        LogicalPlan::Filter(filter) if is_below => return joined(filter, outside),
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() && !is_below => (&aggregate.input, true),
        LogicalPlan::Projection(projection) if !is_below || projection.expr.iter().all(is_plain) => {
            (&projection.input, is_below)
        }
        LogicalPlan::SubqueryAlias(alias) => (&alias.input, is_below),
        _ => return Ok(None),
    };
    if node.contains_outer_reference() {
        return Ok(None);
    }
    let below = tied(input, outside, is_below)?;
    below.map(|below| node.with_new_exprs(node.expressions(), vec![below])).transpose()
}

/// The rows of a filter beside the values outside that they compare with, for the rows outside that have these.
fn joined(filter: &Filter, outside: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut columns: Vec<Column> = Vec::new();
    let (mut conditions, mut others, mut only_equal) = (Vec::new(), Vec::new(), true);
    for condition in split_conjunction(&filter.predicate) {
        if !condition.contains_outer() {
            others.push(condition);
            continue;
        }
        let comparisons = comparisons(condition);
        if comparisons.is_empty() || !comparisons.iter().all(is_strict) {
            return Ok(None);
        }
        only_equal &= comparisons.iter().all(|comparison| comparison.op == Operator::Eq);
        for comparison in comparisons {
            conditions.push(with_values(Expr::BinaryExpr(comparison), &mut columns)?);
        }
    }
    // -0 and 0 are equal, and each would be looked for by its bits.
    let is_exact = |column: &Column| match outside.schema().qualified_field_from_column(column) {
        Ok((_, field)) => !field.data_type().is_floating(),
        Err(_) => false,
    };
    let rows = filtered(filter.input.as_ref().clone(), others)?;
    if only_equal || refers_out(&rows)? || !columns.iter().all(is_exact) {
        return Ok(None);
    }
    let values = columns.iter().enumerate().map(|(at, column)| Expr::Column(column.clone()).alias(name(at)));
    let values = LogicalPlanBuilder::from(outside.clone()).project(values)?.distinct()?;
    let joined = values.join_on(rows, JoinType::Inner, conditions)?.build()?;
    let outer = |column: &Column| -> Result<Expr> {
        let (_, field) = outside.schema().qualified_field_from_column(column)?;
        Ok(Expr::OuterReferenceColumn(field.clone(), column.clone()))
    };
    let ties = columns.iter().enumerate().map(|(at, column)| Ok(value(at).eq(outer(column)?)));
    filtered(joined, &ties.collect::<Result<Vec<_>>>()?).map(Some)
}

/// What a condition compares; nothing, if it does otherwise.
fn comparisons(condition: &Expr) -> Vec<BinaryExpr> {
    match condition {
        Expr::BinaryExpr(comparison) => vec![comparison.clone()],
        Expr::Between(Between { expr, negated: false, low, high }) => [(Operator::GtEq, low), (Operator::LtEq, high)]
            .map(|(op, bound)| BinaryExpr { left: expr.clone(), op, right: bound.clone() })
            .into(),
        _ => Vec::new(),
    }
}

/// Whether it is not true of a NULL outside.
fn is_strict(comparison: &BinaryExpr) -> bool {
    use Operator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, Plus};
    let may_be_value = |expr: &Expr| match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Literal(..) | Expr::Cast(_) | Expr::Negative(_) => {
            true
        }
        Expr::BinaryExpr(binary) => matches!(binary.op, Plus | Minus | Multiply | Divide | Modulo),
        _ => false,
    };
    let is_value = |expr: &Expr| !expr.exists(|expr| Ok(!may_be_value(expr))).unwrap_or(true);
    matches!(comparison.op, Eq | Lt | LtEq | Gt | GtEq) && is_value(&comparison.left) && is_value(&comparison.right)
}

/// A condition with columns of the joined values in the place of those outside, which are gathered.
fn with_values(condition: Expr, columns: &mut Vec<Column>) -> Result<Expr> {
    let replaced = condition.transform_up(|expr| {
        let Expr::OuterReferenceColumn(_, column) = expr else { return Ok(Transformed::no(expr)) };
        let at = columns.iter().position(|known| *known == column).unwrap_or_else(|| {
            columns.push(column);
            columns.len() - 1
        });
        Ok(Transformed::yes(value(at)))
    })?;
    Ok(replaced.data)
}

fn value(at: usize) -> Expr {
    Expr::Column(Column::from_name(name(at)))
}

fn name(at: usize) -> String {
    format!("\u{1}outside {at}")
}
