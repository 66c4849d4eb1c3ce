//! LOCK [TABLE] [ONLY] name [*] [, …] [IN mode MODE] [NOWAIT]: read as the call of a procedure.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Statement,
    Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::function::function;
use saki_catalog::{Result, SqlError};
use saki_store::locks::{LockMode, Policy};

type Parsed<T> = std::result::Result<T, ParserError>;

/// The procedure's name, which no other has.
const PROCEDURE: &str = "lock table";

/// What a LOCK TABLE asks for.
#[derive(Debug)]
pub struct LockTable {
    pub tables: Vec<ObjectName>,
    pub mode: LockMode,
    pub policy: Policy,
}

impl LockTable {
    /// What a statement asks for, if it is one.
    ///
    /// # Errors
    /// For what LOCK TABLE is not read as.
    pub fn read(statement: &Function) -> Result<Option<Self>> {
        let is_lock = matches!(&statement.name.0[..], [ObjectNamePart::Identifier(name)] if name.value == PROCEDURE);
        let FunctionArguments::List(list) = &statement.args else { return Ok(None) };
        if !is_lock {
            return Ok(None);
        }
        let (mut tables, mut mode, mut policy) = (Vec::new(), LockMode::AccessExclusive, Policy::Wait);
        for argument in &list.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts))) => {
                    tables.push(ObjectName::from(parts.clone()));
                }
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
                    Value::SingleQuotedString(text) => mode = mode_of(text)?,
                    _ => policy = Policy::Now,
                },
                _ => return Err(SqlError::unsupported("LOCK TABLE takes names of tables")),
            }
        }
        Ok(Some(Self { tables, mode, policy }))
    }
}

fn mode_of(text: &str) -> Result<LockMode> {
    LockMode::ALL
        .into_iter()
        .find(|mode| mode.to_string() == text)
        .ok_or_else(|| SqlError::invalid(format!("{text:?} is no mode of a lock")).code("42601"))
}

/// Reads the statement; the next word is LOCK.
pub fn parse(parser: &mut Parser<'_>) -> Parsed<Statement> {
    parser.next_token();
    let _table = parser.parse_keyword(Keyword::TABLE);
    let mut arguments = parser.parse_comma_separated(|parser| {
        let _only = parser.parse_keyword(Keyword::ONLY);
        let name = parser.parse_object_name(false)?;
        let _descendants = parser.consume_token(&Token::Mul);
        let parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
        Ok(Expr::CompoundIdentifier(parts))
    })?;
    if parser.parse_keyword(Keyword::IN) {
        let text = mode_words(parser)?;
        arguments.push(Expr::Value(Value::SingleQuotedString(text).into()));
    }
    if is_word(parser, "nowait") {
        parser.next_token();
        arguments.push(Expr::Value(Value::Boolean(true).into()));
    }
    Ok(Statement::Call(function(Ident::with_quote('"', PROCEDURE), arguments)))
}

/// The words of a mode, up to MODE.
fn mode_words(parser: &mut Parser<'_>) -> Parsed<String> {
    let first = parser.peek_token();
    let mut words = Vec::new();
    while let Token::Word(word) = parser.peek_token().token {
        parser.next_token();
        if word.value.eq_ignore_ascii_case("mode") {
            let text = words.join(" ");
            return match LockMode::ALL.iter().any(|mode| mode.to_string() == text) {
                true => Ok(text),
                false => parser.expected("a mode of locking", first),
            };
        }
        words.push(word.value.to_uppercase());
    }
    parser.expected("MODE", parser.peek_token())
}

fn is_word(parser: &Parser<'_>, text: &str) -> bool {
    matches!(parser.peek_token().token, Token::Word(word) if word.value.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::Statement as Read;

    use super::*;
    use crate::fixture::{check, code};

    fn read(sql: &str) -> String {
        let lock = crate::parse(sql).and_then(|mut statements| match statements.pop() {
            Some(Read::Statement(statement)) => match *statement {
                Statement::Call(function) => LockTable::read(&function),
                _ => Ok(None),
            },
            _ => Ok(None),
        });
        match lock {
            Ok(Some(LockTable { tables, mode, policy })) => {
                let names: Vec<_> = tables.iter().map(ToString::to_string).collect();
                format!("{} {mode} {policy:?}", names.join(", "))
            }
            Ok(None) => "something else".to_owned(),
            Err(error) => code(&error),
        }
    }

    #[test]
    fn locks_are_asked_for_as_in_postgres() {
        check(
            &[
                ("LOCK TABLE t", "t ACCESS EXCLUSIVE Wait"),
                ("lock t, only s.u *, \"V\" in row exclusive mode", "t, s.u, \"V\" ROW EXCLUSIVE Wait"),
                ("LOCK t IN ACCESS SHARE MODE NOWAIT", "t ACCESS SHARE Now"),
                ("LOCK t NOWAIT", "t ACCESS EXCLUSIVE Now"),
                ("LOCK t IN SHARE UPDATE EXCLUSIVE MODE", "t SHARE UPDATE EXCLUSIVE Wait"),
                ("LOCK t IN NO SUCH MODE", "42601 at 1:11"),
                ("LOCK t IN SHARE", "42601"),
                ("LOCK", "42601"),
                ("CHECKPOINT", "something else"),
            ],
            read,
        );
    }
}
