//! Small parts of statements about the system, made and looked at.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query, Value,
};

use saki_catalog::{Result, SqlError};
use saki_statement::{name_of, parse_expression, parse_query};

/// The outcome of a visit as the visitor has to say it.
pub fn flow(result: Result<()>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// A query from its text.
pub fn query(text: &str) -> Result<Query> {
    parse_query(text).map(|query| *query).map_err(|error| SqlError::internal(format!("{text}: {error}")))
}

/// An expression from its text.
pub fn expression(text: &str) -> Result<Expr> {
    parse_expression(text).map_err(|error| SqlError::internal(format!("{text}: {error}")))
}

/// The last part of a name, if what is before it is nothing or a system schema.
pub fn system_name(name: &ObjectName) -> Option<String> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
    match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name] | ["pg_catalog" | "information_schema", name] => Some(name.to_owned()),
        _ => None,
    }
}

/// The name of a function that is in no schema or a system one.
pub fn function_name(function: &Function) -> Option<String> {
    system_name(&function.name)
}

/// Positional arguments of a function.
pub fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    list.args
        .iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect()
}

pub fn string(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

pub fn number(value: i64) -> Expr {
    Expr::value(Value::Number(value.to_string(), false))
}

/// The text of a string literal.
pub fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}
