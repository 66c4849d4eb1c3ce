//! COPY … FROM STDIN: batches that a client sends, as rows of a table.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use saki_base::Column;

use crate::dml::write_stream;
use saki_catalog::{Result, SqlError, Table};
use saki_context::StatementContext;
use saki_context::access::expect_insert;

/// What a COPY fills, in the order in which a row has them.
#[derive(Clone, Debug)]
pub struct CopyTarget {
    pub table: String,
    pub columns: Vec<Column>,
    /// Batches have this.
    pub schema: SchemaRef,
}

impl CopyTarget {
    /// The columns that `COPY table (columns)` fills; all of the table's if none are named.
    ///
    /// # Errors
    /// If the table, or a column, is not there.
    pub fn new(cx: &StatementContext<'_>, table: &str, columns: &[String]) -> Result<Self> {
        let definition = cx.stored_table(table)?;
        expect_insert(cx, table, columns)?;
        Ok(Self::of(table, &definition, &places(&definition, table, columns)?))
    }

    fn of(name: &str, table: &Table, places: &[usize]) -> Self {
        let columns: Vec<Column> = places.iter().map(|place| table.columns[*place].clone()).collect();
        let field = |column: &Column| Field::new(&column.name, saki_exec::arrow_type(column.data_type), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        Self { table: name.to_owned(), columns, schema }
    }
}

/// Refuses COPY … FREEZE into a table that others may have seen.
///
/// # Errors
/// 55000 then; 42P01.
pub async fn expect_fresh(cx: &StatementContext<'_>, table: &str) -> Result<()> {
    let table = cx.stored_table(table)?.id;
    match cx.transactions.lock().await.is_fresh(table) {
        true => Ok(()),
        false => Err(SqlError::invalid(
            "cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction",
        )
        .code("55000")),
    }
}

/// Adds `batches`, of the schema of a [`CopyTarget`], to a table: all of them or, if the stream ends with an error or
/// is dropped, none. The number of rows.
pub async fn from_client(
    cx: &StatementContext<'_>,
    table: &str,
    columns: &[String],
    batches: BoxStream<'static, Result<RecordBatch>>,
) -> Result<u64> {
    let definition = cx.stored_table(table)?;
    expect_insert(cx, table, columns)?;
    let places = places(&definition, table, columns)?;
    let schema = CopyTarget::of(table, &definition, &places).schema;
    let batches = batches.map_err(DataFusionError::from).boxed();
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema, batches));
    write_stream(cx, stream, definition, places).await
}

/// The places of columns in a table.
fn places(definition: &Table, table: &str, columns: &[String]) -> Result<Vec<usize>> {
    if columns.is_empty() {
        return Ok((0..definition.width()).collect());
    }
    let missing = |name: &String| {
        SqlError::invalid(format!("column {name:?} of relation {table:?} does not exist")).code("42703")
    };
    columns.iter().map(|name| definition.column(name).ok_or_else(|| missing(name))).collect()
}
