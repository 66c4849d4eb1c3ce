//! `FROM generate_series(1, 3) AS g`: its one column is called what the function is called there, and has the type of
//! what it counts. The planner's own function makes series of whole numbers that are written there, as bigints; any
//! other becomes the rows of a list. `FROM unnest(array) AS e` are those of an array.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, TableAlias, TableFactor, UnaryOperator, Value, VisitorMut,
};

use crate::statement::{name_of, parse_query, quoted};
use saki_catalog::SqlError;
use saki_functions::sets::series::SERIES;
use saki_statement::walk::walk_expressions;

const FUNCTION: &str = "generate_series";

pub struct Series;

impl VisitorMut for Series {
    type Break = SqlError;

    // What becomes of it names the planner's function, and is not to be visited again.
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match elements(factor).map_or_else(|| rows(factor), |rows| rows.map(Some)) {
            Ok(Some(rows)) => *factor = rows,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

/// A series as the query of its rows.
fn rows(factor: &TableFactor) -> Result<Option<TableFactor>, SqlError> {
    let (function, args, alias) = match factor {
        TableFactor::Table { name, alias, args: Some(args), with_ordinality: false, .. } => (name, &args.args, alias),
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => (name, args, alias),
        _ => return Ok(None),
    };
    let value = |arg| match arg {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref value)) => Some(value),
        _ => None,
    };
    let Some(values) = args.iter().map(value).collect::<Option<Vec<&Expr>>>() else { return Ok(None) };
    let last = function.0.last().and_then(|part| part.as_ident());
    if !last.is_some_and(|name| name.value.eq_ignore_ascii_case(FUNCTION)) {
        return Ok(None);
    }
    let name = alias.as_ref().map_or_else(|| Ident::new(FUNCTION), |alias| alias.name.clone());
    let column = alias.as_ref().and_then(|alias| alias.columns.first()).map_or(&name, |column| &column.name);
    let column = quoted(&name_of(column));
    let listed = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let widths = values.iter().map(|value| width(value)).collect::<Option<Vec<_>>>();
    let subquery = parse_query(&match widths.and_then(|widths| widths.into_iter().max()) {
        Some(Width::Integer) => format!("SELECT value::integer AS {column} FROM {FUNCTION}({listed})"),
        Some(Width::Bigint) => format!("SELECT value AS {column} FROM {FUNCTION}({listed})"),
        None => format!("SELECT unnest({SERIES}({listed})) AS {column}"),
    })?;
    let lateral = values.iter().any(|value| has_columns(value));
    let alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    Ok(Some(TableFactor::Derived { lateral, subquery, alias, sample: None }))
}

/// The elements of one array as the query of its rows.
fn elements(factor: &TableFactor) -> Option<Result<TableFactor, SqlError>> {
    let TableFactor::UNNEST { array_exprs, alias, with_offset: false, with_ordinality: false, .. } = factor else {
        return None;
    };
    let [array] = &array_exprs[..] else { return None };
    let name = alias.as_ref().map_or_else(|| Ident::new("unnest"), |alias| alias.name.clone());
    let column = alias.as_ref().and_then(|alias| alias.columns.first()).map_or(&name, |column| &column.name);
    let subquery = parse_query(&format!("SELECT unnest({array}) AS {}", quoted(&name_of(column))));
    Some(subquery.map(|subquery| {
        let alias = Some(TableAlias { explicit: true, name: name.clone(), columns: Vec::new(), at: None });
        TableFactor::Derived { lateral: has_columns(array), subquery, alias, sample: None }
    }))
}

/// Whether an expression names columns, which are those of what stands before it.
fn has_columns(expr: &Expr) -> bool {
    let is_column = |expr: &Expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    walk_expressions(expr, is_column).is_break()
}

/// What whole numbers are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Integer,
    Bigint,
}

/// What an argument is that is a whole number, and written there; `None` for any other.
fn width(expr: &Expr) -> Option<Width> {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            width(inner)
        }
        Expr::BinaryOp { left, right, .. } => Some(width(left)?.max(width(right)?)),
        Expr::Cast { expr, data_type, .. } => {
            width(expr)?;
            match data_type {
                DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => Some(Width::Integer),
                DataType::BigInt(_) | DataType::Int8(_) => Some(Width::Bigint),
                _ => None,
            }
        }
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) if digits.parse::<i32>().is_ok() => Some(Width::Integer),
            Value::Number(digits, _) if digits.parse::<i64>().is_ok() => Some(Width::Bigint),
            Value::Null => Some(Width::Integer),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn a_functions_column_is_called_after_its_alias() {
        check(
            &[
                ("SELECT sum(g) FROM generate_series(1, 3) g", "6"),
                ("SELECT max(g.g) FROM generate_series(1, 3) AS g", "3"),
                ("SELECT \"G h\" FROM generate_series(4, 4) AS \"G h\"", "4"),
                ("SELECT count(b) FROM generate_series(1, 3) AS g(b)", "3"),
                ("SELECT a + b FROM generate_series(1, 1) a, generate_series(2, 2) b", "3"),
                ("SELECT generate_series FROM generate_series(7, 8)", "7 8"),
                ("SELECT g FROM generate_series(2147483647, 2147483648) g", "2147483647 2147483648"),
                ("SELECT repeat('x', g) FROM generate_series(1, 2) g", "x xx"),
                ("SELECT repeat('x', g) FROM generate_series(1, 2::bigint) g", "42883"),
                ("SELECT x FROM generate_series(1.0, 2.0, 0.5) AS t(x)", "1.0 1.5 2.0"),
                (
                    "SELECT g::date FROM generate_series(DATE '2024-01-31', '2024-03-31', '1 month') g",
                    "2024-01-31 2024-02-29 2024-03-29",
                ),
                ("SELECT count(*) FROM generate_series(now() - interval '1 day', now(), '6 hours')", "5"),
            ],
            shown,
        );
    }
}
