//! `FROM generate_series(1, 3) AS g`: the one column of a function is called what the function is called there. The
//! planner's own function makes series of whole numbers that are written there; any other becomes the rows of a list.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias, TableAliasColumnDef, TableFactor,
    UnaryOperator, Value, VisitorMut,
};

use crate::statement::{name_of, parse_query, quoted};
use saki_catalog::SqlError;
use saki_functions::series::SERIES;
use saki_statement::walk::walk_expressions;

/// Functions of the planner's that give rows of one value.
const FUNCTIONS: [&str; 2] = ["generate_series", "range"];

pub struct Series;

impl VisitorMut for Series {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match rows(factor) {
            Ok(Some(rows)) => *factor = rows,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        if let TableFactor::Table { name, alias: Some(alias), args: Some(_), with_ordinality: false, .. }
        | TableFactor::Function { name, alias: Some(alias), .. } = factor
        {
            name_column(name, alias);
        }
        ControlFlow::Continue(())
    }
}

/// A series of anything but whole numbers as the query of its rows.
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
    if !last.is_some_and(|name| name.value.eq_ignore_ascii_case(FUNCTIONS[0])) || values.iter().all(|of| is_whole(of)) {
        return Ok(None);
    }
    let name = alias.as_ref().map_or_else(|| Ident::new(FUNCTIONS[0]), |alias| alias.name.clone());
    let column = alias.as_ref().and_then(|alias| alias.columns.first()).map_or(&name, |column| &column.name);
    let listed = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let subquery = parse_query(&format!("SELECT unnest({SERIES}({listed})) AS {}", quoted(&name_of(column))))?;
    let is_column = |expr: &Expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let lateral = values.iter().any(|value| walk_expressions(*value, is_column).is_break());
    let alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    Ok(Some(TableFactor::Derived { lateral, subquery, alias, sample: None }))
}

/// Whether an argument is a whole number that is written there.
fn is_whole(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            is_whole(inner)
        }
        Expr::BinaryOp { left, right, .. } => is_whole(left) && is_whole(right),
        Expr::Cast { expr, data_type, .. } => {
            let is_integer =
                matches!(data_type, DataType::Int(_) | DataType::Integer(_) | DataType::BigInt(_) | DataType::Int8(_));
            is_integer && is_whole(expr)
        }
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<i64>().is_ok(),
            Value::Null => true,
            _ => false,
        },
        _ => false,
    }
}

fn name_column(function: &ObjectName, alias: &mut TableAlias) {
    let last = function.0.last().and_then(|part| part.as_ident());
    let is_known = last.is_some_and(|name| FUNCTIONS.iter().any(|known| name.value.eq_ignore_ascii_case(known)));
    if is_known && alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
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
