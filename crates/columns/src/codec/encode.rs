//! From native columns to arrays of the library, without NULLs.
//!
//! What stands in the place of a NULL is ours to choose: the value before it, which costs least in every encoding
//! of numbers, and the empty string.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{
    Array, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, Int64Array, PrimitiveArray, StringViewArray,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_schema::DataType as ArrowType;
use saki_base::{DataType, Interval};
use saki_vector::Column;
use saki_vector::form::{self, TextDictionary};
use vortex_array::IntoArray;
use vortex_array::arrays::{BoolArray, PrimitiveArray as VortexPrimitive, StructArray};
use vortex_array::dtype::NativePType;
use vortex_array::validity::Validity;
use vortex_arrow::convert::from_arrow_byte_view;
use vortex_error::VortexResult;

use super::blob::Shape;
use super::dictionary::dictionary;
use crate::ColumnsError;

type VortexArray = vortex_array::ArrayRef;

/// Names of the halves of a value of 16 bytes.
pub const LIMBS: [&str; 2] = ["high", "low"];

/// The values of a column in the library's form: not encoded, but for text that may as well keep its dictionary.
pub fn values(column: &Column, data_type: DataType) -> Result<(Shape, VortexArray), ColumnsError> {
    let array = column.array();
    let unexpected = || ColumnsError::Internal(format!("a column of {data_type} as {}", array.data_type()));
    let plain = match (data_type, array.data_type()) {
        (DataType::Bool, ArrowType::Boolean) => booleans(array.as_boolean()),
        (DataType::Int2, ArrowType::Int16) => numbers::<Int16Type>(array.as_primitive()),
        (DataType::Int4, ArrowType::Int32) => numbers::<Int32Type>(array.as_primitive()),
        (DataType::Int8 | DataType::Enum(_), ArrowType::Int64) => numbers::<Int64Type>(array.as_primitive()),
        (DataType::Float4, ArrowType::Float32) => numbers::<Float32Type>(array.as_primitive()),
        (DataType::Float8, ArrowType::Float64) => numbers::<Float64Type>(array.as_primitive()),
        (DataType::Date, ArrowType::Date32) => numbers::<Date32Type>(array.as_primitive()),
        (DataType::Timestamp | DataType::Timestamptz, ArrowType::Timestamp(arrow_schema::TimeUnit::Microsecond, _)) => {
            numbers::<TimestampMicrosecondType>(array.as_primitive())
        }
        (DataType::Time, ArrowType::Time64(arrow_schema::TimeUnit::Microsecond)) => {
            numbers::<Time64MicrosecondType>(array.as_primitive())
        }
        (DataType::Interval, ArrowType::Interval(arrow_schema::IntervalUnit::MonthDayNano)) => {
            return intervals(array.as_primitive()).map_err(failed);
        }
        (DataType::Decimal { .. }, ArrowType::Int64) => numbers::<Int64Type>(array.as_primitive()),
        (DataType::Decimal { .. }, ArrowType::Decimal128(..)) => {
            return decimals(array.as_primitive()).map_err(failed);
        }
        (
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb,
            ArrowType::Utf8View | ArrowType::Dictionary(..),
        ) => {
            if let Some(array) = array.as_any().downcast_ref::<TextDictionary>()
                && let Some(dictionary) = dictionary(array).map_err(failed)?
            {
                return Ok((Shape::Plain, dictionary.into_array()));
            }
            let views = form::text_views(column).map_err(|error| ColumnsError::Internal(error.to_string()))?;
            text(views.as_string_view()).map_err(failed)?
        }
        (DataType::Bytea | DataType::Array(_), ArrowType::BinaryView) => {
            binary(array.as_binary_view()).map_err(failed)?
        }
        (DataType::Uuid, ArrowType::FixedSizeBinary(16)) => return uuids(array.as_fixed_size_binary()).map_err(failed),
        _ => return Err(unexpected()),
    };
    Ok((Shape::Plain, plain))
}

fn failed(error: vortex_error::VortexError) -> ColumnsError {
    ColumnsError::Internal(format!("cannot encode: {error}"))
}

fn booleans(array: &BooleanArray) -> VortexArray {
    let bits = match array.nulls() {
        Some(nulls) => array.values() & nulls.inner(),
        None => array.values().clone(),
    };
    BoolArray::new(bits.into(), Validity::NonNullable).into_array()
}

fn numbers<T: ArrowPrimitiveType<Native: NativePType>>(array: &PrimitiveArray<T>) -> VortexArray {
    of_native(filled(array.values(), array.nulls()))
}

fn of_native<T: NativePType + ArrowNativeType>(values: ScalarBuffer<T>) -> VortexArray {
    let values = vortex_buffer::Buffer::from_arrow_scalar_buffer(values);
    VortexPrimitive::new(values, Validity::NonNullable).into_array()
}

/// The values, with the value before in the place of a NULL; before the first value, that one.
fn filled<T: ArrowNativeType>(values: &ScalarBuffer<T>, nulls: Option<&NullBuffer>) -> ScalarBuffer<T> {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return values.clone() };
    let mut last = nulls.valid_indices().next().map_or(T::default(), |first| values[first]);
    let fill = |(value, valid): (&T, bool)| {
        if valid {
            last = *value;
        }
        last
    };
    values.iter().zip(nulls.iter()).map(fill).collect::<Vec<T>>().into()
}

/// Decimals: 8 bytes if all fit, whatever the precision.
fn decimals(array: &PrimitiveArray<Decimal128Type>) -> VortexResult<(Shape, VortexArray)> {
    let values = filled(array.values(), array.nulls());
    let narrow: Option<Vec<i64>> = values.iter().map(|value| i64::try_from(*value).ok()).collect();
    match narrow {
        Some(narrow) => Ok((Shape::Plain, numbers(&Int64Array::from(narrow)))),
        None => two_limbs(
            values.iter().map(|value| (value >> 64) as i64).collect(),
            values.iter().map(|value| *value as u64).collect(),
        ),
    }
}

/// The halves of a uuid in its order of bytes.
fn uuids(array: &FixedSizeBinaryArray) -> VortexResult<(Shape, VortexArray)> {
    let mut last = [0; 16];
    let mut halves = (Vec::with_capacity(array.len()), Vec::with_capacity(array.len()));
    for value in array.iter() {
        if let Some(value) = value.and_then(|value| value.first_chunk::<16>()) {
            last = *value;
        }
        let whole = i128::from_be_bytes(last);
        halves.0.push((whole >> 64) as i64);
        halves.1.push(whole as u64);
    }
    two_limbs(halves.0, halves.1)
}

/// Months over days, and microseconds.
fn intervals(array: &PrimitiveArray<IntervalMonthDayNanoType>) -> VortexResult<(Shape, VortexArray)> {
    let values = filled(array.values(), array.nulls());
    let values = values.iter().map(|of| Interval::of_nanos(of.months, of.days, of.nanoseconds));
    let (high, low) = values
        .map(|of| (i64::from(of.months) << 32 | i64::from(of.days.cast_unsigned()), of.micros.cast_unsigned()))
        .unzip();
    two_limbs(high, low)
}

fn two_limbs(high: Vec<i64>, low: Vec<u64>) -> VortexResult<(Shape, VortexArray)> {
    let limbs = [of_native::<i64>(high.into()), of_native::<u64>(low.into())];
    let array = StructArray::try_from_iter(LIMBS.into_iter().zip(limbs))?;
    Ok((Shape::TwoLimbs, array.into_array()))
}

fn text(array: &StringViewArray) -> VortexResult<VortexArray> {
    if array.null_count() == 0 {
        return from_arrow_byte_view(array, false);
    }
    from_arrow_byte_view(&StringViewArray::from_iter_values(array.iter().map(Option::unwrap_or_default)), false)
}

fn binary(array: &BinaryViewArray) -> VortexResult<VortexArray> {
    if array.null_count() == 0 {
        return from_arrow_byte_view(array, false);
    }
    from_arrow_byte_view(&BinaryViewArray::from_iter_values(array.iter().map(Option::unwrap_or_default)), false)
}
