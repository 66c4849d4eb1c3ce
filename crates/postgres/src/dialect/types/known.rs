//! The types that expressions have.

use arrow_schema::DataType as Arrow;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};

use super::unknown::text_of;

/// The type of an expression that has one; `None` for texts and NULLs whose type is unknown.
pub fn known_type(expr: &Expr, schema: &DFSchema) -> Option<Arrow> {
    if text_of(expr).is_some() {
        return None;
    }
    match expr {
        // The planner takes all whole numbers for bigints.
        Expr::Literal(ScalarValue::Int64(Some(number)), _) if i32::try_from(*number).is_ok() => Some(Arrow::Int32),
        _ => type_of(expr, schema).filter(|of| *of != Arrow::Null),
    }
}

/// The type of an expression, without a look at what need not be looked at: each level asks for the types of those
/// below.
pub fn type_of(expr: &Expr, schema: &DFSchema) -> Option<Arrow> {
    match expr {
        Expr::Literal(value, _) => Some(value.data_type()),
        Expr::Cast(Cast { field, .. }) => Some(field.data_type().clone()),
        Expr::Alias(alias) => type_of(&alias.expr, schema),
        Expr::BinaryExpr(binary) if binary.op.supports_propagation() || binary.op.is_logic_operator() => {
            Some(Arrow::Boolean)
        }
        Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::Between(_)
        | Expr::InList(_)
        | Expr::InSubquery(_)
        | Expr::Exists(_)
        | Expr::Like(_) => Some(Arrow::Boolean),
        other => other.get_type(schema).ok(),
    }
}
