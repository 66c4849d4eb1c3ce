//! Columns of UNION, INTERSECT and EXCEPT: those of both sides have one type.

use std::sync::Arc;

use arrow_schema::DataType as Arrow;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, Join, JoinType, LogicalPlan, Projection, Union};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use crate::dialect::types::{Together, chosen, converted, do_not_match, is_interval, known_type};

/// A union whose sides have the same types, as far as the planner would not give them these by itself.
///
/// # Errors
/// 42804 for types that do not match, and what is said of text that is no value of the other side's type.
pub fn union(union: Union) -> Result<LogicalPlan> {
    let Union { inputs, .. } = union;
    let targets = targets(&inputs, "UNION")?;
    let inputs = inputs.into_iter().map(|input| with_types(input, &targets)).collect::<Result<_>>()?;
    // The planner brings together the rest at once, so that what is above sees its types.
    TypeCoercionRewriter::coerce_union(Union::try_new_with_loose_types(inputs)?)
}

/// Whether a join is one that INTERSECT or EXCEPT has become.
pub fn is_set_operation(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull
        && matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
}

/// The same for INTERSECT and EXCEPT.
///
/// # Errors
/// As [`union`].
pub fn set_operation(mut join: Join) -> Result<LogicalPlan> {
    let place = if join.join_type == JoinType::LeftSemi { "INTERSECT" } else { "EXCEPT" };
    let targets = targets(&[Arc::clone(&join.left), Arc::clone(&join.right)], place)?;
    join.left = with_types(join.left, &targets)?;
    join.right = with_types(join.right, &targets)?;
    let columns = |plan: &LogicalPlan| plan.schema().columns().into_iter().map(Expr::Column);
    let pairs = columns(&join.left).zip(columns(&join.right));
    join.on = pairs
        .map(|(left, right)| match left.get_type(join.left.schema())? {
            of if is_interval(&of) => Ok((saki_times::length(left), saki_times::length(right))),
            _ => Ok((left, right)),
        })
        .collect::<Result<_>>()?;
    LogicalPlan::Join(join).recompute_schema()
}

/// The type of each column, where it has to be given.
fn targets(inputs: &[Arc<LogicalPlan>], place: &str) -> Result<Vec<Option<Arrow>>> {
    let width = inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    (0..width).map(|column| target(inputs, column, place)).collect()
}

fn target(inputs: &[Arc<LogicalPlan>], column: usize, place: &str) -> Result<Option<Arrow>> {
    let types: Vec<Arrow> = inputs.iter().filter_map(|input| column_type(input, column)).collect();
    let has_unknown = inputs.iter().any(|input| column_type(input, column).is_none());
    match chosen(types.iter()) {
        Together::Cast(target) => Ok(Some(target)),
        Together::As(target) if has_unknown => Ok(Some(target)),
        Together::As(_) | Together::Unknown => Ok(None),
        Together::Apart => {
            let other = types.iter().find(|of| chosen([&types[0], *of]) == Together::Apart).unwrap_or(&types[0]);
            Err(do_not_match(place, &types[0], other).into())
        }
    }
}

/// The type of a query's column; `None` for a text without one in its select list, and for NULL.
fn column_type(plan: &LogicalPlan, column: usize) -> Option<Arrow> {
    let of_schema = plan.schema().field(column).data_type();
    match plan {
        LogicalPlan::Projection(projection) => match unaliased(&projection.expr[column]) {
            literal @ Expr::Literal(..) => known_type(literal, projection.input.schema()),
            _ => Some(of_schema.clone()),
        },
        LogicalPlan::SubqueryAlias(alias) => column_type(&alias.input, column),
        LogicalPlan::Distinct(Distinct::All(input)) => column_type(input, column),
        _ => Some(of_schema.clone()),
    }
    .filter(|of| *of != Arrow::Null)
}

fn unaliased(mut expr: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    expr
}

/// A query with columns of these types.
///
/// # Errors
/// What is said of text that is no value of its column's type.
pub fn with_types(plan: Arc<LogicalPlan>, targets: &[Option<Arrow>]) -> Result<Arc<LogicalPlan>> {
    let fields = plan.schema().fields();
    if targets.iter().zip(fields).all(|(target, field)| target.as_ref().is_none_or(|of| of == field.data_type())) {
        return Ok(plan);
    }
    let (exprs, input) = match Arc::unwrap_or_clone(plan) {
        LogicalPlan::Projection(Projection { expr, input, .. }) => (expr, input),
        other => (other.schema().columns().into_iter().map(Expr::Column).collect(), Arc::new(other)),
    };
    let exprs = exprs.into_iter().enumerate().map(|(at, expr)| match targets.get(at) {
        Some(Some(target)) => retyped(expr, target, &input),
        _ => Ok(expr),
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, input)?)))
}

/// A column of a select list as one of another type, under its name.
fn retyped(expr: Expr, target: &Arrow, input: &LogicalPlan) -> Result<Expr> {
    let schema = input.schema();
    if expr.get_type(schema)? == *target {
        return Ok(expr);
    }
    let (relation, name) = expr.qualified_name();
    let inner = match expr {
        Expr::Alias(alias) => *alias.expr,
        other => other,
    };
    Ok(converted(inner, target, schema)?.alias_qualified(relation, name))
}
