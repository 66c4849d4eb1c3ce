//! Whether a statement is about the system at all: one look at it, which ends at the first sign.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, ObjectName, Statement, TableFactor, Visit, Visitor,
};

use super::super::functions::{self, UNNESTED};
use super::super::{definition, schema};
use super::{function_name, references, words};
use crate::statement::name_of;

pub fn is_about_system(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_) | Statement::Explain { .. } | Statement::CreateTable(_) | Statement::Insert(_)
    ) && Visit::visit(statement, &mut Signs).is_break()
}

/// Names of functions whose calls are a sign.
static FUNCTIONS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| functions::names().chain(UNNESTED.iter().map(|(name, _)| *name)).collect());

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
            [.., schema, _] => schema::NAMES.contains(&schema.as_str()),
            [] => false,
        })
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        sign(match factor {
            TableFactor::Table { with_ordinality, .. }
            | TableFactor::Function { with_ordinality, .. }
            | TableFactor::UNNEST { with_ordinality, .. } => *with_ordinality,
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
