//! Placeholders of a statement: which there are, and the statement with values in their places.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Expr, Visitor};

use super::literal::{literal, typed_null};
use saki_catalog::{Result, SqlError};
use saki_context::statement::Parsed;
use saki_postgres::statement::walk::{walk, walk_expressions, walk_expressions_mut};

/// Parameters of one statement at most, as in PostgreSQL's protocol.
const PARAMETERS_MAX: usize = 65_535;

/// The text after `$` of a placeholder.
pub fn placeholder(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ast::ValueWithSpan { value: ast::Value::Placeholder(name), .. }) => Some(name),
        _ => None,
    }
}

/// The number of a placeholder, from 1.
pub fn number(name: &str) -> Result<usize> {
    let number = name.strip_prefix('$').and_then(|digits| digits.parse().ok());
    number.filter(|number| (1..=PARAMETERS_MAX).contains(number)).ok_or_else(|| {
        SqlError::invalid(format!("there is no parameter {name}")).hint("parameters are $1, $2, …").code("42P02")
    })
}

/// The highest number of a placeholder; 0 if there is none.
pub fn placeholders(parsed: &Parsed) -> Result<usize> {
    let Parsed(Statement::Statement(statement), _) = parsed else { return Ok(0) };
    let mut highest = 0;
    let visited = walk_expressions(statement.as_ref(), |expr: &Expr| match placeholder(expr).map(number) {
        Some(Err(error)) => ControlFlow::Break(error),
        Some(Ok(number)) => {
            highest = highest.max(number);
            ControlFlow::Continue(())
        }
        None => ControlFlow::Continue(()),
    });
    match visited {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(highest),
    }
}

/// Numbers of the parameters that are a LIMIT or OFFSET by themselves.
pub fn row_counts(parsed: &Parsed) -> HashSet<usize> {
    let mut found = RowCounts::default();
    if let Parsed(Statement::Statement(statement), _) = parsed {
        let _ = walk(statement, &mut found);
    }
    found.0
}

#[derive(Default)]
struct RowCounts(HashSet<usize>);

impl Visitor for RowCounts {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let (limit, offset) = match &query.limit_clause {
            Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
            None => (None, None),
        };
        let fetch = query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref());
        let counts = [limit, offset, fetch].into_iter().flatten().filter_map(placeholder);
        self.0.extend(counts.filter_map(|name| number(name).ok()));
        ControlFlow::Continue(())
    }
}

/// The statement with values in the places of its parameters.
pub fn bind(parsed: &Parsed, values: &[ScalarValue]) -> Result<Parsed> {
    if values.is_empty() {
        return Ok(parsed.clone());
    }
    replace(parsed, values, |_, value| literal(value).map(Some))
}

/// As [`bind`], with NULLs that keep their types.
pub fn bind_typed(parsed: &Parsed, values: &[ScalarValue]) -> Result<Parsed> {
    replace(parsed, values, |_, value| typed_null(value).map(Some))
}

/// The statement with expressions in the places of parameters, by number and value; `None` leaves one where it is.
pub fn replace(
    parsed: &Parsed,
    values: &[ScalarValue],
    expression: impl Fn(usize, &ScalarValue) -> Result<Option<Expr>>,
) -> Result<Parsed> {
    let mut bound = parsed.clone();
    let Parsed(Statement::Statement(statement), _) = &mut bound else { return Ok(bound) };
    let value_of = |name: &str| {
        let number = number(name)?;
        let value = values.get(number - 1);
        let missing = || SqlError::invalid(format!("there is no parameter {name}")).code("42P02");
        expression(number, value.ok_or_else(missing)?)
    };
    let visited = walk_expressions_mut(statement.as_mut(), |expr: &mut Expr| {
        match placeholder(expr).map(value_of) {
            Some(Ok(Some(value))) => *expr = value,
            Some(Err(error)) => return ControlFlow::Break(error),
            Some(Ok(None)) | None => {}
        }
        ControlFlow::Continue(())
    });
    match visited {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(bound),
    }
}
