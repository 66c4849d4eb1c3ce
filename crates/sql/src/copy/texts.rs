//! Columns of JSON in files: texts.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use saki_catalog::Result;

fn is_json(of: &DataType) -> bool {
    matches!(of, DataType::LargeUtf8 | DataType::LargeBinary)
}

/// The columns of a file.
pub fn schema_of_texts(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| is_json(field.data_type())) {
        return Arc::clone(schema);
    }
    let text = |field: &Arc<Field>| match is_json(field.data_type()) {
        true => field.as_ref().clone().with_data_type(DataType::Utf8),
        false => field.as_ref().clone(),
    };
    Arc::new(Schema::new(schema.fields().iter().map(text).collect::<Vec<_>>()))
}

/// Rows of a file.
///
/// # Errors
/// Of the cast.
pub fn texts(batch: &RecordBatch) -> Result<RecordBatch> {
    if !batch.columns().iter().any(|column| is_json(column.data_type())) {
        return Ok(batch.clone());
    }
    let text = |column: &ArrayRef| match is_json(column.data_type()) {
        true => arrow::compute::cast(column, &DataType::Utf8),
        false => Ok(Arc::clone(column)),
    };
    let columns = batch.columns().iter().map(text).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(schema_of_texts(&batch.schema()), columns)?)
}
