//! When constraints are checked: `SET CONSTRAINTS`, read as the call of a procedure, and `ALTER CONSTRAINT` among the
//! actions of ALTER TABLE, read as a foreign key of no columns that is added.

use datafusion::sql::sqlparser::ast::{
    self, AlterTableOperation, Expr, ForeignKeyConstraint, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, ObjectNamePart, Statement, TableConstraint, Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::function::function;
use saki_catalog::{Result, SqlError};

type Parsed<T> = std::result::Result<T, ParserError>;

/// The procedure's name, which no other has.
const PROCEDURE: &str = "set constraints";

/// What a SET CONSTRAINTS says.
#[derive(Debug)]
pub struct SetConstraints {
    /// `None`: of all.
    pub names: Option<Vec<ObjectName>>,
    pub deferred: bool,
}

impl SetConstraints {
    /// Whether a statement is one.
    pub fn is(statement: &Function) -> bool {
        matches!(&statement.name.0[..], [ObjectNamePart::Identifier(name)] if name.value == PROCEDURE)
    }

    /// What a statement says, if it is one.
    ///
    /// # Errors
    /// For what SET CONSTRAINTS is not read as.
    pub fn read(statement: &Function) -> Result<Option<Self>> {
        let FunctionArguments::List(list) = &statement.args else { return Ok(None) };
        if !Self::is(statement) {
            return Ok(None);
        }
        let (mut names, mut deferred) = (Vec::new(), false);
        for argument in &list.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts))) => {
                    names.push(ObjectName::from(parts.clone()));
                }
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => {
                    deferred = value.value == Value::Boolean(true);
                }
                _ => return Err(SqlError::unsupported("SET CONSTRAINTS takes names of constraints")),
            }
        }
        Ok(Some(Self { names: (!names.is_empty()).then_some(names), deferred }))
    }
}

/// Reads one of the statements, if it is one.
pub fn parse(parser: &mut Parser<'_>) -> Parsed<Option<Statement>> {
    let is_assigned = || matches!(&parser.peek_nth_token(2).token, Token::Eq) || is_word(parser, 2, "to");
    if is_word(parser, 0, "set") && is_word(parser, 1, "constraints") && !is_assigned() {
        return set_constraints(parser).map(Some);
    }
    if is_word(parser, 0, "alter") && is_word(parser, 1, "table") && alters_constraint(parser) {
        return alter_table(parser).map(Some);
    }
    Ok(None)
}

fn set_constraints(parser: &mut Parser<'_>) -> Parsed<Statement> {
    parser.next_token();
    parser.next_token();
    let mut arguments = match parser.parse_keyword(Keyword::ALL) {
        true => Vec::new(),
        false => parser.parse_comma_separated(|parser| {
            let name = parser.parse_object_name(false)?;
            let parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
            Ok(Expr::CompoundIdentifier(parts))
        })?,
    };
    let deferred = match parser.parse_one_of_keywords(&[Keyword::DEFERRED, Keyword::IMMEDIATE]) {
        Some(keyword) => keyword == Keyword::DEFERRED,
        None => return parser.expected("DEFERRED or IMMEDIATE", parser.peek_token()),
    };
    arguments.push(Expr::Value(Value::Boolean(deferred).into()));
    Ok(Statement::Call(function(Ident::with_quote('"', PROCEDURE), arguments)))
}

/// Whether ALTER CONSTRAINT stands before the end of the statement: neither word can be a name without quotes there.
fn alters_constraint(parser: &Parser<'_>) -> bool {
    let mut offset = 2;
    loop {
        match parser.peek_nth_token(offset).token {
            Token::EOF | Token::SemiColon => return false,
            _ if is_word(parser, offset, "alter") && is_word(parser, offset + 1, "constraint") => return true,
            _ => offset += 1,
        }
    }
}

fn alter_table(parser: &mut Parser<'_>) -> Parsed<Statement> {
    parser.expect_keywords(&[Keyword::ALTER, Keyword::TABLE])?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let only = parser.parse_keyword(Keyword::ONLY);
    let name = parser.parse_object_name(false)?;
    let operations =
        parser.parse_comma_separated(|parser| match parser.parse_keywords(&[Keyword::ALTER, Keyword::CONSTRAINT]) {
            true => alter_constraint(parser, &name),
            false => parser.parse_alter_table_operation(),
        })?;
    Ok(Statement::AlterTable(ast::AlterTable {
        name,
        if_exists,
        only,
        operations,
        location: None,
        on_cluster: None,
        table_type: None,
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
    }))
}

/// What it names is resolved like a table that is referred to, so that is the table itself.
fn alter_constraint(parser: &mut Parser<'_>, table: &ObjectName) -> Parsed<AlterTableOperation> {
    let name = Some(parser.parse_identifier()?);
    let key = ForeignKeyConstraint {
        name,
        index_name: None,
        columns: Vec::new(),
        foreign_table: table.clone(),
        referred_columns: Vec::new(),
        on_delete: None,
        on_update: None,
        match_kind: None,
        characteristics: parser.parse_constraint_characteristics()?,
    };
    Ok(AlterTableOperation::AddConstraint { constraint: TableConstraint::ForeignKey(key), not_valid: false })
}

fn is_word(parser: &Parser<'_>, offset: usize, text: &str) -> bool {
    matches!(parser.peek_nth_token(offset).token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::Statement as Read;

    use super::*;
    use crate::fixture::{check, code};

    fn read(sql: &str) -> String {
        let set = crate::parse(sql).and_then(|mut statements| match statements.pop() {
            Some(Read::Statement(statement)) => match *statement {
                Statement::Call(function) => SetConstraints::read(&function),
                _ => Ok(None),
            },
            _ => Ok(None),
        });
        match set {
            Ok(Some(SetConstraints { names, deferred })) => {
                let names = names.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
                format!("{} {}", names.unwrap_or("all".to_owned()), if deferred { "later" } else { "now" })
            }
            Ok(None) => "something else".to_owned(),
            Err(error) => code(&error),
        }
    }

    #[test]
    fn constraints_are_set_all_or_by_name() {
        check(
            &[
                ("SET CONSTRAINTS ALL DEFERRED", "all later"),
                ("set constraints all immediate", "all now"),
                ("SET CONSTRAINTS a, s.b, \"C\" IMMEDIATE", "a, s.b, \"C\" now"),
                ("SET CONSTRAINTS \"public\".\"k\" IMMEDIATE", "\"public\".\"k\" now"),
                ("SET CONSTRAINTS ALL", "42601"),
                ("SET CONSTRAINTS a b DEFERRED", "42601 at 1:19"),
                ("SET CONSTRAINTS", "42601"),
                ("SET constraints TO 1", "something else"),
                ("SET constraints = 1", "something else"),
                ("LOCK TABLE t", "something else"),
            ],
            read,
        );
    }

    #[test]
    fn constraints_are_altered_beside_other_actions() {
        check(
            &[
                (
                    "ALTER TABLE IF EXISTS ONLY s.t ALTER CONSTRAINT k DEFERRABLE, ADD COLUMN a int",
                    "ALTER TABLE IF EXISTS ONLY s.t ADD CONSTRAINT k FOREIGN KEY () REFERENCES s.t DEFERRABLE, \
                     ADD COLUMN a INT",
                ),
                ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", "ALTER TABLE t ALTER COLUMN a SET NOT NULL"),
                ("ALTER TABLE t ALTER CONSTRAINT", "42601"),
                ("ALTER TABLE t ALTER CONSTRAINT k NOT VALID", "42601 at 1:34"),
            ],
            crate::fixture::read,
        );
    }
}
