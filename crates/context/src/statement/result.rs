//! What a statement gives: rows, or how many it concerned.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use saki_catalog::Result;

/// What a statement gave.
pub enum StatementResult {
    /// A query's rows, produced as the stream is polled.
    Rows { schema: SchemaRef, stream: SendableRecordBatchStream },
    /// The command's name, and how many rows it concerned.
    Done { tag: String, rows: u64 },
    /// A command that was asked to say something of the rows it concerned.
    Returning { tag: String, rows: u64, batch: RecordBatch },
}

impl StatementResult {
    pub fn done(tag: impl Into<String>, rows: u64) -> Self {
        Self::Done { tag: tag.into(), rows }
    }

    pub fn returning(tag: impl Into<String>, rows: u64, batch: RecordBatch) -> Self {
        Self::Returning { tag: tag.into(), rows, batch }
    }

    /// Rows that are there already.
    pub fn of_batch(schema: SchemaRef, batch: RecordBatch) -> Self {
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&schema), futures::stream::iter([Ok(batch)]));
        Self::Rows { schema, stream: Box::pin(stream) }
    }

    /// All rows at once; none for commands.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        let mut stream = match self {
            Self::Rows { stream, .. } => stream,
            Self::Returning { batch, .. } => return Ok(vec![batch]),
            Self::Done { .. } => return Ok(Vec::new()),
        };
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

/// A result made of text: names of columns, and their values.
pub fn rows(columns: &[(&str, Vec<String>)]) -> Result<StatementResult> {
    let fields: Vec<Field> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.iter().map(|(_, values)| Arc::new(StringArray::from_iter_values(values)) as ArrayRef);
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays.collect())?;
    Ok(StatementResult::of_batch(schema, batch))
}
