//! Statements that are ours: what they say is read here, one file per statement; the session carries them out.

pub mod alter_table;
pub mod column;
pub mod constraint;
pub mod copy;
pub mod create_index;
pub mod create_table;
mod expression;
mod identity;
pub mod sequence;
mod syntax;
pub mod table_options;
#[cfg(test)]
mod tests;
mod utility;

use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParser, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, Ident, ObjectName, Query, Value, visit_expressions,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use saki_catalog::{ErrorKind, PUBLIC, Position, Result, SqlError, bare, qualified};

use self::syntax::Syntax;
pub use self::utility::{
    AccessStatement, Grant, Granted, LockTable, MoreMembers, Objects, RoleOptions, RoleSpec, without_passwords,
};
pub use expression::{call, column_name, columns_named, quoted, take};

/// The statement, and the procedure as which it is read.
pub const CHECKPOINT: &str = "checkpoint";

/// Brackets within brackets at most: as deep as the parser goes. It takes very long to find out that it will not.
const DEPTH_MAX: usize = 50;
/// Brackets that need no closer look: too few for [`READINGS_MAX`].
const DEPTH_UNSEEN: usize = 16;
/// Readings of a query at most. Those that a text needs double, or more, with every query around that is in brackets
/// of its own.
const READINGS_MAX: usize = 1 << 9;

/// Cuts a text into statements.
///
/// # Errors
/// 42601 for what cannot be read, 54001 for what is nested too deep.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    let dialect = Syntax;
    refuse_deep(sql, &dialect)?;
    let mut parser = DFParserBuilder::new(sql).with_dialect(&dialect).build()?;
    if let Some(tokens) = retold(sql, &dialect)? {
        parser.parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    }
    let mut statements = Vec::new();
    loop {
        while parser.parser.consume_token(&Token::SemiColon) {}
        if parser.parser.peek_token() == Token::EOF {
            return Ok(statements);
        }
        if let Some(checkpoint) = checkpoint(&mut parser)? {
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
    let found = visit_expressions(expression, |node: &Expr| match node {
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

fn refuse_deep(sql: &str, dialect: &Syntax) -> Result<()> {
    let mut letters = sql.bytes().map(|byte| match byte {
        b'(' | b'[' => 1,
        b')' | b']' => -1,
        _ => 0,
    });
    // Brackets of literals and comments count no more when somebody has to look closely.
    if deepest(&mut letters) <= DEPTH_UNSEEN {
        return Ok(());
    }
    let tokens = Tokenizer::new(dialect, sql).tokenize().map_err(ParserError::from)?;
    let mut steps = tokens.iter().map(|token| match token {
        Token::LParen | Token::LBracket => 1,
        Token::RParen | Token::RBracket => -1,
        _ => 0,
    });
    let message = if deepest(&mut steps) > DEPTH_MAX {
        format!("brackets are nested more than {DEPTH_MAX} deep")
    } else if readings(&tokens) > READINGS_MAX {
        "queries in brackets of their own are nested too deep".to_owned()
    } else {
        return Ok(());
    };
    Err(SqlError::new(ErrorKind::Syntax, message).code("54001").hint("WITH gives parts of a query names"))
}

/// How deep steps in and out lead.
fn deepest(steps: &mut dyn Iterator<Item = isize>) -> usize {
    let (mut depth, mut deepest) = (0_isize, 0);
    for step in steps {
        depth = (depth + step).max(0);
        deepest = deepest.max(depth);
    }
    deepest as usize
}

/// How often the parser reads the innermost query at most: one in `n` brackets may be a table that is joined within
/// each of them, which it finds out by trying.
fn readings(tokens: &[Token]) -> usize {
    let (mut open, mut run, mut most) = (Vec::new(), 0, 1_usize);
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
        match token {
            Token::LParen => {
                open.push(1);
                run += 1;
                continue;
            }
            Token::RParen => {
                open.pop();
            }
            Token::Word(word) if matches!(word.keyword, Keyword::SELECT | Keyword::WITH) && run > 0 => {
                if let Some(innermost) = open.last_mut() {
                    *innermost = run;
                }
                most = most.max(open.iter().fold(1, |product, run| product.saturating_mul(*run)));
            }
            _ => {}
        }
        run = 0;
    }
    most
}

/// The tokens of a text with options that the parser knows in other words or in another order; `None`: it has none.
fn retold(sql: &str, dialect: &Syntax) -> Result<Option<Vec<TokenWithSpan>>> {
    let has = |word: &[u8]| sql.as_bytes().windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
    let (is_copy, has_identity) = (has(b"copy"), has(b"identity"));
    if !is_copy && !has_identity {
        return Ok(None);
    }
    let mut tokens = Tokenizer::new(dialect, sql).tokenize_with_location().map_err(ParserError::from)?;
    if is_copy {
        spell_booleans_of_copy(&mut tokens);
    }
    Ok(Some(if has_identity { identity::in_order(tokens) } else { tokens }))
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

/// An identifier as the catalog spells it: lower case unless quoted.
pub fn name_of(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
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
                let hint = format!("this database is called saki, not {database}");
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
