//! Casts in functional notation: `float8(x)`, `date(moment)`, `timestamptz(day, time)`. PostgreSQL has functions of
//! these names for some types, and takes a call for a cast where it has none (`func_get_detail`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, VisitorMut,
};

use crate::statement::{name_of, parse_expression, take};
use saki_catalog::{Result, SqlError};

/// Types whose names are not syntax: `int(x)` and `real(x)` are nothing to PostgreSQL either.
const TYPES: [&str; 18] = [
    "bool",
    "bpchar",
    "bytea",
    "date",
    "float4",
    "float8",
    "int2",
    "int4",
    "int8",
    "json",
    "jsonb",
    "name",
    "numeric",
    "oid",
    "text",
    "timestamptz",
    "uuid",
    "varchar",
];

pub struct Calls;

impl VisitorMut for Calls {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        match cast(function) {
            Ok(Some(cast)) => *expr = cast,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

/// The cast that a call is, if it is one.
fn cast(function: &mut Function) -> Result<Option<Expr>> {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of);
    let Some(name) = name.filter(|name| TYPES.contains(&name.as_str())) else { return Ok(None) };
    let is_plain = function.over.is_none() && function.filter.is_none() && function.within_group.is_empty();
    let FunctionArguments::List(list) = &mut function.args else { return Ok(None) };
    if !is_plain || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return Ok(None);
    }
    let of = match &mut list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] => take(of),
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(day)), FunctionArg::Unnamed(FunctionArgExpr::Expr(time))]
            if name == "timestamptz" =>
        {
            let [left, right] = [day, time].map(|part| Box::new(nested(take(part))));
            Expr::BinaryOp { left, op: BinaryOperator::Plus, right }
        }
        _ => return Ok(None),
    };
    let (expr, data_type) = (Box::new(nested(of)), named(&name)?);
    Ok(Some(Expr::Cast { kind: CastKind::DoubleColon, expr, data_type, format: None, array: false }))
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn named(name: &str) -> Result<DataType> {
    match parse_expression(&format!("NULL::{name}"))? {
        Expr::Cast { data_type, .. } => Ok(data_type),
        _ => Err(SqlError::internal("a cast is one")),
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check_refused, check_values};

    #[test]
    fn calls_of_types_are_casts() {
        check_values(&[
            ("float8(3) / 2", "1.5"),
            ("int4(2.5)", "3"),
            ("int2('7') + int8(1)", "8"),
            ("text(12) || text(true)", "12true"),
            ("date(timestamp '2024-02-29 10:00')", "2024-02-29"),
            ("timestamptz(date '2024-02-29', time '10:00') = timestamptz '2024-02-29 10:00'", "true"),
            ("bool('on')", "true"),
        ]);
        check_refused(&[("int4('x')", "22P02"), ("int4(1, 2)", "42883")]);
    }
}
