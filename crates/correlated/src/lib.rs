//! Correlated subqueries as the planner can make joins of them, where otherwise each would run for each row outside.
//!
//! | a subquery | becomes |
//! |---|---|
//! | with a LIMIT, `k` of which is `outer.k` | rows numbered within each `k`, the first of which are taken |
//! | whose one row is a value | an aggregate: the first; or all, of which there must be one at most |
//! | of which it is a value whether it has rows | whether it has counted any |
//! | that is an aggregate of rows which compare with the row outside | one of a join with the values outside |
//! | within an aggregate's arguments, or ORDER BY | a column of a projection below |
//!
//! What is in the place of a row's own subquery looks at rows for which there is none outside. So only columns may be
//! worked out there: nothing that could fail. Rows are numbered of those keys only that there are outside, if that is
//! not a whole table: few rows do not pay for all.
//!
//! The numbering is that of the window functions of SQL; the rest is after W. Kim, "On Optimizing an SQL-like Nested
//! Query" (TODS 1982), with the outer joins that the counting of nothing asks for, and joins with the values outside
//! after T. Neumann and A. Kemper, "Unnesting Arbitrary Queries" (BTW 2015).
//!
//! # Failure model
//! A plan that cannot be put together again is an error, and the query is planned as it was written. What is lifted
//! gives the rows of the subqueries run one by one: the tests of `saki_plan` compare them.
#![forbid(unsafe_code)]

mod compared;
mod element;
mod inner;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery, lit};

use self::compared::compared;
use self::element::only_element;
use self::inner::{Inner, Rows, filtered};

/// The plan with such subqueries in forms that the planner knows; `None` if there are none.
///
/// # Errors
/// When a plan cannot be put together again.
pub fn lifted(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let lifted = plan.clone().transform_up_with_subqueries(lift_node)?;
    Ok(lifted.transformed.then_some(lifted.data))
}

fn lift_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match &node {
        LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) if has_correlated(&node, node.inputs()[0].schema())? => {
            let (below, above) = moved_below(&node)?;
            Ok(Transformed::yes(above(lift_expressions(below)?.data)?))
        }
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) if has(&node, |expr| correlated(expr).is_some())? => {
            lift_expressions(node)
        }
        LogicalPlan::Join(join) if matches!(join.join_type, JoinType::Inner | JoinType::Left) => {
            let Some(right) = lateral(&join.right, &join.left)? else { return Ok(Transformed::no(node)) };
            let mut join = join.clone();
            join.right = Arc::new(right);
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        _ => Ok(Transformed::no(node)),
    }
}

/// The subquery that an expression is the value or the existence of, if it refers to the row outside.
fn correlated(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) | Expr::Exists(Exists { subquery, .. }) => Some(subquery),
        _ => None,
    }
    .filter(|subquery| !subquery.outer_ref_columns.is_empty())
}

/// Whether any expression of a node has such a part.
fn has(node: &LogicalPlan, is_it: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|expr| Ok(is_it(expr)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a node has correlated subqueries, all of which refer to columns of its input.
fn has_correlated(node: &LogicalPlan, input: &DFSchema) -> Result<bool> {
    let is_known = |outer: &Expr| matches!(outer, Expr::OuterReferenceColumn(_, column) if input.has_column(column));
    let goes_beyond =
        |expr: &Expr| correlated(expr).is_some_and(|subquery| !subquery.outer_ref_columns.iter().all(is_known));
    Ok(has(node, |expr| correlated(expr).is_some())? && !has(node, goes_beyond)?)
}

/// A projection that has the correlated subqueries of a node beside the node's input, and what makes the node of it.
fn moved_below(node: &LogicalPlan) -> Result<(LogicalPlan, impl FnOnce(LogicalPlan) -> Result<LogicalPlan>)> {
    let input = node.inputs()[0].clone();
    let mut moved: Vec<Expr> = Vec::new();
    let names = NamePreserver::new(node);
    let changed = node.clone().map_expressions(|expr| {
        let name = names.save(&expr);
        let changed = expr.transform_down(|expr| {
            if correlated(&expr).is_none() {
                return Ok(Transformed::no(expr));
            }
            let name = format!("\u{1}subquery {}", moved.len());
            moved.push(expr.alias(name.clone()));
            Ok(Transformed::new(Expr::Column(Column::from_name(name)), true, TreeNodeRecursion::Jump))
        })?;
        Ok(changed.update_data(|expr| name.restore(expr)))
    })?;
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let below = LogicalPlanBuilder::from(input).project(columns.iter().cloned().chain(moved))?.build()?;
    let is_sort = matches!(node, LogicalPlan::Sort(_));
    let above = move |below: LogicalPlan| {
        let node = changed.data.with_new_exprs(changed.data.expressions(), vec![below])?;
        // Whoever sorts has the columns of its input, and no more.
        if is_sort { LogicalPlanBuilder::from(node).project(columns)?.build() } else { Ok(node) }
    };
    Ok((below, above))
}

fn lift_expressions(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // There the planner makes joins of EXISTS itself.
    let is_condition = matches!(node, LogicalPlan::Filter(_));
    let outside = outside(&node)?;
    let names = NamePreserver::new(&node);
    let changed = node.map_expressions(|expr| {
        let name = names.save(&expr);
        let changed = expr.transform_up(|expr| match &expr {
            Expr::ScalarSubquery(subquery) if correlated(&expr).is_some() => {
                Ok(value(subquery, &outside)?.map_or(Transformed::no(expr), Transformed::yes))
            }
            Expr::Exists(exists) if correlated(&expr).is_some() && !is_condition => {
                Ok(existence(exists, &outside)?.map_or(Transformed::no(expr), Transformed::yes))
            }
            _ => Ok(Transformed::no(expr)),
        })?;
        Ok(changed.update_data(|expr| name.restore(expr)))
    })?;
    if changed.transformed { Ok(Transformed::yes(changed.data.recompute_schema()?)) } else { Ok(changed) }
}

fn with_plan(subquery: &Subquery, plan: LogicalPlan) -> Subquery {
    Subquery { subquery: Arc::new(plan), ..subquery.clone() }
}

/// The rows for which a node works its subqueries out, or more.
fn outside(node: &LogicalPlan) -> Result<LogicalPlan> {
    let input = node.inputs()[0].clone();
    let LogicalPlan::Filter(filter) = node else { return Ok(input) };
    let has_subquery = |condition: &&Expr| {
        let is_one = |expr: &Expr| Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)));
        condition.exists(is_one).unwrap_or(true)
    };
    filtered(input, split_conjunction(&filter.predicate).into_iter().filter(|condition| !has_subquery(condition)))
}

/// The value of a subquery with one row at most.
fn value(subquery: &Subquery, outside: &LogicalPlan) -> Result<Option<Expr>> {
    if let Some(plan) = compared(&subquery.subquery, outside)? {
        return Ok(Some(Expr::ScalarSubquery(with_plan(subquery, plan))));
    }
    let Some(inner) = Inner::of(&subquery.subquery)? else { return Ok(None) };
    let value = Expr::Column(subquery.subquery.schema().columns().swap_remove(0));
    Ok(match inner.rows() {
        Rows::Aggregated => inner.unlimited()?.map(|plan| Expr::ScalarSubquery(with_plan(subquery, plan))),
        Rows::Limited(1) => {
            let plan = inner.limited(outside)?;
            let plan =
                LogicalPlanBuilder::from(plan).aggregate(Vec::<Expr>::new(), [first_value(value, Vec::new())])?;
            Some(Expr::ScalarSubquery(with_plan(subquery, plan.build()?)))
        }
        rows => {
            let plan = if matches!(rows, Rows::All) { inner.all()? } else { inner.limited(outside)? };
            let all = array_agg_udaf().call(vec![value]);
            let plan = LogicalPlanBuilder::from(plan).aggregate(Vec::<Expr>::new(), [all])?;
            Some(only_element(Expr::ScalarSubquery(with_plan(subquery, plan.build()?))))
        }
    })
}

/// Whether a subquery has rows.
fn existence(Exists { subquery, negated }: &Exists, outside: &LogicalPlan) -> Result<Option<Expr>> {
    let inner = Inner::of(&subquery.subquery)?;
    let all = match &inner {
        Some(inner) if matches!(inner.rows(), Rows::All) => inner.all()?,
        Some(_) => return Ok(None),
        None => subquery.subquery.as_ref().clone(),
    };
    let counted = LogicalPlanBuilder::from(all).aggregate(Vec::<Expr>::new(), [count(lit(1)).alias("rows")])?;
    let rows = Expr::Column(Column::from_name("rows"));
    let found = if *negated { rows.eq(lit(0_i64)) } else { rows.gt(lit(0_i64)) };
    let plan = counted.project([found])?.build()?;
    let plan = if inner.is_some() { Some(plan) } else { compared(&plan, outside)? };
    Ok(plan.map(|plan| Expr::ScalarSubquery(with_plan(subquery, plan))))
}

/// The right side of a lateral join without its LIMIT.
fn lateral(right: &LogicalPlan, left: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    match right {
        LogicalPlan::SubqueryAlias(alias) => match lateral(&alias.input, left)? {
            Some(input) => LogicalPlanBuilder::from(input).alias(alias.alias.clone())?.build().map(Some),
            None => Ok(None),
        },
        LogicalPlan::Subquery(subquery) if !subquery.outer_ref_columns.is_empty() => {
            let Some(inner) = Inner::of(&subquery.subquery)? else { return Ok(None) };
            match inner.rows() {
                Rows::Limited(_) => Ok(Some(LogicalPlan::Subquery(with_plan(subquery, inner.limited(left)?)))),
                _ => Ok(None),
            }
        }
        _ => Ok(None),
    }
}
