//! Statements as PostgreSQL spells them. Those that are ours are read here, one file per statement, into plain structs;
//! the session carries them out.
//!
//! # Invariants
//! - What is read and written again, as a text, says the same.
//!
//! # Failure model
//! What cannot be read or is not supported is refused with PostgreSQL's condition, its place in the text, and what to
//! do instead.
#![forbid(unsafe_code)]

pub mod copy;
pub mod create_index;
mod expression;
#[cfg(test)]
mod fixture;
mod function;
pub mod sequence;
mod syntax;
pub mod table;
#[cfg(test)]
mod tests;
mod text;
pub mod types;
mod utility;
mod with;

use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParser, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArguments, Ident, ObjectName, Query, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::walk::walk_expressions;
use saki_base::stack::with_room;
use saki_catalog::{ErrorKind, PUBLIC, Position, Result, SqlError, bare, qualified};

use self::syntax::Syntax;
pub use self::syntax::name_of;
pub use self::text::changes::merge::{MergedAs, MergedRow, WhenClause, when_clauses};
pub use self::text::changes::overriding::Overriding;
use self::text::changes::{merge, overriding};
pub use self::text::conflict::conflict_keys;
use self::text::queries::{isnull, key_locks, numbers, signs, tables};
pub use self::text::shape::{Kind as LiteralKind, Shape};
pub use self::text::size;
pub use self::text::walk;
pub use self::text::weight::{kept_weight, weight};
use self::text::{arguments, chains, conflict, continued, deferrable, depth, identity};
pub use self::utility::{
    AccessStatement, CONSTRAINT, Grant, Granted, LockTable, MoreMembers, Objects, RoleOptions, RoleSpec,
    SetConstraints, is_move, without_passwords,
};
pub use expression::{as_kept, call, column_name, columns_named, quoted, take};
pub use with::{ChangingWith, NamedChange, changes_of};

/// The statement, and the procedure as which it is read.
pub const CHECKPOINT: &str = "checkpoint";

/// Tokens along one way down that are too few to be deep, or a long chain.
const LINKS_UNSEEN: usize = 100;
/// Bytes of a text that is too short to need more of a stack than any thread has.
const SHORT_BYTES: usize = 2 << 10;

/// Cuts a text into statements.
///
/// # Errors
/// 42601 for what cannot be read, 54001 for what is nested too deep.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    if sql.len() <= SHORT_BYTES { read(sql) } else { with_room(|| read(sql)) }
}

fn read(sql: &str) -> Result<Vec<Statement>> {
    let dialect = Syntax;
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().map_err(ParserError::from)?;
    numbers::refuse_junk(&tokens)?;
    let links = depth::links_of(&tokens)?;
    let has_with = has(&tokens, "with");
    let mut parser = DFParserBuilder::new("").with_dialect(&dialect).build()?;
    parser.parser = Parser::new(&dialect).with_tokens_with_locations(retold(continued::joined(tokens)?));
    let statements = read_all(&mut parser)?;
    let mut statements = statements.into_iter().map(with::put_in_place).collect::<Result<Vec<_>>>()?;
    if has_with {
        statements.iter().try_for_each(with::refuse_changes_within)?;
    }
    if links > LINKS_UNSEEN {
        statements.iter_mut().for_each(chains::balance);
        statements.iter().try_for_each(depth::refuse)?;
    }
    Ok(statements)
}

fn read_all(parser: &mut DFParser<'_>) -> Result<Vec<Statement>> {
    let mut statements = Vec::new();
    loop {
        while parser.parser.consume_token(&Token::SemiColon) {}
        if parser.parser.peek_token() == Token::EOF {
            return Ok(statements);
        }
        if let Some(checkpoint) = checkpoint(parser)? {
            statements.push(checkpoint);
            continue;
        }
        let at = |offset: usize| match parser.parser.peek_nth_token(offset).token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        // CREATE EXTERNAL TABLE is not SQL; everything else is left to the SQL parser.
        let external = at(0) == Keyword::CREATE && (1..4).any(|offset| at(offset) == Keyword::EXTERNAL);
        statements.push(if external {
            parser.parse_statement()?
        } else if let Some(utility) = utility::parse(&mut parser.parser)? {
            Statement::Statement(Box::new(utility))
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

/// Reads an expression that the catalog keeps as text.
pub fn parse_expression(text: &str) -> Result<Expr> {
    Ok(Parser::new(&Syntax).try_with_sql(text)?.parse_expr()?)
}

/// Whether an expression holds a query.
pub fn has_subquery(expression: &Expr) -> bool {
    let found = walk_expressions(expression, |node: &Expr| match node {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        // ARRAY(query)
        Expr::Function(Function { args: FunctionArguments::Subquery(_), .. }) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Reads a query that the catalog keeps, or that a statement is carried out by.
pub fn parse_query(text: &str) -> Result<Box<Query>> {
    Ok(Parser::new(&Syntax).try_with_sql(text)?.parse_query()?)
}

/// Reads a name as functions take it: text, perhaps with quotes and a schema.
pub fn parse_name(text: &str) -> Result<ObjectName> {
    let mut parser = Parser::new(&Syntax).try_with_sql(text)?;
    let name = parser.parse_object_name(false)?;
    match parser.peek_token().token {
        Token::EOF => Ok(name),
        _ => Err(SqlError::invalid(format!("invalid name syntax: {text:?}")).code("42602")),
    }
}

/// [`parse_name`] of a relation.
pub fn parse_relation(text: &str) -> Result<RelationName> {
    RelationName::read(&parse_name(text)?)
}

/// The tokens of a text, with options in the words and in the order in which the parser knows them.
fn retold(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut tokens = signs::apart(tokens);
    if has(&tokens, "copy") {
        spell_booleans_of_copy(&mut tokens);
    }
    if has(&tokens, "isnull") {
        tokens = isnull::written_out(tokens);
    }
    if has(&tokens, "table") {
        tokens = tables::as_queries(tokens);
    }
    if has(&tokens, "trim") || has(&tokens, "substring") {
        tokens = arguments::spelled(tokens);
    }
    if has(&tokens, "key") && has(&tokens, "for") {
        tokens = key_locks::as_plain(tokens);
    }
    if has(&tokens, "merge") {
        tokens = merge::as_known(tokens);
    }
    if has(&tokens, "overriding") {
        tokens = overriding::as_partition(tokens);
    }
    if has(&tokens, "conflict") {
        tokens = conflict::as_columns(tokens);
    }
    if has(&tokens, "deferrable") {
        tokens = deferrable::left_out(tokens);
    }
    if has(&tokens, "identity") { identity::in_order(tokens) } else { tokens }
}

fn has(tokens: &[TokenWithSpan], word: &str) -> bool {
    tokens.iter().any(|token| matches!(&token.token, Token::Word(it) if it.value.eq_ignore_ascii_case(word)))
}

/// `FREEZE on` as the parser knows it: `FREEZE true`.
fn spell_booleans_of_copy(tokens: &mut [TokenWithSpan]) {
    let mut after_freeze = false;
    for token in tokens {
        let Token::Word(word) = &token.token else {
            after_freeze &= matches!(token.token, Token::Whitespace(_));
            continue;
        };
        let value = match word.value.to_lowercase().as_str() {
            "on" if after_freeze => Some("TRUE"),
            "off" if after_freeze => Some("FALSE"),
            _ => None,
        };
        after_freeze = word.keyword == Keyword::FREEZE;
        if let Some(value) = value {
            token.token = Token::make_keyword(value);
        }
    }
}

/// CHECKPOINT, which the parser does not know: read as the call of a procedure.
fn checkpoint(parser: &mut DFParser<'_>) -> Result<Option<Statement>> {
    let is_word = |token: &Token| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(CHECKPOINT));
    let is_end = |token: &Token| matches!(token, Token::SemiColon | Token::EOF);
    if !is_word(&parser.parser.peek_token().token) || !is_end(&parser.parser.peek_nth_token(1).token) {
        return Ok(None);
    }
    parser.parser.next_token();
    Ok(parse(&format!("CALL {CHECKPOINT}()"))?.pop())
}

/// Where an identifier stands.
pub fn position_of(ident: &Ident) -> Option<Position> {
    let start = ident.span.start;
    (start.line > 0).then_some(Position { line: start.line, column: start.column })
}

/// The name of a relation in a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelationName {
    pub schema: String,
    /// As the catalog has it: behind the schema's name, unless that is `public`.
    pub name: String,
    pub position: Option<Position>,
}

impl RelationName {
    pub fn read(name: &ObjectName) -> Result<Self> {
        let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        let Some((last, before)) = parts.split_last() else {
            return Err(SqlError::invalid(format!("{name} is not a name")).code("42602"));
        };
        let position = position_of(last);
        let before: Vec<String> = before.iter().map(|ident| name_of(ident)).collect();
        let schema = match before.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => PUBLIC,
            [schema] | ["saki", schema] => schema,
            [database, _] => {
                let message = format!("cross-database references are not implemented: {name}");
                let hint = format!("connect to the server of {database}, or leave its name out if it is this database");
                return Err(SqlError::unsupported(message).hint(hint).at(position));
            }
            _ => return Err(SqlError::invalid(format!("{name} has too many parts")).code("42601").at(position)),
        };
        Ok(Self { schema: schema.to_owned(), name: qualified(schema, &name_of(last)), position })
    }

    /// The name within its schema.
    pub fn bare(&self) -> &str {
        bare(&self.schema, &self.name)
    }
}

/// The catalog's name of a relation, and where it stands.
pub fn object_name(name: &ObjectName) -> Result<(String, Option<Position>)> {
    let RelationName { name, position, .. } = RelationName::read(name)?;
    Ok((name, position))
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
pub fn beyond(full: &str, supported: &str) -> String {
    let common = full.char_indices().zip(supported.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
    let start = common.unwrap_or(supported.len().min(full.len()));
    // Back to the beginning of the word that differs.
    let start = full[..start].rfind([' ', '(']).map_or(0, |space| space + 1);
    full[start..].chars().take(40).collect::<String>().trim().to_owned()
}
