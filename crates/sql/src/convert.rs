//! Batches of any source as batches of a table: the table's columns in order, with its Arrow types.

use std::sync::Arc;

use arrow::compute::{CastOptions, cast_with_options};
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder, Float32Builder,
    Float64Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_schema::DataType as Arrow;
use saki_base::{Column, DataType, ParseReason, Value};

use crate::catalog::Table;
use crate::dialect;
use crate::error::{Result, SqlError};

/// A batch whose column `i` is table column `columns[i]`, as a batch of the whole table; columns that are not named are NULL.
pub fn conform(batch: &RecordBatch, table: &Table, columns: &[usize], first_row: u64) -> Result<RecordBatch> {
    let schema = table.schema();
    let mut arrays = Vec::with_capacity(table.columns.len());
    for (position, column) in table.columns.iter().enumerate() {
        let target = schema.field(position).data_type();
        arrays.push(match columns.iter().position(|named| *named == position) {
            Some(source) => convert(batch.column(source), column, target, first_row)?,
            None => new_null_array(target, batch.num_rows()),
        });
    }
    // Nullability is checked where rows are written, with the row's number.
    let fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    Ok(RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), arrays)?)
}

fn convert(array: &ArrayRef, column: &Column, target: &Arrow, first_row: u64) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    let text = matches!(array.data_type(), Arrow::Utf8 | Arrow::Utf8View | Arrow::LargeUtf8);
    if text && *target != Arrow::Utf8 {
        let texts = cast_with_options(array, &Arrow::Utf8, &CastOptions::default())?;
        let texts = texts.as_string::<i32>();
        let value = |row: usize| texts.is_valid(row).then(|| texts.value(row));
        return parse_column(column, (0..texts.len()).map(value), |row| format!("row {}", first_row + row as u64));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let whole = if target.is_integer() { dialect::to_whole(array)? } else { Arc::clone(array) };
    cast_with_options(&whole, target, &options).map_err(|error| {
        let SqlError { message, code, .. } = SqlError::from(error);
        let message = format!("column {:?} of type {}: {message}", column.name, column.data_type);
        SqlError { code, ..SqlError::data(message) }
    })
}

/// An array of a column's type from its texts; `place` names a row for messages.
pub fn parse_column<'t>(
    column: &Column,
    texts: impl Iterator<Item = Option<&'t str>>,
    place: impl Fn(usize) -> String,
) -> Result<ArrayRef> {
    let mut values = Vec::new();
    for (row, text) in texts.enumerate() {
        values.push(match text {
            None => Value::Null,
            Some(text) => Value::parse(column.data_type, text).map_err(|error| {
                let message = format!("{}, column {:?}: {error}", place(row), column.name);
                SqlError::data(message).code(condition(&error.reason))
            })?,
        });
    }
    Ok(array_of(column.data_type, &values))
}

/// The SQLSTATE of text that is no value.
fn condition(reason: &ParseReason) -> &'static str {
    match reason {
        ParseReason::Syntax { .. } => "22P02",
        ParseReason::OutOfRange | ParseReason::NumericOverflow { .. } => "22003",
        ParseReason::FieldOutOfRange { .. } => "22008",
        ParseReason::TooLong { .. } => "22001",
        ParseReason::ZeroCharacter => "22021",
    }
}

macro_rules! build {
    ($builder:expr, $values:expr, $pattern:pat => $value:expr) => {{
        let mut builder = $builder;
        for value in $values {
            match value {
                $pattern => builder.append_value($value),
                _ => builder.append_null(),
            }
        }
        Arc::new(builder.finish()) as ArrayRef
    }};
}

/// An array of values of one type; a value of another type counts as NULL.
pub fn array_of(data_type: DataType, values: &[Value]) -> ArrayRef {
    match data_type {
        DataType::Bool => build!(BooleanBuilder::new(), values, Value::Bool(v) => *v),
        DataType::Int2 => build!(Int16Builder::new(), values, Value::Int2(v) => *v),
        DataType::Int4 => build!(Int32Builder::new(), values, Value::Int4(v) => *v),
        DataType::Int8 => build!(Int64Builder::new(), values, Value::Int8(v) => *v),
        DataType::Float4 => build!(Float32Builder::new(), values, Value::Float4(v) => *v),
        DataType::Float8 => build!(Float64Builder::new(), values, Value::Float8(v) => *v),
        DataType::Decimal { .. } => {
            let builder = Decimal128Builder::new().with_data_type(saki_exec::arrow_type(data_type));
            build!(builder, values, Value::Decimal(v) => *v)
        }
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => {
            build!(StringBuilder::new(), values, Value::Text(v) => v)
        }
        DataType::Bytea => build!(BinaryBuilder::new(), values, Value::Bytea(v) => v),
        DataType::Date => build!(Date32Builder::new(), values, Value::Date(v) => *v),
        DataType::Timestamp => build!(TimestampMicrosecondBuilder::new(), values, Value::Timestamp(v) => *v),
        DataType::Timestamptz => {
            let builder = TimestampMicrosecondBuilder::new().with_data_type(saki_exec::arrow_type(data_type));
            build!(builder, values, Value::Timestamptz(v) => *v)
        }
        DataType::Uuid => {
            let mut builder = FixedSizeBinaryBuilder::new(16);
            for value in values {
                match value {
                    Value::Uuid(v) => builder.append_value(v).expect("a uuid has 16 bytes"),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
    }
}
