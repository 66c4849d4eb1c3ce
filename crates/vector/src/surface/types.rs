//! The Arrow types of SQL types, and single values of arrays of these.

use arrow_array::Array;
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{DataType as ArrowType, Field, IntervalUnit, TimeUnit};
use saki_base::{DataType, Element, Interval, ValueRef};

use super::labels::{enumeration, labels_type};

/// The Arrow type in which a column's values leave the engine.
pub fn arrow_type(data_type: DataType) -> ArrowType {
    match data_type {
        DataType::Bool => ArrowType::Boolean,
        DataType::Int2 => ArrowType::Int16,
        DataType::Int4 => ArrowType::Int32,
        DataType::Int8 => ArrowType::Int64,
        DataType::Float4 => ArrowType::Float32,
        DataType::Float8 => ArrowType::Float64,
        DataType::Decimal { precision, scale } => ArrowType::Decimal128(precision, scale as i8),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => ArrowType::Utf8,
        DataType::Bytea => ArrowType::Binary,
        DataType::Date => ArrowType::Date32,
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamptz => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Time => ArrowType::Time64(TimeUnit::Microsecond),
        DataType::Interval => ArrowType::Interval(IntervalUnit::MonthDayNano),
        DataType::Uuid => ArrowType::FixedSizeBinary(16),
        // Types of their own in plans, so that no operator takes them for texts or bytes; both hold text.
        DataType::Json => ArrowType::LargeBinary,
        DataType::Jsonb => ArrowType::LargeUtf8,
        DataType::Enum(of) => labels_type(of),
        DataType::Array(element) => list_type(element),
    }
}

/// The type of arrays of elements.
pub fn list_type(element: Element) -> ArrowType {
    ArrowType::List(Field::new_list_field(arrow_type(element.data_type()), true).into())
}

/// The SQL type whose values are of an Arrow type, the widest of several; `None`: no column's are.
pub fn data_type(arrow: &ArrowType) -> Option<DataType> {
    Some(match arrow {
        ArrowType::Boolean => DataType::Bool,
        ArrowType::Int16 => DataType::Int2,
        ArrowType::Int32 => DataType::Int4,
        ArrowType::Int64 => DataType::Int8,
        ArrowType::Float32 => DataType::Float4,
        ArrowType::Float64 => DataType::Float8,
        ArrowType::Decimal128(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        ArrowType::Utf8 | ArrowType::Utf8View => DataType::Text,
        ArrowType::Binary | ArrowType::BinaryView => DataType::Bytea,
        ArrowType::Date32 => DataType::Date,
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => DataType::Timestamp,
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(_)) => DataType::Timestamptz,
        ArrowType::Time64(TimeUnit::Microsecond) => DataType::Time,
        ArrowType::Interval(IntervalUnit::MonthDayNano) => DataType::Interval,
        ArrowType::FixedSizeBinary(16) => DataType::Uuid,
        ArrowType::LargeBinary => DataType::Json,
        ArrowType::LargeUtf8 => DataType::Jsonb,
        ArrowType::List(field) => DataType::Array(Element::new(data_type(field.data_type())?)?),
        labels => DataType::Enum(enumeration(labels)?),
    })
}

/// An interval as Arrow has it.
pub fn arrow_interval(interval: Interval) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(interval.months, interval.days, interval.nanos())
}

/// An interval of Arrow's.
pub fn interval(of: IntervalMonthDayNano) -> Interval {
    Interval::of_nanos(of.months, of.days, of.nanoseconds)
}

/// The value of an Arrow array at a row, if its type is one that [`arrow_type`] gives
/// (any string or binary layout is taken).
pub fn array_value(array: &dyn Array, data_type: DataType, row: usize) -> Option<ValueRef<'_>> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::*;
    if array.is_null(row) {
        return Some(ValueRef::Null);
    }
    Some(match (data_type, array.data_type()) {
        (DataType::Bool, ArrowType::Boolean) => ValueRef::Bool(array.as_boolean().value(row)),
        (DataType::Int2, ArrowType::Int16) => ValueRef::Int2(array.as_primitive::<Int16Type>().value(row)),
        (DataType::Int4, ArrowType::Int32) => ValueRef::Int4(array.as_primitive::<Int32Type>().value(row)),
        (DataType::Int8, ArrowType::Int64) => ValueRef::Int8(array.as_primitive::<Int64Type>().value(row)),
        (DataType::Enum(_), ArrowType::Timestamp(TimeUnit::Second, Some(_))) => {
            ValueRef::Int8(array.as_primitive::<TimestampSecondType>().value(row))
        }
        (DataType::Float4, ArrowType::Float32) => ValueRef::Float4(array.as_primitive::<Float32Type>().value(row)),
        (DataType::Float8, ArrowType::Float64) => ValueRef::Float8(array.as_primitive::<Float64Type>().value(row)),
        (DataType::Decimal { scale, .. }, ArrowType::Decimal128(_, found)) if i16::from(*found) == i16::from(scale) => {
            ValueRef::Decimal(array.as_primitive::<Decimal128Type>().value(row))
        }
        (DataType::Date, ArrowType::Date32) => ValueRef::Date(array.as_primitive::<Date32Type>().value(row)),
        (DataType::Timestamp, ArrowType::Timestamp(TimeUnit::Microsecond, None)) => {
            ValueRef::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        (DataType::Timestamptz, ArrowType::Timestamp(TimeUnit::Microsecond, Some(_))) => {
            ValueRef::Timestamptz(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        (DataType::Time, ArrowType::Time64(TimeUnit::Microsecond)) => {
            ValueRef::Time(array.as_primitive::<Time64MicrosecondType>().value(row))
        }
        (DataType::Interval, ArrowType::Interval(IntervalUnit::MonthDayNano)) => {
            ValueRef::Interval(interval(array.as_primitive::<IntervalMonthDayNanoType>().value(row)))
        }
        (DataType::Uuid, ArrowType::FixedSizeBinary(16)) => {
            ValueRef::Uuid(array.as_fixed_size_binary().value(row).try_into().ok()?)
        }
        (DataType::Bytea | DataType::Array(_), ArrowType::Binary) => {
            ValueRef::Bytea(array.as_binary::<i32>().value(row))
        }
        (DataType::Bytea | DataType::Array(_), ArrowType::LargeBinary) => {
            ValueRef::Bytea(array.as_binary::<i64>().value(row))
        }
        (DataType::Bytea | DataType::Array(_), ArrowType::BinaryView) => {
            ValueRef::Bytea(array.as_binary_view().value(row))
        }
        (DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb, text) => {
            ValueRef::Text(match text {
                ArrowType::Utf8 => array.as_string::<i32>().value(row),
                ArrowType::LargeUtf8 => array.as_string::<i64>().value(row),
                ArrowType::Utf8View => array.as_string_view().value(row),
                ArrowType::LargeBinary => std::str::from_utf8(array.as_binary::<i64>().value(row)).ok()?,
                _ => return None,
            })
        }
        _ => return None,
    })
}
