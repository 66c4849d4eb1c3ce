//! The values of a native column, one by one: for checks and tests. Operators work on whole columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayAccessor};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{DataType as ArrowType, IntervalUnit, TimeUnit};
use saki_base::{DataType, Interval, ValueRef};
use saki_vector::{Column, form};

use crate::ColumnsError;

/// Calls `look` with every value of a column in any native form of `data_type`, in order.
pub fn for_each_value(
    column: &Column,
    data_type: DataType,
    mut look: impl FnMut(ValueRef<'_>),
) -> Result<(), ColumnsError> {
    fn each<'a, A: ArrayAccessor>(array: A, value: fn(A::Item) -> ValueRef<'a>, look: &mut impl FnMut(ValueRef<'_>)) {
        for row in 0..array.len() {
            look(if array.is_null(row) { ValueRef::Null } else { value(array.value(row)) });
        }
    }
    let array = column.array();
    let look = &mut look;
    match (data_type, array.data_type()) {
        (DataType::Bool, ArrowType::Boolean) => each(array.as_boolean(), ValueRef::Bool, look),
        (DataType::Int2, ArrowType::Int16) => each(array.as_primitive::<Int16Type>(), ValueRef::Int2, look),
        (DataType::Int4, ArrowType::Int32) => each(array.as_primitive::<Int32Type>(), ValueRef::Int4, look),
        (DataType::Int8 | DataType::Enum(_), ArrowType::Int64) => {
            each(array.as_primitive::<Int64Type>(), ValueRef::Int8, look)
        }
        (DataType::Float4, ArrowType::Float32) => each(array.as_primitive::<Float32Type>(), ValueRef::Float4, look),
        (DataType::Float8, ArrowType::Float64) => each(array.as_primitive::<Float64Type>(), ValueRef::Float8, look),
        (DataType::Decimal { .. }, ArrowType::Int64) => {
            each(array.as_primitive::<Int64Type>(), |value| ValueRef::Decimal(value.into()), look);
        }
        (DataType::Decimal { .. }, ArrowType::Decimal128(..)) => {
            each(array.as_primitive::<Decimal128Type>(), ValueRef::Decimal, look);
        }
        (DataType::Date, ArrowType::Date32) => each(array.as_primitive::<Date32Type>(), ValueRef::Date, look),
        (DataType::Timestamp, ArrowType::Timestamp(..)) => {
            each(array.as_primitive::<TimestampMicrosecondType>(), ValueRef::Timestamp, look);
        }
        (DataType::Timestamptz, ArrowType::Timestamp(..)) => {
            each(array.as_primitive::<TimestampMicrosecondType>(), ValueRef::Timestamptz, look);
        }
        (DataType::Time, ArrowType::Time64(TimeUnit::Microsecond)) => {
            each(array.as_primitive::<Time64MicrosecondType>(), ValueRef::Time, look);
        }
        (DataType::Interval, ArrowType::Interval(IntervalUnit::MonthDayNano)) => {
            let interval =
                |of: IntervalMonthDayNano| ValueRef::Interval(Interval::of_nanos(of.months, of.days, of.nanoseconds));
            each(array.as_primitive::<IntervalMonthDayNanoType>(), interval, look);
        }
        (
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb,
            ArrowType::Utf8View | ArrowType::Dictionary(..),
        ) => {
            let views = form::text_views(column).map_err(|error| ColumnsError::Internal(error.to_string()))?;
            each(views.as_string_view(), ValueRef::Text, look);
        }
        (DataType::Bytea | DataType::Array(_), ArrowType::BinaryView) => {
            each(array.as_binary_view(), ValueRef::Bytea, look)
        }
        (DataType::Uuid, ArrowType::FixedSizeBinary(16)) => {
            let uuid = |bytes: &[u8]| ValueRef::Uuid(bytes.try_into().unwrap_or_default());
            each(array.as_fixed_size_binary(), uuid, look);
        }
        (expected, found) => return Err(ColumnsError::Internal(format!("{found} is no native form of {expected}"))),
    }
    Ok(())
}
