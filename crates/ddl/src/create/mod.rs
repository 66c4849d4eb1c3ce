//! Tables, indexes, views, sequences and types that come to be.

pub mod column;
pub mod constraint;
mod enumeration;
mod external;
pub mod index;
pub mod sequence;
mod table;
mod table_as;
mod view;

use datafusion::sql::sqlparser::ast;

pub use self::enumeration::{create_type, label, lock_type, refuse_full, refuse_taken};
pub use self::external::create_external_table;
pub use self::index::create_index;
pub use self::sequence::create_sequence;
pub use self::table::check_expressions;
pub use self::view::create_view;
use saki_catalog::{Result, SqlError};
use saki_context::StatementContext;
use saki_context::statement::StatementResult;
use saki_parameters::is_temporary;
use saki_postgres::{NewTableAs, RelationName};

/// CREATE TABLE, with columns of its own or those of a query.
pub async fn create_table(cx: &StatementContext<'_>, create: &ast::CreateTable) -> Result<StatementResult> {
    if create.on_commit.is_some() && !is_temporary(&RelationName::read(&create.name)?.schema) {
        return Err(SqlError::invalid("ON COMMIT can only be used on temporary tables").code("42P16"));
    }
    match &create.query {
        Some(query) => table_as::create_table_as(cx, NewTableAs::read(create, query)?).await,
        None => table::create_table(cx, create).await,
    }
}
