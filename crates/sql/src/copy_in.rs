//! COPY … FROM STDIN: batches that a client sends, as rows of a table.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use saki_base::Column;

use crate::error::{Result, SqlError};
use crate::session::Session;

/// What a COPY fills, in the order in which a row has them.
#[derive(Clone, Debug)]
pub struct CopyTarget {
    pub table: String,
    pub columns: Vec<Column>,
    /// Batches have this.
    pub schema: SchemaRef,
}

impl Session {
    /// The columns that `COPY table (columns)` fills; all of the table's if none are named.
    ///
    /// # Errors
    /// If the table, or a column, is not there.
    pub fn copy_target(&self, table: &str, columns: &[String]) -> Result<CopyTarget> {
        let (definition, places) = self.copy_places(table, columns)?;
        let columns: Vec<Column> = places.iter().map(|place| definition.columns[*place].clone()).collect();
        let field = |column: &Column| Field::new(&column.name, saki_exec::arrow_type(column.data_type), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        Ok(CopyTarget { table: table.to_owned(), columns, schema })
    }

    /// Adds `batches`, of the schema of [`Self::copy_target`], to a table: all of them or, if the stream ends with an
    /// error or is dropped, none. The number of rows.
    pub fn copy_in<'a>(
        &'a self,
        table: &'a str,
        columns: &'a [String],
        batches: BoxStream<'static, Result<arrow_array::RecordBatch>>,
    ) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move {
            let (definition, places) = self.copy_places(table, columns)?;
            let schema = self.copy_target(table, columns)?.schema;
            let batches = batches.map_err(datafusion::common::DataFusionError::from).boxed();
            let stream = Box::pin(RecordBatchStreamAdapter::new(schema, batches));
            self.write_stream(stream, definition, places).await
        })
    }

    /// A table, and the places of columns in it.
    fn copy_places(&self, table: &str, columns: &[String]) -> Result<(Arc<crate::catalog::Table>, Vec<usize>)> {
        let definition = self.stored_table(table)?;
        let missing = |name: &String| {
            SqlError::invalid(format!("column {name:?} of relation {table:?} does not exist")).code("42703")
        };
        let places: Vec<usize> = match columns.is_empty() {
            true => (0..definition.columns.len()).collect(),
            false => columns
                .iter()
                .map(|name| definition.column(name).ok_or_else(|| missing(name)))
                .collect::<Result<_>>()?,
        };
        Ok((definition, places))
    }
}
