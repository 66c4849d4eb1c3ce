//! Short VALUES lists with more in them than constants, as SELECTs, whose columns are brought together as those of
//! UNION. Of lists the planner knows no subqueries, and takes a row's types to be those of its expressions before their
//! parts have been brought to one type.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Function, Ident, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, VisitorMut,
};

use super::lists::{Kind, kind};
use crate::statement::{name_of, parse_query};
use saki_catalog::SqlError;
use saki_statement::walk::walk_expressions;

/// Rows of a list that becomes SELECTs at most: a plan has a node for each.
const ROWS_MAX: usize = 100;

pub struct Values;

impl VisitorMut for Values {
    type Break = SqlError;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        match selects(query) {
            Ok(Some(body)) => {
                *query.body = body;
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn selects(query: &Query) -> Result<Option<SetExpr>, SqlError> {
    let SetExpr::Values(values) = query.body.as_ref() else { return Ok(None) };
    let is_short = values.rows.len() <= ROWS_MAX;
    let any = |wanted: fn(&Expr) -> bool| values.rows.iter().any(|row| row.content.iter().any(wanted));
    // Rows of a list draw from sequences one after another, SELECTs all at once.
    if !is_short || !(any(is_branching) || any(refers) || is_mixed(values)) || (values.rows.len() > 1 && any(draws)) {
        return Ok(None);
    }
    let width = values.rows.first().map_or(0, |row| row.content.len());
    if values.rows.iter().any(|row| row.content.len() != width) {
        return Err(SqlError::invalid("VALUES lists must all be the same length").code("42601"));
    }
    let mut body: Option<SetExpr> = None;
    for row in &values.rows {
        let select = SetExpr::Select(Box::new(select(&row.content)?));
        body = Some(match body {
            Some(before) => SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier: SetQuantifier::All,
                left: Box::new(before),
                right: Box::new(select),
            },
            None => select,
        });
    }
    Ok(body)
}

fn select(row: &[Expr]) -> Result<Select, SqlError> {
    let query = parse_query("SELECT 1")?;
    let SetExpr::Select(mut select) = *query.body else { return Err(SqlError::internal("SELECT 1 is no SELECT")) };
    let item = |(at, value): (usize, &Expr)| SelectItem::ExprWithAlias {
        expr: value.clone(),
        alias: Ident::new(format!("column{}", at + 1)),
    };
    select.projection = row.iter().enumerate().map(item).collect();
    Ok(*select)
}

/// Whether a column has values that say their type beside others that do not: these have to be known first.
fn is_mixed(values: &ast::Values) -> bool {
    let width = values.rows.iter().map(|row| row.content.len()).min().unwrap_or(0);
    (0..width).any(|column| {
        let has = |wanted: fn(&Kind) -> bool| values.rows.iter().any(|row| wanted(&kind(&row.content[column])));
        has(|kind| *kind == Kind::Other) && has(|kind| matches!(kind, Kind::Text | Kind::Typed(_)))
    })
}

/// Whether an expression has a subquery in it, or chooses among parts whose types may differ.
fn is_branching(expr: &Expr) -> bool {
    // `trunc` keeps fewer digits than the planner thinks.
    const CHOOSING: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "trunc"];
    has(expr, |expr| match expr {
        Expr::Case { .. } | Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
        Expr::Function(function) => name(function).is_some_and(|name| CHOOSING.contains(&name.as_str())),
        _ => false,
    })
}

/// Whether an expression has columns in it: those of a query around this one.
fn refers(expr: &Expr) -> bool {
    has(expr, |expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
}

/// Whether an expression takes a sequence's next value.
fn draws(expr: &Expr) -> bool {
    has(expr, |expr| matches!(expr, Expr::Function(function) if name(function).as_deref() == Some("nextval")))
}

fn name(function: &Function) -> Option<String> {
    function.name.0.last()?.as_ident().map(name_of)
}

fn has(expr: &Expr, wanted: fn(&Expr) -> bool) -> bool {
    let found = |expr: &Expr| if wanted(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    !matches!(expr, Expr::Value(_)) && walk_expressions(expr, found).is_break()
}

#[cfg(test)]
mod tests {
    use crate::dialect;
    use crate::fixture::{answer, bare, check, parsed, shown};

    #[test]
    fn rows_have_what_select_has() {
        check(
            &[
                ("VALUES (1, 'a'), (2, 'b')", "1|a 2|b"),
                ("VALUES (coalesce(NULL, 1), greatest(1, 2), least(1, 2), nullif(1, 1))", "1|2|1|NULL"),
                ("VALUES (trunc(2.04, 1), 'a')", "2.0|a"),
            ],
            shown,
        );
    }

    #[test]
    fn rows_of_different_lengths_are_refused() {
        check(&[("VALUES (1, coalesce(1, 2)), (1)", "42601"), ("VALUES ((SELECT 1)), (1, 2)", "42601")], shown);
    }

    #[test]
    fn columns_are_numbered() {
        let names = answer(bare(), "VALUES (coalesce(1, 2), 'a')").unwrap().0;
        assert_eq!(names, ["column1", "column2"]);
    }

    #[test]
    fn only_short_lists_with_parts_to_choose_from_become_selects() {
        let rewritten = |sql: &str| {
            let mut statement = parsed(sql);
            dialect::pass(&mut statement, &mut super::Values).unwrap();
            statement.to_string()
        };
        check(
            &[
                ("VALUES (1), (2)", "VALUES (1), (2)"),
                ("VALUES (1 + 1)", "VALUES (1 + 1)"),
                ("VALUES (coalesce(a, 1))", "SELECT coalesce(a, 1) AS column1"),
                ("VALUES (t.a), (2)", "SELECT t.a AS column1 UNION ALL SELECT 2 AS column1"),
                ("VALUES (1), ((SELECT 2))", "SELECT 1 AS column1 UNION ALL SELECT (SELECT 2) AS column1"),
                ("VALUES (nextval('s')), (coalesce(1, 2))", "VALUES (nextval('s')), (coalesce(1, 2))"),
            ],
            rewritten,
        );
        let long = format!("VALUES (coalesce(1, 2)){}", ", (1)".repeat(super::ROWS_MAX));
        assert_eq!(rewritten(&long), long);
        let longest = format!("VALUES (coalesce(1, 2)){}", ", (1)".repeat(super::ROWS_MAX - 1));
        assert!(rewritten(&longest).starts_with("SELECT"));
    }
}
