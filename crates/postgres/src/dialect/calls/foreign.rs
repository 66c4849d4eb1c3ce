//! Functions that the planner brings along and PostgreSQL does not have: whoever calls one is told that there is none,
//! as there. Nothing bounds what these make: `array_repeat(1, 2000000000)` would be made while it is planned.
//!
//! It looks at what was written: what statements become may call them.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::execution::SessionStateDefaults;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, TableFactor, Visit, Visitor};

use crate::statement::name_of;
use saki_catalog::{Result, SqlError};
use saki_statement::walk::walk;
use saki_system::types::procedures_named;

/// Functions that are syntax to PostgreSQL, and so in no catalogue of its.
const SYNTAX: [&str; 10] = [
    "coalesce",
    "current_date",
    "current_time",
    "current_timestamp",
    "greatest",
    "grouping",
    "least",
    "nullif",
    "row",
    "trim",
];

static FOREIGN: LazyLock<HashSet<String>> = LazyLock::new(|| {
    type Defaults = SessionStateDefaults;
    // A word that the planner's parser makes a function of.
    let mut names = HashSet::from(["make_map".to_owned()]);
    let mut add = |name: &str, aliases: &[String]| {
        names.insert(name.to_owned());
        names.extend(aliases.iter().cloned());
    };
    Defaults::default_scalar_functions().iter().for_each(|function| add(function.name(), function.aliases()));
    Defaults::default_higher_order_functions().iter().for_each(|function| add(function.name(), function.aliases()));
    Defaults::default_aggregate_functions().iter().for_each(|function| add(function.name(), function.aliases()));
    Defaults::default_window_functions().iter().for_each(|function| add(function.name(), function.aliases()));
    Defaults::default_table_functions().iter().for_each(|function| add(function.name(), &[]));
    names.retain(|name| procedures_named(name).is_empty() && !SYNTAX.contains(&name.as_str()));
    names
});

/// Refuses calls of such functions in what somebody has written.
///
/// # Errors
/// 42883 for the first of them.
pub fn refuse_foreign(written: &(impl Visit + ?Sized)) -> Result<()> {
    match walk(written, &mut Foreign) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Foreign;

impl Visitor for Foreign {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Function(function) => known(&function.name),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => known(name),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Of a name with several parts the planner takes the first in FROM, and the last elsewhere.
fn known(function: &ObjectName) -> ControlFlow<SqlError> {
    let mut parts = function.0.iter().filter_map(|part| part.as_ident());
    match parts.find(|part| FOREIGN.contains(&name_of(part))) {
        Some(part) => ControlFlow::Break(
            SqlError::invalid(format!("function {} does not exist", name_of(part)))
                .code("42883")
                .hint("call one that PostgreSQL has"),
        ),
        None => ControlFlow::Continue(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{check, check_refused, check_values, shown};

    #[test]
    fn functions_that_postgresql_does_not_have_are_not_there() {
        check_refused(&[
            ("array_repeat(1, 2000000000)", "42883"),
            ("ARRAY_REPEAT(1, 2)", "42883"),
            ("\"list_repeat\"(1, 2)", "42883"),
            ("pg_catalog.array_repeat(1, 2)", "42883"),
            ("array_resize(ARRAY[1], 2000000000, 1)", "42883"),
            ("make_array(1, 2)", "42883"),
            ("make_map('a', 1)", "42883"),
            ("cardinality(range(1, 3000000000))", "42883"),
            ("array_transform(ARRAY[1], x -> x)", "42883"),
            ("(SELECT median(a) FROM (VALUES (1)) v(a))", "42883"),
            ("abs(CASE WHEN arrow_typeof(1) = '' THEN 1 END)", "42883"),
        ]);
        check(
            &[
                ("SELECT count(*) FROM range(1, 3)", "42883"),
                ("SELECT count(*) FROM range(1, 3) r(a)", "42883"),
                ("SELECT count(*) FROM (VALUES (1)) v(a), LATERAL array_repeat(a, 3) r", "42883"),
                ("WITH w AS (SELECT uuid() AS u) SELECT count(u) FROM w", "42883"),
                ("SELECT row_number() OVER (ORDER BY nvl(a, 1)) FROM (VALUES (1)) v(a)", "42883"),
            ],
            shown,
        );
    }

    #[test]
    fn what_is_syntax_or_becomes_their_calls_is() {
        check_values(&[
            ("coalesce(nullif(1, 1), greatest(1, 2) - least(1, 2))", "1"),
            ("current_date = current_timestamp::date", "true"),
            ("row(1, 2) = row(1, 2)", "true"),
            ("trim(both 'x' from 'xax') || substring('abc' from 2) || position('b' in 'ab')", "abc2"),
            ("cardinality(ARRAY[1, 2] || 3)", "3"),
            ("cardinality(array_remove(ARRAY[1, 2, 1], 1))", "1"),
            ("gen_random_uuid() IS NULL", "false"),
        ]);
        check(
            &[
                ("SELECT grouping(a) FROM (VALUES (1)) v(a) GROUP BY ROLLUP (a) ORDER BY 1", "0 1"),
                ("SELECT sum(g) FROM generate_series(1, 3) g", "6"),
            ],
            shown,
        );
    }

    #[test]
    fn no_name_of_postgresql_is_foreign() {
        assert!(FOREIGN.iter().all(|name| procedures_named(name).is_empty()));
        assert!(
            ["array_repeat", "list_resize", "range", "array_filter", "approx_distinct"]
                .iter()
                .all(|name| { FOREIGN.contains(*name) })
        );
        assert!(!FOREIGN.contains("length") && !FOREIGN.contains("pow"));
    }
}
