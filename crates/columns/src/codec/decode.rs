//! From arrays of the library to native columns.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryArray, PrimitiveArray, new_null_array};
use arrow_buffer::{BooleanBuffer, IntervalMonthDayNano, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType as ArrowType, IntervalUnit, TimeUnit};
use saki_base::types::DECIMAL_PRECISION_MAX;
use saki_base::{DataType, Interval};
use saki_vector::Column;
use vortex_array::ExecutionCtx;
use vortex_array::arrays::struct_::StructArrayExt;
use vortex_array::arrays::{BoolArray, PrimitiveArray as VortexPrimitive, Struct};
use vortex_array::dtype::{DType, FieldNames, NativePType, Nullability, PType, StructFields};
use vortex_error::{VortexResult, vortex_bail, vortex_err};

use super::blob::Shape;
use super::encode::LIMBS;
use super::text;

type VortexArray = vortex_array::ArrayRef;

/// The library's type of the values of a column.
pub fn dtype(data_type: DataType, shape: Shape) -> VortexResult<DType> {
    let number = |number| DType::Primitive(number, Nullability::NonNullable);
    Ok(match (data_type, shape) {
        (DataType::Bool, Shape::Plain) => DType::Bool(Nullability::NonNullable),
        (DataType::Int2, Shape::Plain) => number(PType::I16),
        (DataType::Int4 | DataType::Date, Shape::Plain) => number(PType::I32),
        (
            DataType::Int8
            | DataType::Timestamp
            | DataType::Timestamptz
            | DataType::Time
            | DataType::Enum(_)
            | DataType::Decimal { .. },
            Shape::Plain,
        ) => number(PType::I64),
        (DataType::Float4, Shape::Plain) => number(PType::F32),
        (DataType::Float8, Shape::Plain) => number(PType::F64),
        (
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb,
            Shape::Plain,
        ) => DType::Utf8(Nullability::NonNullable),
        (DataType::Bytea | DataType::Array(_), Shape::Plain) => DType::Binary(Nullability::NonNullable),
        (DataType::Decimal { .. } | DataType::Interval | DataType::Uuid, Shape::TwoLimbs) => {
            let fields = StructFields::new(FieldNames::from(LIMBS), vec![number(PType::I64), number(PType::U64)]);
            DType::Struct(fields, Nullability::NonNullable)
        }
        _ => vortex_bail!("a column of {data_type} is not encoded as {shape:?}"),
    })
}

/// A column without a value.
pub fn no_values(data_type: DataType, rows: usize) -> Column {
    let utc = || Some("UTC".into());
    Column::new(new_null_array(
        &match data_type {
            DataType::Bool => ArrowType::Boolean,
            DataType::Int2 => ArrowType::Int16,
            DataType::Int4 => ArrowType::Int32,
            DataType::Int8 | DataType::Enum(_) | DataType::Decimal { .. } => ArrowType::Int64,
            DataType::Float4 => ArrowType::Float32,
            DataType::Float8 => ArrowType::Float64,
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
                ArrowType::Utf8View
            }
            DataType::Bytea | DataType::Array(_) => ArrowType::BinaryView,
            DataType::Date => ArrowType::Date32,
            DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Timestamptz => ArrowType::Timestamp(TimeUnit::Microsecond, utc()),
            DataType::Time => ArrowType::Time64(TimeUnit::Microsecond),
            DataType::Interval => ArrowType::Interval(IntervalUnit::MonthDayNano),
            DataType::Uuid => ArrowType::FixedSizeBinary(16),
        },
        rows,
    ))
}

/// The native column of encoded values.
pub fn column(
    values: VortexArray,
    data_type: DataType,
    nulls: Option<NullBuffer>,
    context: &mut ExecutionCtx,
) -> VortexResult<Column> {
    let array: ArrayRef = match data_type {
        DataType::Bool => {
            let bits = values.execute::<BoolArray>(context)?.into_bit_buffer();
            Arc::new(BooleanArray::new(BooleanBuffer::from(bits), nulls))
        }
        DataType::Int2 => Arc::new(numbers::<Int16Type>(values, nulls, context)?),
        DataType::Int4 => Arc::new(numbers::<Int32Type>(values, nulls, context)?),
        DataType::Int8 | DataType::Enum(_) => Arc::new(numbers::<Int64Type>(values, nulls, context)?),
        DataType::Float4 => Arc::new(numbers::<Float32Type>(values, nulls, context)?),
        DataType::Float8 => Arc::new(numbers::<Float64Type>(values, nulls, context)?),
        DataType::Date => Arc::new(numbers::<Date32Type>(values, nulls, context)?),
        DataType::Timestamp => Arc::new(numbers::<TimestampMicrosecondType>(values, nulls, context)?),
        DataType::Timestamptz => {
            Arc::new(numbers::<TimestampMicrosecondType>(values, nulls, context)?.with_timezone("UTC"))
        }
        DataType::Decimal { scale, .. } if values.is::<Struct>() => {
            Arc::new(wide_decimals(&values, scale, nulls, context)?)
        }
        DataType::Decimal { .. } => Arc::new(numbers::<Int64Type>(values, nulls, context)?),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            text::text(values, nulls, context)?
        }
        DataType::Bytea | DataType::Array(_) => text::binary(values, nulls, context)?,
        DataType::Time => Arc::new(numbers::<Time64MicrosecondType>(values, nulls, context)?),
        DataType::Interval => Arc::new(intervals(&values, nulls, context)?),
        DataType::Uuid => Arc::new(uuids(&values, nulls, context)?),
    };
    Ok(Column::new(array))
}

fn numbers<T: ArrowPrimitiveType<Native: NativePType>>(
    values: VortexArray,
    nulls: Option<NullBuffer>,
    context: &mut ExecutionCtx,
) -> VortexResult<PrimitiveArray<T>> {
    Ok(PrimitiveArray::new(natives::<T::Native>(values, context)?, nulls))
}

fn natives<T: NativePType + arrow_buffer::ArrowNativeType>(
    values: VortexArray,
    context: &mut ExecutionCtx,
) -> VortexResult<ScalarBuffer<T>> {
    Ok(values.execute::<VortexPrimitive>(context)?.into_buffer::<T>().into_arrow_scalar_buffer())
}

fn limbs(values: &VortexArray, context: &mut ExecutionCtx) -> VortexResult<(ScalarBuffer<i64>, ScalarBuffer<u64>)> {
    let limbs = values.as_opt::<Struct>().ok_or_else(|| vortex_err!("two halves are not there"))?;
    let high = natives::<i64>(limbs.unmasked_field(0).clone(), context)?;
    let low = natives::<u64>(limbs.unmasked_field(1).clone(), context)?;
    Ok((high, low))
}

fn wide_decimals(
    values: &VortexArray,
    scale: u8,
    nulls: Option<NullBuffer>,
    context: &mut ExecutionCtx,
) -> VortexResult<Decimal128Array> {
    let (high, low) = limbs(values, context)?;
    let whole = |(high, low): (&i64, &u64)| (i128::from(*high) << 64) | i128::from(*low);
    let values: Vec<i128> = high.iter().zip(low.iter()).map(whole).collect();
    Decimal128Array::new(values.into(), nulls)
        .with_precision_and_scale(DECIMAL_PRECISION_MAX, scale as i8)
        .map_err(|error| vortex_err!("{error}"))
}

fn intervals(
    values: &VortexArray,
    nulls: Option<NullBuffer>,
    context: &mut ExecutionCtx,
) -> VortexResult<PrimitiveArray<IntervalMonthDayNanoType>> {
    let (high, low) = limbs(values, context)?;
    let whole = |(high, low): (&i64, &u64)| {
        let of = Interval { months: (high >> 32) as i32, days: *high as i32, micros: low.cast_signed() };
        IntervalMonthDayNano::new(of.months, of.days, of.nanos())
    };
    let values: Vec<IntervalMonthDayNano> = high.iter().zip(low.iter()).map(whole).collect();
    Ok(PrimitiveArray::new(values.into(), nulls))
}

fn uuids(
    values: &VortexArray,
    nulls: Option<NullBuffer>,
    context: &mut ExecutionCtx,
) -> VortexResult<FixedSizeBinaryArray> {
    let (high, low) = limbs(values, context)?;
    let mut bytes = Vec::with_capacity(high.len() * 16);
    for (high, low) in high.iter().zip(low.iter()) {
        bytes.extend_from_slice(&high.to_be_bytes());
        bytes.extend_from_slice(&low.to_be_bytes());
    }
    FixedSizeBinaryArray::try_new(16, bytes.into(), nulls).map_err(|error| vortex_err!("{error}"))
}
