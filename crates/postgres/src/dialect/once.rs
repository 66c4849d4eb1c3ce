//! Queries of WITH that give something else each time they run: PostgreSQL runs them once, however often they are
//! named. The planner puts them in the place of their names; so where they are named twice, they are refused.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{CteAsMaterialized, Expr, ObjectName, Query, Statement, Visitor};

use crate::statement::name_of;
use saki_catalog::{Result, SqlError};
use saki_statement::walk::{walk, walk_expressions};

/// Functions whose values differ from call to call.
const VOLATILE: [&str; 6] = ["clock_timestamp", "gen_random_uuid", "nextval", "random", "setval", "timeofday"];

/// # Errors
/// 0A000 for a query of WITH that would run twice.
pub fn refuse_repeated(statement: &Statement) -> Result<()> {
    match walk(statement, &mut Once) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => {
            let message = format!("WITH: {name:?} calls a function whose value differs each time, and is named twice");
            Err(SqlError::unsupported(message).hint("put what it gives into a table"))
        }
    }
}

struct Once;

impl Visitor for Once {
    type Break = String;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        let mut volatile = HashSet::new();
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let is_apart = matches!(table.materialized, Some(CteAsMaterialized::NotMaterialized));
            let is_volatile = calls_volatile(&table.query) || names(&table.query, |name| volatile.contains(name)) > 0;
            if is_volatile && !is_apart {
                let name = name_of(&table.alias.name);
                if names(query, |other| other == name) > 1 {
                    return ControlFlow::Break(name);
                }
                volatile.insert(name);
            }
        }
        ControlFlow::Continue(())
    }
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
fn names(query: &Query, is_meant: impl Fn(&str) -> bool) -> usize {
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
    use crate::fixture::{check, shown};

    #[test]
    fn what_differs_each_time_is_named_once() {
        check(
            &[
                ("WITH q AS (SELECT random() AS r) SELECT count(*) FROM q, q AS p", "0A000"),
                ("WITH q AS (SELECT random() AS r), p AS (SELECT * FROM q) SELECT count(*) FROM p, p AS o", "0A000"),
                ("WITH q AS NOT MATERIALIZED (SELECT random() AS r) SELECT count(*) FROM q, q AS p", "1"),
                ("WITH q AS (SELECT random() AS r) SELECT count(*) FROM q", "1"),
                ("WITH q AS (SELECT 1 AS r) SELECT count(*) FROM q, q AS p", "1"),
            ],
            shown,
        );
    }
}
