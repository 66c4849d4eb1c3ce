//! Tables, indexes, views and sequences that come to be.

pub mod column;
pub mod constraint;
mod external;
mod index;
pub mod sequence;
mod table;
mod table_as;
mod view;

use datafusion::sql::sqlparser::ast;

pub use self::external::create_external_table;
pub use self::index::create_index;
pub use self::sequence::create_sequence;
pub use self::table::check_expressions;
pub use self::view::create_view;
use saki_catalog::Result;
use saki_context::StatementContext;
use saki_context::statement::StatementResult;
use saki_postgres::NewTableAs;

/// CREATE TABLE, with columns of its own or those of a query.
pub async fn create_table(cx: &StatementContext<'_>, create: &ast::CreateTable) -> Result<StatementResult> {
    match &create.query {
        Some(query) => table_as::create_table_as(cx, NewTableAs::read(create, query)?).await,
        None => table::create_table(cx, create).await,
    }
}
