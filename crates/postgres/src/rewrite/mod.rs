//! Statements about the system, in words that the planner knows: each module puts one thing PostgreSQL has into terms
//! of another. Statements that have none of these are left as they are.

mod arrays;
mod concern;
mod elements;
mod names;
mod operators;
mod references;
mod set_names;
mod sets;
mod syntax;
mod type_names;
mod wildcards;
mod words;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Statement, VisitorMut};

pub use self::arrays::{array_elements, array_literal};
pub use self::type_names::{TypeNames, is_type};
use crate::column_names::Columns;
use saki_catalog::{Result, SqlError};
use saki_statement::walk::walk_mut;

/// Rewrites a statement if it is about the system.
///
/// # Errors
/// When an array literal or the like cannot be read.
pub fn rewrite(statement: &mut Statement) -> Result<()> {
    if !concern::is_about_system(statement) {
        return Ok(());
    }
    pass(statement, &mut wildcards::Wildcards)?;
    // Columns are called after what was written, not after what it becomes.
    pass(statement, &mut Columns::default())?;
    let defined = names::defined(statement);
    pass(statement, &mut names::Names { defined })?;
    names::system_columns(statement);
    pass(statement, &mut words::Words)?;
    pass(statement, &mut operators::Operators)?;
    pass(statement, &mut references::References)?;
    elements::name_elements(statement);
    pass(statement, &mut sets::Sets)?;
    pass(statement, &mut arrays::Arrays)
}

fn pass(statement: &mut Statement, visitor: &mut impl VisitorMut<Break = SqlError>) -> Result<()> {
    match walk_mut(statement, visitor) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// A statement after one of the passes.
#[cfg(test)]
fn passed(sql: &str, visitor: &mut impl VisitorMut<Break = SqlError>) -> String {
    let mut statement = crate::fixture::parsed(sql);
    pass(&mut statement, visitor).unwrap();
    statement.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::parsed;

    fn rewritten(sql: &str) -> String {
        let mut statement = parsed(sql);
        rewrite(&mut statement).unwrap();
        statement.to_string()
    }

    #[test]
    fn statements_about_something_else_stay() {
        for sql in ["SELECT a, 1, 1 FROM book WHERE b = ANY(c)", "SELECT value FROM generate_series(1, 3) AS s (value)"]
        {
            assert_eq!(rewritten(sql), sql);
        }
    }

    #[test]
    fn each_rewrite_says_the_same_in_other_words() {
        for (sql, expected) in [
            ("SELECT oid FROM pg_class", "SELECT oid FROM pg_catalog.pg_class"),
            (
                "WITH pg_class AS (SELECT 1 AS oid) SELECT oid FROM pg_class, pg_type",
                "WITH pg_class AS (SELECT 1 AS oid) SELECT oid FROM pg_class, pg_catalog.pg_type",
            ),
            (
                "SELECT pg_catalog.format_type(a, NULL), 1, 1 FROM pg_catalog.pg_type",
                "SELECT format_type(a, NULL) AS \"format_type\", 1 AS \"?column?\", 1 AS \"?column?\u{1}1\" \
                 FROM pg_catalog.pg_type",
            ),
            ("SELECT a, t.* FROM pg_range r, mine t", "SELECT a, t.* FROM pg_catalog.pg_range r, mine t"),
            (
                "SELECT i.inhrelid, i.* FROM pg_inherits i",
                "SELECT i.inhrelid, i.inhrelid AS \"inhrelid\u{1}1\", i.inhparent, i.inhseqno, i.inhdetachpending \
                 FROM pg_catalog.pg_inherits i",
            ),
            ("SELECT current_user", "SELECT current_user() AS \"current_user\""),
            (
                "SELECT a FROM pg_class WHERE a OPERATOR(pg_catalog.~) 'x' COLLATE pg_catalog.default",
                "SELECT a FROM pg_catalog.pg_class WHERE a ~ 'x'",
            ),
            (
                "SELECT a FROM pg_class WHERE oid = 'book'::regclass",
                "SELECT a FROM pg_catalog.pg_class WHERE oid = pg_reg_oid('regclass', 'book')",
            ),
            (
                "SELECT oid::pg_catalog.regclass::pg_catalog.text FROM pg_class",
                "SELECT pg_reg_text('regclass', oid)::pg_catalog.text AS \"oid\" FROM pg_catalog.pg_class",
            ),
            ("SELECT 'book'::regclass::oid", "SELECT pg_reg_oid('regclass', 'book')::oid AS \"oid\""),
            (
                "SELECT indkey[0] FROM pg_index WHERE relkind = ANY('{r,v}')",
                "SELECT indkey[0 + 1] AS \"indkey\" FROM pg_catalog.pg_index WHERE relkind = ANY(ARRAY['r', 'v'])",
            ),
        ] {
            assert_eq!(rewritten(sql), expected);
        }
    }
}
