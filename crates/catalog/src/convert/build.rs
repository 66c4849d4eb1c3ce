//! Values of one type as an Arrow array.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder, Float32Builder,
    Float64Builder, Int16Builder, Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, LargeBinaryBuilder,
    LargeStringBuilder, StringBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder, TimestampSecondBuilder,
};
use arrow_array::{ArrayRef, new_null_array};
use saki_base::{DataType, Value};

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
        DataType::Enum(_) => {
            let builder = TimestampSecondBuilder::new().with_data_type(saki_exec::arrow_type(data_type));
            build!(builder, values, Value::Int8(v) => *v)
        }
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
        DataType::Array(element) => {
            let arrays = values.iter().map(|value| match value {
                Value::Bytea(bytes) => Some(bytes.as_slice()),
                _ => None,
            });
            let lists = saki_exec::lists::decode(element, arrays);
            lists.map_or_else(
                |_| new_null_array(&saki_exec::arrow_type(data_type), values.len()),
                |it| Arc::new(it) as _,
            )
        }
        DataType::Json => build!(LargeBinaryBuilder::new(), values, Value::Text(v) => v),
        DataType::Jsonb => build!(LargeStringBuilder::new(), values, Value::Text(v) => v),
        DataType::Date => build!(Date32Builder::new(), values, Value::Date(v) => *v),
        DataType::Timestamp => build!(TimestampMicrosecondBuilder::new(), values, Value::Timestamp(v) => *v),
        DataType::Timestamptz => {
            let builder = TimestampMicrosecondBuilder::new().with_data_type(saki_exec::arrow_type(data_type));
            build!(builder, values, Value::Timestamptz(v) => *v)
        }
        DataType::Time => build!(Time64MicrosecondBuilder::new(), values, Value::Time(v) => *v),
        DataType::Interval => {
            build!(IntervalMonthDayNanoBuilder::new(), values, Value::Interval(v) => saki_exec::arrow_interval(*v))
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
