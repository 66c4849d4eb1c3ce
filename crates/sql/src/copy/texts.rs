//! Columns that a file gets as texts: JSON; labels; intervals, as Parquet has none with microseconds; and times in CSV,
//! which may be 24:00.

use std::sync::Arc;

use arrow::compute::cast;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use saki_base::{DataType as Stored, ValueRef, display};
use saki_catalog::Result;
use saki_postgres::FileFormat;

/// The type of values that a file gets as texts.
fn spelled(of: &DataType, format: FileFormat) -> Option<Stored> {
    match of {
        DataType::LargeBinary => Some(Stored::Json),
        DataType::LargeUtf8 => Some(Stored::Jsonb),
        DataType::Interval(_) | DataType::Duration(_) => Some(Stored::Interval),
        DataType::Time64(_) if matches!(format, FileFormat::Csv) => Some(Stored::Time),
        other => saki_exec::enumeration(other).map(Stored::Enum),
    }
}

/// The columns that a file gets.
pub fn file_schema(schema: &SchemaRef, format: FileFormat) -> SchemaRef {
    let field = |field: &Arc<Field>| match spelled(field.data_type(), format) {
        Some(_) => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        None => Arc::clone(field),
    };
    let fields: Fields = schema.fields().iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Rows of a query as a file gets them; `schema` is the [`file_schema`].
///
/// # Errors
/// Of the casts.
pub fn with_texts(batch: &RecordBatch, schema: &SchemaRef, format: FileFormat) -> Result<RecordBatch> {
    if !batch.columns().iter().any(|array| spelled(array.data_type(), format).is_some()) {
        return Ok(batch.clone());
    }
    let column = |array: &ArrayRef| match spelled(array.data_type(), format) {
        Some(stored) => text(array, stored),
        None => Ok(Arc::clone(array)),
    };
    let columns = batch.columns().iter().map(column).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn text(array: &ArrayRef, stored: Stored) -> Result<ArrayRef> {
    if matches!(stored, Stored::Json | Stored::Jsonb) {
        return Ok(cast(array, &DataType::Utf8)?);
    }
    let values = cast(array, &saki_exec::arrow_type(stored))?;
    let text = |row| match saki_exec::array_value(&values, stored, row) {
        None | Some(ValueRef::Null) => None,
        Some(value) => Some(display(value, stored).to_string()),
    };
    Ok(Arc::new((0..values.len()).map(text).collect::<StringArray>()))
}
