//! Aggregates, windows and functions that give sets, where there can be none of them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArguments, Query, Visit, Visitor};

use crate::statement::name_of;
use saki_catalog::{Result, SqlError};
use saki_statement::walk::walk;
use saki_system::types::{ProcedureRow, procedures_named};

/// Refuses calls that no statement can have.
///
/// # Errors
/// 42809 for OVER of what is neither a window function nor an aggregate, and for `count()`.
pub fn refuse_misplaced(written: &(impl Visit + ?Sized)) -> Result<()> {
    match walk(written, &mut Misplaced) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Refuses what is no function of one row's values, but for what queries within have; `places`: where, in the plural
/// or as a clause.
///
/// # Errors
/// 42803 for aggregates, 42P20 for windows, 0A000 for functions that give sets.
pub fn refuse_sets(expression: &Expr, places: &str) -> Result<()> {
    match walk(expression, &mut Sets { places, queries: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Sets<'p> {
    places: &'p str,
    /// How many queries the visit is in.
    queries: usize,
}

impl Visitor for Sets<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        let (rows, places) = (called_rows(function), self.places);
        let refused = if function.over.is_some() || are(&rows, "w") {
            SqlError::invalid(format!("window functions are not allowed in {places}")).code("42P20")
        } else if are(&rows, "a") {
            SqlError::invalid(format!("aggregate functions are not allowed in {places}")).code("42803")
        } else if !rows.is_empty() && rows.iter().all(|row| row.returns_set) {
            SqlError::unsupported(format!("set-returning functions are not allowed in {places}"))
        } else {
            return ControlFlow::Continue(());
        };
        ControlFlow::Break(refused)
    }
}

/// The rows of `pg_proc` that a call can mean: those that take so many arguments, or all of its name if none does.
pub fn called_rows(function: &Function) -> Vec<&'static ProcedureRow> {
    let Some(name) = function.name.0.last().and_then(|part| part.as_ident()).map(name_of) else { return Vec::new() };
    let count = match &function.args {
        FunctionArguments::List(list) => list.args.len(),
        _ => 0,
    };
    let takes = |row: &&&ProcedureRow| {
        let most = row.arguments.len();
        row.variadic != 0 || (most.saturating_sub(row.defaults)..=most).contains(&count)
    };
    let all = procedures_named(&name);
    let fitting: Vec<_> = all.iter().filter(takes).copied().collect();
    if fitting.is_empty() { all.to_vec() } else { fitting }
}

fn are(rows: &[&ProcedureRow], kind: &str) -> bool {
    !rows.is_empty() && rows.iter().all(|row| row.kind == kind)
}

struct Misplaced;

impl Visitor for Misplaced {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let rows = called_rows(function);
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of).unwrap_or_default();
        let has_nothing = match &function.args {
            FunctionArguments::List(list) => list.args.is_empty(),
            _ => false,
        };
        let refused = if function.over.is_some() && are(&rows, "f") {
            format!("OVER specified, but {name} is not a window function nor an aggregate function")
        } else if has_nothing && name == "count" {
            format!("{name}(*) must be used to call a parameterless aggregate function")
        } else {
            return ControlFlow::Continue(());
        };
        ControlFlow::Break(SqlError::invalid(refused).code("42809"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{check, shown};
    use crate::statement::parse_expression;

    #[test]
    fn calls_that_no_statement_can_have_are_refused() {
        check(
            &[
                ("SELECT count() FROM (VALUES (1)) v(a)", "42809"),
                ("SELECT count(*) FROM (VALUES (1)) v(a)", "1"),
                ("SELECT abs(a) OVER () FROM (VALUES (1)) v(a)", "42809"),
                ("SELECT generate_series(1, 2) OVER () FROM (VALUES (1)) v(a)", "42809"),
                ("SELECT sum(a) OVER () FROM (VALUES (1)) v(a)", "1"),
                ("SELECT row_number() OVER () FROM (VALUES (1)) v(a)", "1"),
            ],
            shown,
        );
    }

    #[test]
    fn rows_have_no_sets() {
        let code = |sql: &str| match refuse_sets(&parse_expression(sql).unwrap(), "RETURNING") {
            Ok(()) => "fine".to_owned(),
            Err(error) => format!("{} {}", error.sqlstate(), error.message),
        };
        assert_eq!(code("max(a) > 1"), "42803 aggregate functions are not allowed in RETURNING");
        assert_eq!(code("rank() OVER ()"), "42P20 window functions are not allowed in RETURNING");
        assert_eq!(code("generate_series(1, 2)"), "0A000 set-returning functions are not allowed in RETURNING");
        assert_eq!(code("abs(a) + 1"), "fine");
        assert_eq!(code("(SELECT max(a) FROM t)"), "fine");
    }
}
