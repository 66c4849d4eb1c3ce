//! Aggregates, windows and functions that give sets, where there can be none of them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, GroupByExpr, Query, SelectItem, SetExpr, Visit, Visitor,
};

use crate::statement::name_of;
use saki_catalog::{Result, SqlError};
use saki_statement::walk::walk;
use saki_system::types::{ProcedureRow, procedures_named};

/// Refuses calls that no statement can have.
///
/// # Errors
/// 42809 for OVER of what is neither a window function nor an aggregate, and for `count()`; 0A000 for functions that
/// give sets within CASE and COALESCE, and for FOR UPDATE of rows that are no table's.
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

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        match query.locks.first().zip(no_table_rows(&query.body)) {
            Some((lock, what)) => {
                let message = format!("FOR {} is not allowed with {what}", lock.lock_type);
                ControlFlow::Break(SqlError::unsupported(message))
            }
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        if let Expr::Case { .. } = expr {
            return refuse_within(expr, "CASE");
        }
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let rows = called_rows(function);
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of).unwrap_or_default();
        let has_nothing = match &function.args {
            FunctionArguments::List(list) => list.args.is_empty(),
            _ => false,
        };
        if name == "coalesce" {
            return refuse_within(expr, "COALESCE");
        }
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

/// What makes rows of a query no table's, if something does.
fn no_table_rows(body: &SetExpr) -> Option<&'static str> {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => return Some("UNION/INTERSECT/EXCEPT"),
        _ => return None,
    };
    let has = |kind: &str| {
        let found = |expr: &Expr| match expr {
            Expr::Function(function) => are(&called_rows(function), kind),
            _ => false,
        };
        select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => found(expr),
            _ => false,
        })
    };
    let is_windowed = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Function(call)) => call.over.is_some(),
        SelectItem::ExprWithAlias { expr: Expr::Function(call), .. } => call.over.is_some(),
        _ => false,
    };
    if select.distinct.is_some() {
        Some("DISTINCT clause")
    } else if matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if !keys.is_empty()) {
        Some("GROUP BY clause")
    } else if select.having.is_some() {
        Some("HAVING clause")
    } else if select.projection.iter().any(is_windowed) {
        Some("window functions")
    } else if has("a") {
        Some("aggregate functions")
    } else {
        None
    }
}

/// Refuses functions that give sets within an expression, but for those of queries in it.
fn refuse_within(expr: &Expr, places: &str) -> ControlFlow<SqlError> {
    match walk(expr, &mut SetsWithin { places, queries: 0 }) {
        ControlFlow::Break(error) => ControlFlow::Break(error),
        ControlFlow::Continue(()) => ControlFlow::Continue(()),
    }
}

struct SetsWithin<'p> {
    places: &'p str,
    queries: usize,
}

impl Visitor for SetsWithin<'_> {
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
        let rows = called_rows(function);
        if self.queries > 0 || rows.is_empty() || !rows.iter().all(|row| row.returns_set) {
            return ControlFlow::Continue(());
        }
        let message = format!("set-returning functions are not allowed in {}", self.places);
        let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
        ControlFlow::Break(SqlError::unsupported(message).hint(hint))
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
                ("SELECT CASE WHEN a > 0 THEN generate_series(1, 2) END FROM (VALUES (1)) v(a)", "0A000"),
                ("SELECT coalesce(unnest(ARRAY[1]), 2) FROM (VALUES (1)) v(a)", "0A000"),
                (
                    "SELECT CASE WHEN a > 0 THEN (SELECT max(g) FROM generate_series(1, 2) g) END FROM (SELECT 1) v(a)",
                    "2",
                ),
                ("SELECT count(*) FROM (VALUES (1)) v(a) FOR UPDATE", "0A000"),
                ("SELECT a FROM (VALUES (1)) v(a) GROUP BY a FOR UPDATE", "0A000"),
                ("SELECT DISTINCT a FROM (VALUES (1)) v(a) FOR SHARE", "0A000"),
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
