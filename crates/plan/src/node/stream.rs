//! Streams of native batches, and the change of form at the edges.

use std::pin::Pin;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};
use saki_catalog::InPlan;
use saki_vector::{Batch, form};

/// Batches of one partition in native form. Nothing happens before it is polled; dropping it stops its work.
pub type NativeStream = Pin<Box<dyn Stream<Item = Result<Batch>> + Send>>;

/// A node's batches as record batches of exactly `schema`.
pub fn surface_stream(batches: NativeStream, schema: SchemaRef) -> SendableRecordBatchStream {
    let target = Arc::clone(&schema);
    let records = batches.map(move |batch| record_batch(&batch?, &target));
    Box::pin(RecordBatchStreamAdapter::new(schema, records))
}

/// Record batches in native form.
pub fn from_surface(records: SendableRecordBatchStream) -> NativeStream {
    Box::pin(records.map(|record| native_batch(&record?)))
}

/// Rows as a record batch of exactly `schema`.
pub fn record_batch(batch: &Batch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns.iter().zip(schema.fields());
    let arrays = columns.map(|(column, field)| form::to_surface(column, field.data_type()));
    let arrays: Vec<ArrayRef> = arrays.collect::<saki_vector::Result<_>>().in_plan()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

fn native_batch(record: &RecordBatch) -> Result<Batch> {
    let columns = record.columns().iter().map(form::from_surface).collect::<saki_vector::Result<_>>().in_plan()?;
    Ok(Batch::new(columns, record.num_rows()))
}
