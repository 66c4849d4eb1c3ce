//! What a table's hidden columns are made of, as conditions of queries have it.

use datafusion::common::{DFSchema, TableReference};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::ExprSchemable;
use saki_catalog::{Hidden, Result, Table};
use saki_plan::HiddenKey;
use saki_postgres::dialect::simplified;

/// The hidden columns that queries may be told of. One whose expression is of another type than the column, as some
/// texts are to the planner, keeps values unique and is read by nobody; so is one that cannot be planned, of which rows
/// that are written tell.
pub fn keys(state: &SessionState, table: &Table) -> Vec<HiddenKey> {
    let told = |(column, hidden)| key(state, table, column, hidden).ok().flatten();
    table.filled().filter_map(told).collect()
}

fn key(state: &SessionState, table: &Table, column: usize, hidden: &Hidden) -> Result<Option<HiddenKey>> {
    let schema = DFSchema::try_from_qualified_schema(TableReference::bare(table.bare_name()), &table.schema())?;
    let key = simplified(state, &hidden.key, &schema)?;
    if key.get_type(&schema)? != *table.stored_schema().field(column).data_type() {
        return Ok(None);
    }
    let predicate = hidden.predicate.as_ref().map(|predicate| simplified(state, predicate, &schema)).transpose()?;
    Ok(Some(HiddenKey::new(column, &key, predicate.as_ref())?))
}
