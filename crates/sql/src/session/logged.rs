//! Which statements `log_statement` is about.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use saki_context::statement::Parsed;
use saki_parameters::LoggedStatements;
use saki_postgres::statement::changes_of;

use super::dispatch::changing_command;

/// The least value of `log_statement` by which a statement is logged.
pub fn logged_by(parsed: &Parsed) -> LoggedStatements {
    match &parsed.0 {
        Statement::Statement(statement) => of(statement),
        Statement::CreateExternalTable(_) => LoggedStatements::Definitions,
        _ => LoggedStatements::All,
    }
}

fn of(statement: &ast::Statement) -> LoggedStatements {
    use ast::SetExpr as Body;
    use ast::Statement as Sql;
    match statement {
        Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_) | Sql::Truncate(_) => {
            LoggedStatements::Changes
        }
        Sql::Copy { to, .. } if !to => LoggedStatements::Changes,
        Sql::Query(query) if changes_of(query).next().is_some() => LoggedStatements::Changes,
        Sql::Query(query) => match query.body.as_ref() {
            Body::Insert(_) | Body::Update(_) | Body::Delete(_) => LoggedStatements::Changes,
            _ => LoggedStatements::All,
        },
        Sql::Explain { statement, analyze: true, .. } | Sql::Prepare { statement, .. } => of(statement),
        other if changing_command(other).is_some() => LoggedStatements::Definitions,
        _ => LoggedStatements::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_logged_by_what_they_do() {
        use LoggedStatements::{All, Changes, Definitions};
        for (sql, expected) in [
            ("CREATE TABLE t (a int)", Definitions),
            ("CREATE TABLE t AS SELECT 1", Definitions),
            ("DROP VIEW v", Definitions),
            ("COMMENT ON TABLE t IS 'x'", Definitions),
            ("GRANT SELECT ON t TO a", Definitions),
            ("CREATE ROLE a", Definitions),
            ("INSERT INTO t VALUES (1)", Changes),
            ("WITH q AS (SELECT 1) INSERT INTO t SELECT * FROM q", Changes),
            ("WITH q AS (DELETE FROM t RETURNING a) SELECT * FROM q", Changes),
            ("TRUNCATE t", Changes),
            ("COPY t FROM STDIN", Changes),
            ("PREPARE p AS DELETE FROM t", Changes),
            ("EXPLAIN ANALYZE UPDATE t SET a = 1", Changes),
            ("EXPLAIN UPDATE t SET a = 1", All),
            ("COPY t TO STDOUT", All),
            ("SELECT 1", All),
            ("SET ROLE a", All),
            ("VACUUM", All),
            ("BEGIN", All),
        ] {
            let parsed = saki_context::statement::parse(sql).unwrap().remove(0);
            assert_eq!(logged_by(&parsed), expected, "{sql}");
        }
    }
}
