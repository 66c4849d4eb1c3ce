//! Whole numbers that fit are integers, not bigints, where their type goes on to be a value's.
//!
//! The planner reads every whole number as a bigint. Beside an operator that is seen to in [`super::operators`], and where
//! numbers are only compared their width makes no difference.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, SelectItem, SetExpr,
    UnaryOperator, Value, VisitorMut,
};

use crate::error::SqlError;
use crate::statement::name_of;

/// Functions whose results have the type of their arguments.
const POLYMORPHIC: [&str; 12] = [
    "abs",
    "array_agg",
    "coalesce",
    "generate_series",
    "greatest",
    "least",
    "max",
    "min",
    "mod",
    "nullif",
    "sign",
    "sum",
];

pub struct Literals;

impl VisitorMut for Literals {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Case { conditions, else_result, .. } => {
                conditions.iter_mut().for_each(|branch| narrow(&mut branch.result));
                if let Some(otherwise) = else_result {
                    narrow(otherwise);
                }
            }
            Expr::Array(array) => array.elem.iter_mut().for_each(narrow),
            Expr::Function(function) if is_polymorphic(function) => {
                if let FunctionArguments::List(list) = &mut function.args {
                    for argument in &mut list.args {
                        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument {
                            narrow(value);
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } = item {
                narrow(value);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<SqlError> {
        match factor {
            ast::TableFactor::Derived { subquery, .. } => narrow_values(subquery),
            ast::TableFactor::Table { args: Some(ast::TableFunctionArgs { args, .. }), .. }
            | ast::TableFactor::Function { args, .. } => args.iter_mut().for_each(widen),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn narrow_values(query: &mut Query) {
    if let SetExpr::Values(values) = query.body.as_mut() {
        values.rows.iter_mut().flat_map(|row| row.content.iter_mut()).for_each(narrow);
    }
}

fn is_polymorphic(function: &ast::Function) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of);
    function.over.is_none() && name.is_some_and(|name| POLYMORPHIC.contains(&name.as_str()))
}

/// A whole number becomes one of type integer, if that holds it.
fn narrow(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => narrow(inner),
        literal if is_integer(literal) => {
            let bare = std::mem::replace(literal, Expr::value(Value::Null));
            *literal = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(bare),
                data_type: ast::DataType::Integer(None),
                array: false,
                format: None,
            };
        }
        _ => {}
    }
}

/// Functions in FROM take numbers of type bigint alone.
fn widen(argument: &mut FunctionArg) {
    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Cast { data_type, .. })) = argument
        && matches!(data_type, ast::DataType::Integer(None) | ast::DataType::Int(None) | ast::DataType::SmallInt(None))
    {
        *data_type = ast::DataType::BigInt(None);
    }
}

fn is_integer(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_integer(expr),
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if digits.parse::<i32>().is_ok()),
        _ => false,
    }
}
