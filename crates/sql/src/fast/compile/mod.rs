//! Recognises fast statements.

mod change;
mod compiler;
mod condition;
mod expr;
mod join;
mod select;
mod subquery;

use datafusion::sql::sqlparser::ast;

pub use self::change::has_unique_index_on;
use self::compiler::With;
use super::plan::FastPlan;
use saki_catalog::Catalog;

impl FastPlan {
    /// Compiles a statement whose parameters have these types, as far as the client says; `None` if it has to go the
    /// ordinary way, where errors are found as well.
    pub fn compile(statement: &ast::Statement, catalog: &Catalog, with: With<'_>) -> Option<Self> {
        match statement {
            ast::Statement::Query(query) => select::compile(query, catalog, with),
            ast::Statement::Update(update) => change::compile_update(update, catalog, with),
            ast::Statement::Delete(delete) => change::compile_delete(delete, catalog, with),
            ast::Statement::Insert(insert) => change::compile_insert(insert, catalog, with),
            _ => None,
        }
    }
}
