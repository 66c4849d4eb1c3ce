//! Statements of PostgreSQL that the SQL parser does not know, read into those of its tree that say the same:
//!
//! | text | tree |
//! |---|---|
//! | `CREATE TABLE t (a, b) AS query` | `CreateTable`, whose columns have no types |
//! | `CREATE SEQUENCE`, options in any order | `CreateSequence` |
//! | `ALTER SEQUENCE s options` | `ALTER TABLE s SET TBLPROPERTIES (option = value, …)` |
//! | `ALTER SEQUENCE s RENAME TO t`, `OWNER TO` | `ALTER TABLE s …`, as PostgreSQL takes it too |
//! | `ALTER VIEW v RENAME TO w`, `OWNER TO` | the same |
//! | `VACUUM [(options)] [t]` | `Vacuum`, with `ANALYZE` `Analyze`; with `SKIP_LOCKED`, `BOOST` |
//! | `COMMENT ON CONSTRAINT c ON t IS …` | `COMMENT ON PROCEDURE t.c` ([`comment`]) |
//! | `MOVE n FROM c` | `FETCH n FROM c INTO move` ([`cursor`]) |
//! | `REINDEX kind [CONCURRENTLY] name` | `VACUUM REINDEX name [BOOST]` |
//! | `DROP INDEX CONCURRENTLY name` | `DROP INDEX name PURGE` |
//! | `SET CONSTRAINTS c, d DEFERRED` | a call of a procedure ([`SetConstraints`]) |
//! | `ALTER TABLE t ALTER CONSTRAINT c …` | `ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY () …` ([`constraints`]) |
//! | `ABORT`, `RESET TIME ZONE` | `ROLLBACK`, `RESET timezone` |
//! | `EXPLAIN (options) statement` | `EXPLAIN [ANALYZE] [FORMAT …] statement` ([`explain`]) |
//! | `LOCK TABLE t IN mode MODE` | a call of a procedure ([`LockTable`]) |
//! | `CREATE ROLE`, `GRANT`, `SET ROLE` and what else is about roles | the same ([`AccessStatement`]) |

mod access;
mod comment;
mod constraints;
mod cursor;
mod explain;
mod lock_table;
mod vacuum;

use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, ObjectName, SequenceOptions, SqlOption, Statement, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

pub use self::access::{
    AccessStatement, Grant, Granted, MoreMembers, Objects, RoleOptions, RoleSpec, without_passwords,
};
pub use self::comment::CONSTRAINT;
pub use self::constraints::SetConstraints;
pub use self::cursor::is_move;
pub use self::lock_table::LockTable;

type Parsed<T> = Result<T, ParserError>;

/// Reads one of these statements, if it is one.
pub fn parse(parser: &mut Parser<'_>) -> Parsed<Option<Statement>> {
    if let Some(statement) = access::parse(parser)? {
        return Ok(Some(statement));
    }
    if let Some(statement) = constraints::parse(parser)? {
        return Ok(Some(statement));
    }
    let keyword = |offset: usize| match parser.peek_nth_token(offset).token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let word = match parser.peek_token().token {
        Token::Word(word) => word.value.to_lowercase(),
        _ => return Ok(None),
    };
    Ok(Some(match (word.as_str(), keyword(1)) {
        ("create", Keyword::TABLE) => match create_table_as(parser)? {
            Some(statement) => statement,
            None => return Ok(None),
        },
        ("create", Keyword::SEQUENCE) => create_sequence(parser)?,
        ("alter", Keyword::SEQUENCE) => alter_sequence(parser)?,
        ("alter", Keyword::VIEW) => match alter_view(parser)? {
            Some(statement) => statement,
            None => return Ok(None),
        },
        ("vacuum", _) => vacuum::vacuum(parser)?,
        ("reindex", _) => vacuum::reindex(parser)?,
        ("drop", Keyword::INDEX) if keyword(2) == Keyword::CONCURRENTLY => vacuum::drop_index(parser)?,
        ("abort", _) => abort(parser)?,
        ("explain", _) => match explain::parse(parser, any)? {
            Some(statement) => statement,
            None => return Ok(None),
        },
        ("reset", Keyword::TIME) => {
            parser.advance_token();
            parser.expect_keywords(&[Keyword::TIME, Keyword::ZONE])?;
            let name = ObjectName::from(vec![Ident::new("timezone")]);
            Statement::Reset(ast::ResetStatement { reset: ast::Reset::ConfigurationParameter(name) })
        }
        ("lock", _) => lock_table::parse(parser)?,
        ("comment", _) => comment::parse(parser)?,
        ("fetch", _) => cursor::parse(parser, false)?,
        ("move", _) => cursor::parse(parser, true)?,
        _ => return Ok(None),
    }))
}

/// A statement of these or of the parser's.
fn any(parser: &mut Parser<'_>) -> Parsed<Statement> {
    match parse(parser)? {
        Some(statement) => Ok(statement),
        None => parser.parse_statement(),
    }
}

/// ROLLBACK in PostgreSQL's older word.
fn abort(parser: &mut Parser<'_>) -> Parsed<Statement> {
    parser.advance_token();
    let _ = parser.parse_one_of_keywords(&[Keyword::WORK, Keyword::TRANSACTION]);
    Ok(Statement::Rollback { chain: parser.parse_commit_rollback_chain()?, savepoint: None })
}

/// CREATE TABLE with names of columns only; any other is left to the parser.
fn create_table_as(parser: &mut Parser<'_>) -> Parsed<Option<Statement>> {
    let head = parser.maybe_parse(|parser| {
        parser.expect_keywords(&[Keyword::CREATE, Keyword::TABLE])?;
        let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
        let name = parser.parse_object_name(false)?;
        parser.expect_token(&Token::LParen)?;
        let columns = parser.parse_comma_separated(Parser::parse_identifier)?;
        parser.expect_token(&Token::RParen)?;
        Ok((if_not_exists, name, columns))
    })?;
    let Some((if_not_exists, name, columns)) = head else { return Ok(None) };
    let untyped = |name| ast::ColumnDef { name, data_type: ast::DataType::Unspecified, options: Vec::new() };
    let options = parser.parse_options(Keyword::WITH)?;
    parser.expect_keyword(Keyword::AS)?;
    let query = parser.parse_query()?;
    let table_options = match options.is_empty() {
        true => ast::CreateTableOptions::None,
        false => ast::CreateTableOptions::With(options),
    };
    let create = CreateTableBuilder::new(name)
        .if_not_exists(if_not_exists)
        .columns(columns.into_iter().map(untyped).collect())
        .table_options(table_options)
        .query(Some(query))
        .build();
    Ok(Some(Statement::CreateTable(create)))
}

fn create_sequence(parser: &mut Parser<'_>) -> Parsed<Statement> {
    parser.expect_keywords(&[Keyword::CREATE, Keyword::SEQUENCE])?;
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let (mut data_type, mut sequence_options, mut owned_by) = (None, Vec::new(), None);
    while let Some(option) = sequence_option(parser)? {
        match option {
            SequenceOption::Type(said) => data_type = Some(said),
            SequenceOption::OwnedBy(column) => owned_by = Some(column),
            SequenceOption::Restart(_) => return parser.expected("an option of CREATE SEQUENCE", parser.peek_token()),
            SequenceOption::Other(option) => sequence_options.push(option),
        }
    }
    Ok(Statement::CreateSequence { temporary: false, if_not_exists, name, data_type, sequence_options, owned_by })
}

fn alter_sequence(parser: &mut Parser<'_>) -> Parsed<Statement> {
    parser.expect_keywords(&[Keyword::ALTER, Keyword::SEQUENCE])?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let mut table_properties = Vec::new();
    while let Some(option) = sequence_option(parser)? {
        table_properties.push(property(option));
    }
    let operation = match table_properties.is_empty() {
        true => parser.parse_alter_table_operation()?,
        false => ast::AlterTableOperation::SetTblProperties { table_properties },
    };
    Ok(altered(name, if_exists, operation))
}

/// `ALTER VIEW v AS query` is left to the parser.
fn alter_view(parser: &mut Parser<'_>) -> Parsed<Option<Statement>> {
    let head = parser.maybe_parse(|parser| {
        parser.expect_keywords(&[Keyword::ALTER, Keyword::VIEW])?;
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let name = parser.parse_object_name(false)?;
        if !parser.peek_keyword(Keyword::RENAME) && !parser.peek_keyword(Keyword::OWNER) {
            return parser.expected("RENAME or OWNER", parser.peek_token());
        }
        Ok((if_exists, name))
    })?;
    let Some((if_exists, name)) = head else { return Ok(None) };
    let operation = parser.parse_alter_table_operation()?;
    Ok(Some(altered(name, if_exists, operation)))
}

fn altered(name: ObjectName, if_exists: bool, operation: ast::AlterTableOperation) -> Statement {
    Statement::AlterTable(ast::AlterTable {
        name,
        if_exists,
        only: false,
        operations: vec![operation],
        location: None,
        on_cluster: None,
        table_type: None,
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
    })
}

enum SequenceOption {
    Type(ast::DataType),
    OwnedBy(ObjectName),
    Restart(Option<Expr>),
    Other(SequenceOptions),
}

fn sequence_option(parser: &mut Parser<'_>) -> Parsed<Option<SequenceOption>> {
    use SequenceOption::Other;
    let option = if parser.parse_keyword(Keyword::AS) {
        SequenceOption::Type(parser.parse_data_type()?)
    } else if parser.parse_keyword(Keyword::INCREMENT) {
        let by = parser.parse_keyword(Keyword::BY);
        Other(SequenceOptions::IncrementBy(signed(parser)?, by))
    } else if parser.parse_keyword(Keyword::MINVALUE) {
        Other(SequenceOptions::MinValue(Some(signed(parser)?)))
    } else if parser.parse_keyword(Keyword::MAXVALUE) {
        Other(SequenceOptions::MaxValue(Some(signed(parser)?)))
    } else if parser.parse_keywords(&[Keyword::NO, Keyword::MINVALUE]) {
        Other(SequenceOptions::MinValue(None))
    } else if parser.parse_keywords(&[Keyword::NO, Keyword::MAXVALUE]) {
        Other(SequenceOptions::MaxValue(None))
    } else if parser.parse_keywords(&[Keyword::NO, Keyword::CYCLE]) {
        Other(SequenceOptions::Cycle(true))
    } else if parser.parse_keyword(Keyword::CYCLE) {
        Other(SequenceOptions::Cycle(false))
    } else if parser.parse_keyword(Keyword::START) {
        let with = parser.parse_keyword(Keyword::WITH);
        Other(SequenceOptions::StartWith(signed(parser)?, with))
    } else if parser.parse_keyword(Keyword::CACHE) {
        Other(SequenceOptions::Cache(signed(parser)?))
    } else if parser.parse_keyword(Keyword::RESTART) {
        let with = parser.parse_keyword(Keyword::WITH);
        let follows = matches!(parser.peek_token().token, Token::Number(..) | Token::Minus | Token::Plus);
        SequenceOption::Restart(if with || follows { Some(signed(parser)?) } else { None })
    } else if parser.parse_keywords(&[Keyword::OWNED, Keyword::BY]) {
        SequenceOption::OwnedBy(parser.parse_object_name(false)?)
    } else {
        return Ok(None);
    };
    Ok(Some(option))
}

fn signed(parser: &mut Parser<'_>) -> Parsed<Expr> {
    parser.parse_number()
}

/// A sequence's option as a property of a table; DEFAULT where there is no value.
fn property(option: SequenceOption) -> SqlOption {
    let default = || Expr::Identifier(Ident::new("default"));
    let text = |text: String| Expr::Value(Value::SingleQuotedString(text).into());
    let (key, value) = match option {
        SequenceOption::Type(data_type) => ("as", text(data_type.to_string())),
        SequenceOption::OwnedBy(column) => ("owned by", text(column.to_string())),
        SequenceOption::Restart(value) => ("restart", value.unwrap_or_else(default)),
        SequenceOption::Other(SequenceOptions::IncrementBy(value, _)) => ("increment", value),
        SequenceOption::Other(SequenceOptions::MinValue(value)) => ("minvalue", value.unwrap_or_else(default)),
        SequenceOption::Other(SequenceOptions::MaxValue(value)) => ("maxvalue", value.unwrap_or_else(default)),
        SequenceOption::Other(SequenceOptions::StartWith(value, _)) => ("start", value),
        SequenceOption::Other(SequenceOptions::Cache(value)) => ("cache", value),
        SequenceOption::Other(SequenceOptions::Cycle(no)) => ("cycle", text((!no).to_string())),
    };
    SqlOption::KeyValue { key: Ident::new(key), value }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};
    use crate::parse;

    #[test]
    fn tables_of_queries_name_columns() {
        check(
            &[
                ("CREATE TABLE t (a) AS SELECT 1", "CREATE TABLE t (a) AS SELECT 1"),
                ("CREATE TABLE t (a, b) AS SELECT 1, 2", "CREATE TABLE t (a, b) AS SELECT 1, 2"),
                (
                    "create table if not exists t (a) with (columns = on) as select 1",
                    "CREATE TABLE IF NOT EXISTS t (a) WITH (columns = on) AS SELECT 1",
                ),
                ("CREATE TABLE t (a)", "42601"),
                ("CREATE TABLE t (a) AS", "42601"),
                ("CREATE TABLE t (a int)", "CREATE TABLE t (a INT)"),
                ("CREATE TABLE t (a) AS SELECT 1 x y", "42601 at 1:34"),
            ],
            read,
        );
    }

    #[test]
    fn sequences_take_their_options_in_any_order() {
        check(
            &[
                ("CREATE SEQUENCE s", "CREATE SEQUENCE s"),
                (
                    "CREATE SEQUENCE IF NOT EXISTS x.s START 5 INCREMENT 2",
                    "CREATE SEQUENCE IF NOT EXISTS x.s START 5 INCREMENT 2",
                ),
                ("CREATE SEQUENCE s CYCLE AS smallint", "CREATE SEQUENCE s AS SMALLINT CYCLE"),
                ("CREATE SEQUENCE s OWNED BY t.a", "CREATE SEQUENCE s OWNED BY t.a"),
                ("CREATE SEQUENCE s OWNED BY NONE", "CREATE SEQUENCE s OWNED BY NONE"),
                ("CREATE SEQUENCE s NO MINVALUE", "CREATE SEQUENCE s NO MINVALUE"),
                ("CREATE SEQUENCE s RESTART", "42601"),
                ("CREATE SEQUENCE s START x", "42601 at 1:25"),
                ("CREATE SEQUENCE s NOSUCH", "42601 at 1:19"),
                ("CREATE SEQUENCE", "42601"),
                ("ALTER SEQUENCE s", "42601"),
                ("ALTER SEQUENCE s NOSUCH", "42601 at 1:18"),
            ],
            read,
        );
    }

    #[test]
    fn changes_of_sequences_and_views_are_changes_of_tables() {
        check(
            &[
                ("ALTER SEQUENCE s INCREMENT 2", "ALTER TABLE s SET TBLPROPERTIES(increment = 2)"),
                (
                    "ALTER SEQUENCE s NO CYCLE RESTART",
                    "ALTER TABLE s SET TBLPROPERTIES(cycle = 'false', restart = default)",
                ),
                ("ALTER SEQUENCE s RESTART WITH -4", "ALTER TABLE s SET TBLPROPERTIES(restart = -4)"),
                ("ALTER SEQUENCE IF EXISTS s RENAME TO r", "ALTER TABLE IF EXISTS s RENAME TO r"),
                ("ALTER VIEW v RENAME TO w", "ALTER TABLE v RENAME TO w"),
                ("ALTER VIEW v AS SELECT 1", "ALTER VIEW v AS SELECT 1"),
                (" ALTER VIEW v AS SELECT 1", "ALTER VIEW v AS SELECT 1"),
                ("SELECT 1;\n ALTER VIEW v AS SELECT 1", "SELECT 1; ALTER VIEW v AS SELECT 1"),
                ("\tALTER VIEW w", "42601"),
            ],
            read,
        );
    }

    #[test]
    fn vacuum_takes_postgresqls_words() {
        check(
            &[
                ("VACUUM", "VACUUM"),
                ("VACUUM t", "VACUUM t"),
                ("VACUUM s.t", "VACUUM s.t"),
                ("VACUUM FULL", "VACUUM"),
                ("VACUUM FULL FREEZE VERBOSE t", "VACUUM t"),
                ("VACUUM (FULL, VERBOSE false) t", "VACUUM t"),
                ("VACUUM (INDEX_CLEANUP off, TRUNCATE true)", "VACUUM"),
                ("VACUUM ANALYZE t", "ANALYZE t"),
                ("VACUUM (ANALYZE) t", "ANALYZE t"),
                ("VACUUM (ANALYZE false) t", "VACUUM t"),
                ("VACUUM (ANALYZE off, FULL) t", "VACUUM t"),
                ("VACUUM (VERBOSE, ANALYZE on) t", "ANALYZE t"),
                ("VACUUM (SKIP_LOCKED, PARALLEL 2, BUFFER_USAGE_LIMIT '1MB') t", "VACUUM t BOOST"),
                ("VACUUM (SKIP_LOCKED, ANALYZE) t", "42601 at 1:31"),
                ("VACUUM (NONSENSE) t", "42601 at 1:9"),
                ("VACUUM (FULL maybe) t", "42601 at 1:14"),
                ("VACUUM (PARALLEL) t", "42601 at 1:9"),
                ("VACUUM (PARALLEL 2000) t", "42601 at 1:18"),
                ("VACUUM \"analyze\"", "VACUUM \"analyze\""),
                ("VACUUM; VACUUM t", "VACUUM; VACUUM t"),
                ("VACUUM (", "42601"),
                ("VACUUM (ANALYZE", "42601"),
                ("VACUUM ()", "42601 at 1:9"),
                ("VACUUM t u", "42601 at 1:10"),
            ],
            read,
        );
    }

    #[test]
    fn an_index_is_built_anew_under_vacuums_name() {
        check(
            &[
                ("REINDEX TABLE t", "VACUUM REINDEX t"),
                ("REINDEX INDEX CONCURRENTLY s.i", "VACUUM REINDEX s.i BOOST"),
                ("REINDEX DATABASE CONCURRENTLY saki", "VACUUM REINDEX BOOST"),
                ("reindex schema public", "VACUUM REINDEX"),
                ("REINDEX DATABASE saki", "VACUUM REINDEX"),
                ("REINDEX SYSTEM saki", "VACUUM REINDEX"),
                ("REINDEX t", "42601"),
                ("REINDEX TABLE", "42601"),
                ("REINDEX", "42601"),
            ],
            read,
        );
    }

    #[test]
    fn an_index_is_dropped_concurrently_under_another_word() {
        check(
            &[
                ("DROP INDEX CONCURRENTLY i", "DROP INDEX i PURGE"),
                ("drop index concurrently if exists s.i", "DROP INDEX IF EXISTS s.i PURGE"),
                ("DROP INDEX CONCURRENTLY i, j CASCADE", "DROP INDEX i, j CASCADE PURGE"),
                ("DROP INDEX CONCURRENTLY i RESTRICT", "DROP INDEX i RESTRICT PURGE"),
                ("DROP INDEX i", "DROP INDEX i"),
                ("DROP INDEX CONCURRENTLY", "42601"),
                ("DROP INDEX CONCURRENTLY i j", "42601 at 1:27"),
            ],
            read,
        );
    }

    #[test]
    fn what_is_none_of_these_is_left_to_the_parser() {
        for sql in [
            "SELECT vacuum FROM reindex",
            "CREATE VIEW v AS SELECT 1",
            "ALTER TABLE t ADD COLUMN a INT",
            "( SELECT 1 )",
        ] {
            assert_eq!(parse(sql).unwrap().len(), 1, "{sql}");
        }
    }
}
