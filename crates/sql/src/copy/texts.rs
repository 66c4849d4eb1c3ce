//! Values as texts, for files: all of them in formats of texts, as a client gets them; and for Parquet those that it
//! has no type for, JSON, labels and intervals.

use std::fmt::Write;
use std::sync::Arc;

use arrow::compute::cast;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use saki_base::{DataType as Stored, ValueRef, display};
use saki_catalog::Result;
use saki_parameters::TimeStyle;
use saki_postgres::types::stored_as;

/// A column of a batch, to be spelled by a session's styles.
pub struct Texts<'a> {
    values: ArrayRef,
    /// `None`: `values` are texts.
    stored: Option<Stored>,
    style: &'a TimeStyle,
}

impl<'a> Texts<'a> {
    /// # Errors
    /// Of the casts.
    pub fn of(column: &ArrayRef, style: &'a TimeStyle) -> Result<Self> {
        let stored = type_of(column.data_type());
        let values = match stored {
            Some(stored) => cast(column, &saki_exec::arrow_type(stored))?,
            None => cast(column, &DataType::Utf8)?,
        };
        Ok(Self { values, stored, style })
    }

    /// Appends the text of a row's value; `false`: it is NULL.
    pub fn append(&self, row: usize, out: &mut String) -> bool {
        let stored = self.stored.unwrap_or(Stored::Text);
        // Writing to a string cannot fail.
        let _ = match saki_exec::array_value(&self.values, stored, row) {
            None | Some(ValueRef::Null) => return false,
            Some(ValueRef::Date(days)) => self.style.write_date(days, out),
            Some(ValueRef::Timestamp(micros)) => self.style.write_timestamp(micros, out),
            Some(ValueRef::Timestamptz(micros)) => self.style.write_timestamptz(micros, out),
            Some(ValueRef::Interval(of)) => self.style.write_interval(of.months, of.days, of.micros, out),
            Some(value) => write!(out, "{}", display(value, stored)),
        };
        true
    }
}

/// The type of values of an Arrow type.
fn type_of(arrow: &DataType) -> Option<Stored> {
    match arrow {
        DataType::LargeBinary => Some(Stored::Json),
        DataType::LargeUtf8 => Some(Stored::Jsonb),
        DataType::Interval(_) | DataType::Duration(_) => Some(Stored::Interval),
        other => saki_exec::enumeration(other).map(Stored::Enum).or_else(|| stored_as(other)),
    }
}

/// The type of values that Parquet gets as texts.
fn spelled(of: &DataType) -> Option<Stored> {
    type_of(of).filter(|of| matches!(of, Stored::Json | Stored::Jsonb | Stored::Interval | Stored::Enum(_)))
}

/// The columns that a Parquet file gets.
pub fn file_schema(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &Arc<Field>| match spelled(field.data_type()) {
        Some(_) => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        None => Arc::clone(field),
    };
    let fields: Fields = schema.fields().iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Rows of a query as a Parquet file gets them; `schema` is the [`file_schema`].
///
/// # Errors
/// Of the casts.
pub fn with_texts(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if !batch.columns().iter().any(|array| spelled(array.data_type()).is_some()) {
        return Ok(batch.clone());
    }
    let style = TimeStyle::default();
    let column = |array: &ArrayRef| match spelled(array.data_type()) {
        Some(_) => texts(&Texts::of(array, &style)?),
        None => Ok(Arc::clone(array)),
    };
    let columns = batch.columns().iter().map(column).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn texts(column: &Texts<'_>) -> Result<ArrayRef> {
    let text = |row| {
        let mut text = String::new();
        column.append(row, &mut text).then_some(text)
    };
    Ok(Arc::new((0..column.values.len()).map(text).collect::<StringArray>()))
}
