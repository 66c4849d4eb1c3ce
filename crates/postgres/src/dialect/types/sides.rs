//! Types of expressions, and what two of them become beside each other.

use arrow_schema::{DataType as Arrow, Field};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, cast};

use super::common::{Together, compared, no_operator};
use super::json::json_compared;
use super::known::{known_type, type_of};
use super::unknown::typed;
use saki_base::DataType;
use saki_catalog::SqlError;
use saki_exec::lists;
use saki_functions::arrays::order::key;
use saki_system::PG_TYPE;
use saki_system::type_name;

/// An expression as one of a type.
///
/// # Errors
/// As [`typed`].
pub fn converted(expr: Expr, target: &Arrow, schema: &DFSchema) -> Result<Expr> {
    let expr = typed(expr, target)?;
    match type_of(&expr, schema) {
        Some(of) if of == *target => Ok(expr),
        // The planner has no such cast; what it is comes later.
        Some(Arrow::Time64(_)) if is_interval(target) => Ok(cast(expr, target.clone())),
        _ => expr.cast_to(target, schema),
    }
}

/// Whether values of a type are intervals: those between moments are, in a form of their own.
pub fn is_interval(data_type: &Arrow) -> bool {
    matches!(data_type, Arrow::Interval(_) | Arrow::Duration(_))
}

/// Whether an operator compares.
pub fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Both sides of a comparison, brought together as PostgreSQL does.
///
/// # Errors
/// 42883 if they cannot be compared, and as [`typed`].
pub fn comparison(left: Expr, operator: Operator, right: Expr, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let (left_type, right_type) = (known_type(&left, schema), known_type(&right, schema));
    let is_interval = |of: &Option<Arrow>| of.as_ref().is_some_and(is_interval);
    let any_interval = is_interval(&left_type) || is_interval(&right_type);
    let (left, right) = match (left_type, right_type) {
        (Some(of), None) => {
            let right = typed_beside(right, &left, &of, schema)?;
            (left, right)
        }
        (None, Some(of)) => (typed_beside(left, &right, &of, schema)?, right),
        (None, None) => (left, right),
        (Some(left_type), Some(right_type)) => match compared(&left_type, &right_type) {
            Together::Cast(target) => (converted(left, &target, schema)?, converted(right, &target, schema)?),
            Together::Apart if !is_special(&left, schema) && !is_special(&right, schema) => {
                return Err(no_operator(&left_type, operator, &right_type).into());
            }
            _ => (left, right),
        },
    };
    if any_interval && is_interval(&known_type(&left, schema)) && is_interval(&known_type(&right, schema)) {
        return Ok((saki_times::length(left), saki_times::length(right)));
    }
    let (left, right) = array_compared(left, operator, right, schema);
    json_compared(left, operator, right, schema)
}

/// Both sides of a comparison of arrays as what these are ordered by. Of most elements equality is the planner's own.
fn array_compared(left: Expr, operator: Operator, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    let (Some(of), Some(other)) = (known_type(&left, schema), known_type(&right, schema)) else { return (left, right) };
    let Some(element) = lists::element_of(&of).filter(|_| of == other) else { return (left, right) };
    let is_float = matches!(element.data_type(), DataType::Float4 | DataType::Float8);
    let is_order = matches!(operator, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    match is_order || is_float && compares(operator) {
        true => (key(left), key(right)),
        false => (left, right),
    }
}

/// As [`typed`], of the type of another expression, which is `of`. Of a parameter the field says it as that one's does.
fn typed_beside(expr: Expr, other: &Expr, of: &Arrow, schema: &DFSchema) -> Result<Expr> {
    let is_open = matches!(&expr, Expr::Placeholder(Placeholder { field: None, .. }));
    match typed(expr, of)? {
        Expr::Placeholder(Placeholder { id, field: Some(field) }) if is_open => {
            let (_, told) = other.to_field(schema)?;
            let named = told.metadata().get(PG_TYPE).map(|name| (PG_TYPE.to_owned(), name.clone()));
            let field = Field::clone(&field).with_metadata(named.into_iter().collect()).into();
            Ok(Expr::Placeholder(Placeholder { id, field: Some(field) }))
        }
        typed => Ok(typed),
    }
}

/// A condition.
///
/// # Errors
/// 42804 if it is none; `place` says what it is the argument of.
pub fn truth(expr: Expr, place: &str, schema: &DFSchema) -> Result<Expr> {
    let Some(of) = known_type(&expr, schema) else { return typed(expr, &Arrow::Boolean) };
    match compared(&of, &Arrow::Boolean) {
        Together::Apart => {
            let message = format!("{place} must be type boolean, not type {}", type_name(&of));
            Err(SqlError::invalid(message).code("42804").into())
        }
        _ => Ok(expr),
    }
}

/// Whether an expression has one of the types of system relations that are more than their Arrow type says.
pub fn is_special(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema).is_ok_and(|(_, field)| field.metadata().contains_key(PG_TYPE))
}
