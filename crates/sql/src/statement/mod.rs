//! Statements that are ours: what they say is read here, one file per statement; the session carries them out.

pub mod alter_table;
pub mod copy;
pub mod create_index;
pub mod create_table;
pub mod insert;
pub mod table_options;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Value};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::{ErrorKind, Position, Result, SqlError};

/// Cuts a text into statements.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    let dialect = PostgreSqlDialect {};
    let mut parser = DFParserBuilder::new(sql).with_dialect(&dialect).build()?;
    let mut statements = Vec::new();
    loop {
        while parser.parser.consume_token(&Token::SemiColon) {}
        if parser.parser.peek_token() == Token::EOF {
            return Ok(statements);
        }
        let at = |offset: usize| match parser.parser.peek_nth_token(offset).token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        // CREATE EXTERNAL TABLE is not SQL; everything else is left to the SQL parser.
        let external = at(0) == Keyword::CREATE && (1..4).any(|offset| at(offset) == Keyword::EXTERNAL);
        statements.push(if external {
            parser.parse_statement()?
        } else {
            Statement::Statement(Box::new(parser.parser.parse_statement()?))
        });
        let next = parser.parser.peek_token();
        if next != Token::SemiColon && next != Token::EOF {
            let start = next.span.start;
            let message = format!("expected the end of the statement, found {next}");
            return Err(
                SqlError::new(ErrorKind::Syntax, message).at(Some(Position { line: start.line, column: start.column }))
            );
        }
    }
}

/// An identifier as the catalog spells it: lower case unless quoted.
pub fn name_of(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// Where an identifier stands.
pub fn position_of(ident: &Ident) -> Option<Position> {
    let start = ident.span.start;
    (start.line > 0).then_some(Position { line: start.line, column: start.column })
}

/// The last part of a name; what is before it must be `public` or `saki.public`.
pub fn object_name(name: &ObjectName) -> Result<(String, Option<Position>)> {
    let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    let Some((last, before)) = parts.split_last() else {
        return Err(SqlError::invalid(format!("{name} is not a name")));
    };
    let before: Vec<String> = before.iter().map(|ident| name_of(ident)).collect();
    match before.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["public"] | ["saki", "public"] => Ok((name_of(last), position_of(last))),
        _ => Err(SqlError::invalid(format!("there is no schema {:?}", before.join(".")))
            .hint("all tables are in the schema public")
            .at(position_of(last))),
    }
}

/// A setting's value as text; `None` for DEFAULT.
pub fn setting_text(value: &Expr) -> Option<String> {
    match value {
        Expr::Identifier(ident) if name_of(ident) == "default" => None,
        Expr::Identifier(ident) => Some(name_of(ident)),
        Expr::Value(value) => Some(match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        }),
        other => Some(other.to_string()),
    }
}

/// What `full` says beyond `supported`, for a message that names it.
pub(crate) fn beyond(full: &str, supported: &str) -> String {
    let common = full.char_indices().zip(supported.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
    let start = common.unwrap_or(supported.len().min(full.len()));
    // Back to the beginning of the word that differs.
    let start = full[..start].rfind([' ', '(']).map_or(0, |space| space + 1);
    full[start..].chars().take(40).collect::<String>().trim().to_owned()
}
