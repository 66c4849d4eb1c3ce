//! EXCEPT ALL and INTERSECT ALL, which keep count of equal rows: the planner knows both only without counting. With a number
//! within its equals, every row is different from every other.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Query, SelectItem, SetExpr, SetOperator, SetQuantifier, VisitorMut};

use super::columns::called;
use crate::error::SqlError;
use crate::statement::{name_of, parse_query, quoted};

pub struct Sets;

impl VisitorMut for Sets {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        match numbered(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn numbered(body: &mut SetExpr) -> Result<(), SqlError> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return Ok(()) };
    numbered(left)?;
    numbered(right)?;
    let word = match (&op, &set_quantifier) {
        (SetOperator::Except | SetOperator::Minus, SetQuantifier::All) => "EXCEPT",
        (SetOperator::Intersect, SetQuantifier::All) => "INTERSECT",
        _ => return Ok(()),
    };
    // What a wildcard brings is not known yet.
    let Some(names) = names(left) else { return Ok(()) };
    let columns: Vec<String> = (1..=names.len()).map(|number| format!("c{number}")).collect();
    let columns = columns.join(", ");
    let side = |side: &SetExpr| {
        format!("SELECT {columns}, row_number() OVER (PARTITION BY {columns}) FROM ({side}) AS side ({columns})")
    };
    let named = names.iter().enumerate().map(|(at, name)| format!("c{} AS {}", at + 1, quoted(name)));
    let named = named.collect::<Vec<_>>().join(", ");
    let text = format!("SELECT {named} FROM ({} {word} {}) AS counted ({columns}, number)", side(left), side(right));
    *body = *parse_query(&text)?.body;
    Ok(())
}

/// Names of a query's columns; `None` if they are not all written there.
fn names(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => select
            .projection
            .iter()
            .map(|item| match item {
                SelectItem::UnnamedExpr(expr) => Some(called(expr).unwrap_or_else(|| "?column?".to_owned())),
                SelectItem::ExprWithAlias { alias, .. } => Some(name_of(alias)),
                _ => None,
            })
            .collect(),
        SetExpr::Query(query) => names(&query.body),
        SetExpr::SetOperation { left, .. } => names(left),
        _ => None,
    }
}
