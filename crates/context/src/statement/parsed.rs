//! Texts cut into statements.

use datafusion::sql::parser::Statement;

use saki_catalog::Result;
use saki_postgres::statement;

/// A statement that was read and not run yet.
#[derive(Clone, Debug)]
pub struct Parsed(pub Statement);

/// Cuts a text into statements.
///
/// # Errors
/// `Syntax`, with the position.
pub fn parse(sql: &str) -> Result<Vec<Parsed>> {
    Ok(statement::parse(sql)?.into_iter().map(Parsed).collect())
}
