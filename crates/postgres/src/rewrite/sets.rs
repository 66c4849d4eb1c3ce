//! Functions that return sets. Each becomes the unnesting of a list, which the planner knows: in a select list as it
//! stands, in FROM as a lateral query, so that its arguments may be columns of what is before it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArg, FunctionArgExpr, Ident, TableAlias, TableFactor, VisitorMut,
};

use super::arrays::is_vector;
use super::set_names::tell_apart;
use super::syntax::{arguments, flow, function_name, number, query};
use saki_catalog::{Result, SqlError};
use saki_functions::json::SETS;
use saki_statement::{call, column_name, name_of};
use saki_system::functions::UNNESTED;

pub struct Sets;

impl VisitorMut for Sets {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Some(unnested) = field_of_expanded(expr).or_else(|| unnested(expr)) {
            *expr = unnested;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        tell_apart(factor);
        flow(from_item(factor))
    }
}

/// What a function that takes JSON apart gives: its columns' names, each with the function that gives it as a list.
fn json_columns(name: &str) -> Option<&'static [(&'static str, &'static str)]> {
    SETS.iter().find(|(set, _)| *set == name).map(|(_, columns)| *columns)
}

/// The function that gives as one list what a set-returning one gives as rows.
fn list_function(name: &str) -> Option<&'static str> {
    match json_columns(name) {
        Some([(_, list)]) => Some(list),
        _ => UNNESTED.iter().find(|(set, _)| *set == name).map(|(_, list)| *list),
    }
}

/// The list that a set-returning function unnests.
fn list_of(name: &str, mut arguments: Vec<Expr>) -> Option<Expr> {
    if name == "unnest" {
        return arguments.pop();
    }
    let function = list_function(name)?;
    if function == "pg_subscripts" && arguments.first().and_then(column_name).is_some_and(|column| is_vector(&column)) {
        arguments.push(Expr::value(datafusion::sql::sqlparser::ast::Value::Boolean(true)));
    }
    Some(call(function, arguments))
}

fn unnested(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let name = function_name(function).filter(|name| name != "unnest")?;
    let list = list_of(&name, arguments(function).into_iter().cloned().collect())?;
    Some(call("unnest", vec![list]))
}

/// `(_pg_expandarray(list)).x` is the elements, and `.n` are their positions. The function inside has been unnested
/// by now.
fn field_of_expanded(expr: &Expr) -> Option<Expr> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    let ([AccessExpr::Dot(Expr::Identifier(field))], Expr::Nested(inner)) = (&access_chain[..], root.as_ref()) else {
        return None;
    };
    let Expr::Function(unnest) = inner.as_ref() else { return None };
    let Expr::Function(expand) = arguments(unnest).first()? else { return None };
    if function_name(expand)? != "pg_expand_array" {
        return None;
    }
    let list = (*arguments(expand).first()?).clone();
    let list = if name_of(field) == "n" { call("pg_subscripts", vec![list, number(1)]) } else { list };
    Some(call("unnest", vec![list]))
}

/// A function in FROM, in parts.
struct Item {
    name: String,
    arguments: Vec<Expr>,
    ordinality: bool,
    alias: Option<TableAlias>,
}

fn from_item(factor: &mut TableFactor) -> Result<()> {
    let exprs = |args: &[FunctionArg]| {
        let expr = |arg: &FunctionArg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        };
        args.iter().filter_map(expr).collect::<Vec<_>>()
    };
    let last = |name: &datafusion::sql::sqlparser::ast::ObjectName| {
        name.0.last().and_then(|part| part.as_ident()).map(name_of)
    };
    let item = match &*factor {
        TableFactor::Table { name, args: Some(args), with_ordinality, alias, .. } => {
            last(name).map(|name| (name, exprs(&args.args), *with_ordinality, alias))
        }
        TableFactor::Function { name, args, with_ordinality, alias, .. } => {
            last(name).map(|name| (name, exprs(args), *with_ordinality, alias))
        }
        TableFactor::UNNEST { array_exprs, with_ordinality, alias, .. } => {
            Some(("unnest".to_owned(), array_exprs.clone(), *with_ordinality, alias))
        }
        _ => None,
    };
    if let Some((name, arguments, ordinality, alias)) = item {
        *factor = lateral(Item { name, arguments, ordinality, alias: alias.clone() })?;
    }
    Ok(())
}

/// The function as a query of its rows.
fn lateral(item: Item) -> Result<TableFactor> {
    let Item { name, arguments, ordinality, alias } = item;
    let alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(name.clone()),
        columns: Vec::new(),
        at: None,
    });
    let lists: Vec<Expr> = match json_columns(&name) {
        Some(columns) => columns.iter().map(|(_, list)| call(list, arguments.clone())).collect(),
        None if name == "unnest" => arguments.clone(),
        None => list_of(&name, arguments.clone()).into_iter().collect(),
    };
    let mut columns: Vec<String> = lists.iter().map(|list| format!("unnest({list})")).collect();
    if let (true, Some(list)) = (ordinality, lists.first()) {
        columns.push(format!("unnest({})", call("pg_subscripts", vec![list.clone(), number(1)])));
    }
    if lists.is_empty() {
        // A function that returns one value, as a table of one row.
        columns.push(call(&name, arguments).to_string());
    }
    let own = |at: usize| {
        let (own, _) = json_columns(&name)?.get(at)?;
        (!own.is_empty()).then(|| Ident::new(*own))
    };
    let named = columns.iter().enumerate().map(|(at, column)| {
        let stated = alias.columns.get(at).map(|column| column.name.clone());
        let called = stated.or_else(|| own(at)).unwrap_or_else(|| match at {
            0 => alias.name.clone(),
            _ if ordinality && at + 1 == columns.len() => Ident::new("ordinality"),
            _ => Ident::new(format!("{name}_{at}")),
        });
        format!("{column} AS {called}")
    });
    let text = format!("SELECT {}", named.collect::<Vec<_>>().join(", "));
    let alias = TableAlias { columns: Vec::new(), ..alias };
    Ok(TableFactor::Derived { lateral: true, subquery: Box::new(query(&text)?), alias: Some(alias), sample: None })
}

#[cfg(test)]
mod tests {
    use crate::fixture::library;

    #[test]
    fn sets_are_unnested() {
        library().check(&[
            ("select generate_subscripts(array['a', 'b'], 1)", "1\n2"),
            (
                "select * from generate_series(1, 3)",
                "1\n\
                 2\n\
                 3",
            ),
            ("select * from generate_series(3, 1)", ""),
            (
                "select * from generate_series(3, 1, -1)",
                "3\n\
                 2\n\
                 1",
            ),
            (
                "select * from generate_series(1, 10, 4)",
                "1\n\
                 5\n\
                 9",
            ),
            (
                "select generate_series(1, 3)",
                "1\n\
                 2\n\
                 3",
            ),
            (
                "select * from unnest(array[3, 1, 2])",
                "3\n\
                 1\n\
                 2",
            ),
            ("select * from unnest(array['a', 'b']) with ordinality", "a|1\nb|2"),
            ("select * from unnest(array['a', 'b']) with ordinality as t(x, n)", "a|1\nb|2"),
            ("select * from regexp_split_to_table('a,b', ',')", "a\nb"),
            ("select * from string_to_table('a,b', ',')", "a\nb"),
            ("select (information_schema._pg_expandarray(array[5, 6])).n", "1\n2"),
            ("select (information_schema._pg_expandarray(array[5, 6])).x", "5\n6"),
        ]);
    }
}
