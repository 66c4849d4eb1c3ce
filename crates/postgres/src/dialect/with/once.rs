//! Queries of WITH that run once, however often they are named: those that give something else each time they run, as
//! PostgreSQL runs any once, and those that are said to be MATERIALIZED. The planner puts queries in the place of their
//! names; so these get a mark, as an alias within, by which their rows are shared.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::sql::sqlparser::ast::{
    CteAsMaterialized, Expr, ObjectName, Query, SetExpr, Statement, TableFactor, Visit, Visitor, VisitorMut,
};

use crate::statement::{name_of, parse_query, quoted};
use saki_catalog::{Result, SqlError};
use saki_statement::walk::{walk, walk_expressions, walk_mut};

/// What marks begin with: as no alias of a statement.
const MARK: &str = "\u{1}once ";

/// Functions whose values differ from call to call.
const VOLATILE: [&str; 6] = ["clock_timestamp", "gen_random_uuid", "nextval", "random", "setval", "timeofday"];

/// Marks them.
///
/// # Errors
/// 0A000 for one that is recursive and calls a function whose value differs each time.
pub fn mark_repeated(statement: &mut Statement) -> Result<()> {
    match walk_mut(statement, &mut Once) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The number of the query whose rows a relation of such an alias shares.
pub fn mark(alias: &str) -> Option<u64> {
    alias.strip_prefix(MARK)?.parse().ok()
}

struct Once;

impl VisitorMut for Once {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let mut volatile = HashSet::new();
        let mut marked = Vec::new();
        for (at, table) in query.with.iter().flat_map(|with| &with.cte_tables).enumerate() {
            let is_apart = matches!(table.materialized, Some(CteAsMaterialized::NotMaterialized));
            let is_volatile =
                calls_volatile(&table.query) || names(table.query.as_ref(), |name| volatile.contains(name)) > 0;
            let is_once = is_volatile || matches!(table.materialized, Some(CteAsMaterialized::Materialized));
            if is_apart || !is_once {
                continue;
            }
            let name = name_of(&table.alias.name);
            let is_recursive = names(table.query.as_ref(), |other| other == name) > 0;
            if !is_recursive && names(query, |other| other == name) > 1 {
                marked.push(at);
            } else if is_recursive && is_volatile && names(query, |other| other == name) > 2 {
                let message = format!("WITH RECURSIVE: {name:?} calls a function whose value differs each time");
                let refused = SqlError::unsupported(message).hint("put what it gives into a table");
                return ControlFlow::Break(refused);
            }
            if is_volatile {
                volatile.insert(name);
            }
        }
        let tables = query.with.iter_mut().flat_map(|with| &mut with.cte_tables).enumerate();
        for (_, table) in tables.filter(|(at, _)| marked.contains(at)) {
            if let Err(error) = put_mark(&mut table.query) {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Puts a mark on a query, of a number that no other has.
fn put_mark(query: &mut Box<Query>) -> Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mark = format!("{MARK}{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let mut marked = parse_query(&format!("SELECT * FROM (SELECT 1) AS {}", quoted(&mark)))?;
    let SetExpr::Select(select) = marked.body.as_mut() else { return Err(SqlError::internal("a SELECT is none")) };
    if let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|from| &mut from.relation) {
        std::mem::swap(subquery, query);
    }
    *query = marked;
    Ok(())
}

fn calls_volatile(query: &Query) -> bool {
    let found = walk_expressions(query, |expr| match expr {
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(name_of);
            match name.is_some_and(|name| VOLATILE.contains(&name.as_str())) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// How often a query names such relations.
pub fn names(query: &(impl Visit + ?Sized), is_meant: impl Fn(&str) -> bool) -> usize {
    let mut counted = Counted { is_meant, count: 0 };
    let _ = walk(query, &mut counted);
    counted.count
}

struct Counted<F> {
    is_meant: F,
    count: usize,
}

impl<F: Fn(&str) -> bool> Visitor for Counted<F> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if let [part] = &relation.0[..]
            && let Some(ident) = part.as_ident()
            && (self.is_meant)(&name_of(ident))
        {
            self.count += 1;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::check;
    use crate::statement::parse_query;

    /// A query with its marks, whose numbers are left out.
    fn marked(sql: &str) -> String {
        let mut statement = Statement::Query(parse_query(sql).unwrap());
        match mark_repeated(&mut statement) {
            Err(error) => error.sqlstate().to_owned(),
            Ok(()) => statement
                .to_string()
                .split(MARK)
                .enumerate()
                .map(|(at, part)| if at == 0 { part } else { part.trim_start_matches(|of: char| of.is_ascii_digit()) })
                .collect::<Vec<_>>()
                .join("!"),
        }
    }

    #[test]
    fn what_differs_each_time_shares_its_rows() {
        check(
            &[
                (
                    "WITH q AS (SELECT random() AS r) SELECT count(*) FROM q, q AS p",
                    "WITH q AS (SELECT * FROM (SELECT random() AS r) AS \"!\") SELECT count(*) FROM q, q AS p",
                ),
                (
                    "WITH q AS (SELECT random()), p AS (SELECT * FROM q) SELECT 1 FROM p, p AS o",
                    "WITH q AS (SELECT random()), p AS (SELECT * FROM (SELECT * FROM q) AS \"!\") \
                     SELECT 1 FROM p, p AS o",
                ),
                (
                    "WITH q AS MATERIALIZED (SELECT 1) SELECT 1 FROM q, q AS p",
                    "WITH q AS MATERIALIZED (SELECT * FROM (SELECT 1) AS \"!\") SELECT 1 FROM q, q AS p",
                ),
            ],
            marked,
        );
        for sql in [
            "WITH q AS NOT MATERIALIZED (SELECT random() AS r) SELECT count(*) FROM q, q AS p",
            "WITH q AS (SELECT random() AS r) SELECT count(*) FROM q",
            "WITH q AS (SELECT 1 AS r) SELECT count(*) FROM q, q AS p",
        ] {
            assert_eq!(marked(sql), sql);
        }
        let recursive = "WITH RECURSIVE q AS (SELECT random() UNION ALL SELECT * FROM q) SELECT 1 FROM q, q AS p";
        assert_eq!(marked(recursive), "0A000");
        assert_eq!(mark(&format!("{MARK}17")), Some(17));
        assert_eq!(mark("once 17"), None);
    }
}
