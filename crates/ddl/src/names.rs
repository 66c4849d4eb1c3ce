//! Names and expressions as the catalog keeps them and statements spell them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, ArrayElemTypeDef, Expr, TypedString};
use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;

use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::transaction::Locked;
use saki_postgres::RelationName;
use saki_postgres::statement::sequence::drawn_from;
use saki_postgres::statement::walk::{walk_expressions, walk_expressions_mut};
use saki_postgres::statement::{parse_relation, quoted};
use saki_postgres::types::enumeration;
use saki_store::locks::{LockMode, Policy};

/// Refuses the name of a file that this session calls a table.
pub fn refuse_external(cx: &StatementContext<'_>, name: &RelationName) -> Result<()> {
    match cx.planner.names.is_external(&name.name) {
        true => Err(taken(&name.name).at(name.position)),
        false => Ok(()),
    }
}

/// Has nobody else change what a table is, for as long as what this returns lives or, within a transaction, until its
/// end; for what is no change of its rows or of how they are stored.
///
/// # Errors
/// As [`saki_context::transaction::SessionTransactions::lock_tables`].
pub async fn hold_definition(cx: &StatementContext<'_>, table: Option<String>) -> Result<Locked> {
    let wanted: Vec<_> = table.into_iter().map(|table| (table, LockMode::ShareUpdateExclusive)).collect();
    cx.transactions.lock_tables(&wanted, Policy::Wait).await
}

pub fn taken(name: &str) -> SqlError {
    SqlError::invalid(format!("relation {name:?} already exists")).code("42P07")
}

/// An expression as the catalog keeps it: a name needs no cast to `regclass`, and a label none to its enumeration. So
/// no kept expression names an enumeration, whose name and state change.
///
/// # Errors
/// 0A000 for anything else that is cast to one.
pub fn stored_expression(expression: &Expr) -> Result<Expr> {
    let stored = stored(expression);
    let found = walk_expressions(&stored, |node: &Expr| match node {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })
            if is_enumeration(data_type) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Continue(()) => Ok(stored),
        ControlFlow::Break(()) => {
            let message = "DEFAULT, CHECK and indexes cannot cast to an enumeration what is not a label in quotes";
            Err(SqlError::unsupported(message))
        }
    }
}

/// Its text.
///
/// # Errors
/// As [`stored_expression`].
pub fn stored_text(expression: &Expr) -> Result<String> {
    stored_expression(expression).map(|expression| expression.to_string())
}

/// The sequence that a default draws from, if it does nothing else.
pub fn sequence_drawn(default: &Expr) -> Option<String> {
    parse_relation(drawn_from(&stored(default))?).ok().map(|sequence| sequence.name)
}

/// A name as expressions that the catalog keeps have it: quoted only if it could mean another otherwise, or a word.
pub fn spelled_name(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && name.starts_with(|first: char| !first.is_ascii_digit());
    let is_word = || ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str()).is_ok();
    if is_plain && !is_word() { name.to_owned() } else { quoted(name) }
}

fn is_enumeration(data_type: &ast::DataType) -> bool {
    match data_type {
        ast::DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => is_enumeration(element),
        ast::DataType::Custom(name, _) => enumeration(name).is_some(),
        _ => false,
    }
}

/// Whether a text is said to be a label, as it is said to be beside what it stands for.
fn is_label(expr: &Expr, data_type: &ast::DataType) -> bool {
    let is_text = |value: &ast::ValueWithSpan| matches!(value.value, ast::Value::SingleQuotedString(_));
    matches!(expr, Expr::Value(value) if is_text(value)) && is_enumeration(data_type)
}

fn stored(expression: &Expr) -> Expr {
    let mut expression = expression.clone();
    let _ = walk_expressions_mut(&mut expression, |node: &mut Expr| {
        if let Expr::Cast { expr, data_type, .. } = node
            && (data_type.to_string().eq_ignore_ascii_case("regclass") || is_label(expr, data_type))
        {
            *node = expr.as_ref().clone();
        }
        ControlFlow::<()>::Continue(())
    });
    expression
}

/// A relation's name as a statement has to spell it.
pub fn quoted_relation(schema: &str, bare: &str) -> String {
    format!("{}.{}", quoted(schema), quoted(bare))
}
