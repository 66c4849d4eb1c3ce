//! Whether a statement is about the system at all: one look at it, which ends at the first sign.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, ObjectName, Statement, TableFactor, Visitor,
};

use super::syntax::{function_name, system_name};
use super::{references, words};
use saki_functions::json::SETS;
use saki_statement::name_of;
use saki_statement::walk::walk;
use saki_system::SYSTEM_SCHEMAS;
use saki_system::definition;
use saki_system::functions::{self, UNNESTED};

pub fn is_about_system(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_) | Statement::Explain { .. } | Statement::CreateTable(_) | Statement::Insert(_)
    ) && walk(statement, &mut Signs).is_break()
}

/// Names of functions whose calls are a sign.
static FUNCTIONS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let unnested = UNNESTED.iter().map(|(name, _)| *name).chain(SETS.iter().map(|(name, _)| *name));
    functions::names().chain(unnested).collect()
});

/// Whether a function in FROM is one that the planner does not know there.
fn is_ours(function: &ObjectName) -> bool {
    system_name(function).is_some_and(|name| name != "generate_series" && FUNCTIONS.contains(name.as_str()))
}

struct Signs;

fn sign(found: bool) -> ControlFlow<()> {
    if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

impl Visitor for Signs {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let parts: Vec<String> = relation.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
        sign(match &parts[..] {
            [name] => definition::find("pg_catalog", name).is_some(),
            [.., schema, _] => SYSTEM_SCHEMAS.contains(&schema.as_str()),
            [] => false,
        })
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        sign(match factor {
            TableFactor::Table { name, args, with_ordinality, .. } => {
                *with_ordinality || (args.is_some() && is_ours(name))
            }
            TableFactor::Function { name, with_ordinality, .. } => *with_ordinality || is_ours(name),
            TableFactor::UNNEST { with_ordinality, .. } => *with_ordinality,
            _ => false,
        })
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        sign(match expr {
            Expr::Function(function) => {
                matches!(function.args, FunctionArguments::Subquery(_))
                    || function.name.0.len() > 1
                    || function_name(function).is_some_and(|name| FUNCTIONS.contains(name.as_str()))
            }
            Expr::Identifier(ident) => words::is_word(ident),
            Expr::Collate { .. } => true,
            Expr::Like { escape_char, .. } | Expr::ILike { escape_char, .. } => escape_char.is_some(),
            Expr::BinaryOp { op: BinaryOperator::PGCustomBinaryOperator(_), .. } => true,
            Expr::Cast { data_type, .. } => references::kind(data_type).is_some(),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::is_about_system;
    use crate::fixture::parsed;

    #[test]
    fn statements_show_that_they_are_about_the_system() {
        for sql in [
            "SELECT 1 FROM pg_class",
            "SELECT 1 FROM information_schema.tables",
            "SELECT 1 FROM saki.pg_catalog.pg_class",
            "SELECT format_type(1, 2)",
            "SELECT other.f(1)",
            "SELECT current_user",
            "SELECT ARRAY(SELECT 1)",
            "SELECT 'book'::regclass",
            "SELECT a COLLATE \"C\" FROM t",
            "SELECT a LIKE 'b' ESCAPE '!' FROM t",
            "SELECT a ILIKE 'b' ESCAPE '!' FROM t",
            "SELECT a OPERATOR(pg_catalog.=) b FROM t",
            "SELECT * FROM unnest(ARRAY[1]) WITH ORDINALITY",
            "SELECT * FROM string_to_table('a', ',')",
            "EXPLAIN SELECT * FROM pg_type",
            "INSERT INTO t SELECT oid FROM pg_class",
            "CREATE TABLE t AS SELECT oid FROM pg_class",
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM (SELECT 1 FROM pg_class) AS t)",
        ] {
            assert!(is_about_system(&parsed(sql)), "{sql}");
        }
    }

    #[test]
    fn other_statements_are_looked_at_once_and_left() {
        for sql in [
            "SELECT a, upper(b) FROM book WHERE c LIKE 'd%'",
            "SELECT \"current_user\" FROM t",
            "SELECT * FROM generate_series(1, 2)",
            "SELECT * FROM unnest(ARRAY[1])",
            "SELECT a::int, '1'::text FROM shop.pg_class",
            "UPDATE t SET a = 1",
            "DELETE FROM t",
        ] {
            assert!(!is_about_system(&parsed(sql)), "{sql}");
        }
    }
}
