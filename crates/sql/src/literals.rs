//! Text compared with a uuid, bytea or boolean column means a value of that type, as in PostgreSQL.

use arrow_schema::DataType as Arrow;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use saki_base::{DataType, Value};

use crate::error::SqlError;

/// Reads text literals as values of the type they are compared with.
#[derive(Debug)]
pub struct TypedLiterals;

impl ExprPlanner for TypedLiterals {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        if matches!(expr.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            if let Some(typed) = typed(&expr.right, &expr.left, schema)? {
                expr.right = typed;
            } else if let Some(typed) = typed(&expr.left, &expr.right, schema)? {
                expr.left = typed;
            }
        }
        Ok(PlannerResult::Original(expr))
    }
}

fn typed(literal: &Expr, other: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = literal else { return Ok(None) };
    let Ok(other) = other.get_type(schema) else { return Ok(None) };
    let parse = |data_type| Value::parse(data_type, text).map_err(|error| SqlError::data(error.to_string()));
    let value = match other {
        Arrow::FixedSizeBinary(16) => match parse(DataType::Uuid)? {
            Value::Uuid(bytes) => ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())),
            _ => return Ok(None),
        },
        Arrow::Binary => match parse(DataType::Bytea)? {
            Value::Bytea(bytes) => ScalarValue::Binary(Some(bytes)),
            _ => return Ok(None),
        },
        Arrow::Boolean => match parse(DataType::Bool)? {
            Value::Bool(truth) => ScalarValue::Boolean(Some(truth)),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(Expr::Literal(value, None)))
}
