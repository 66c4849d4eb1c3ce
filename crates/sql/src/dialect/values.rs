//! Short VALUES lists with more in them than constants, as SELECTs. Of lists the planner knows no subqueries, and takes a
//! row's types to be those of its expressions before their parts have been brought to one type.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, VisitorMut,
    visit_expressions,
};

use crate::error::SqlError;
use crate::statement::{name_of, parse_query};

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
    if !is_short || !any(is_branching) || (values.rows.len() > 1 && any(draws)) {
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

/// Whether an expression has a subquery in it, or chooses among parts whose types may differ.
fn is_branching(expr: &Expr) -> bool {
    const CHOOSING: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];
    has(expr, |expr| match expr {
        Expr::Case { .. } | Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
        Expr::Function(function) => name(function).is_some_and(|name| CHOOSING.contains(&name.as_str())),
        _ => false,
    })
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
    !matches!(expr, Expr::Value(_)) && visit_expressions(expr, found).is_break()
}
