//! What an expression works on: a column, or one constant for all rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, StringViewArray, UInt16Array, new_null_array,
};
use arrow_array::{
    Date32Array, Decimal128Array, IntervalMonthDayNanoArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow_buffer::{BooleanBuffer, IntervalMonthDayNano, NullBuffer};
use arrow_schema::{DataType, TimeUnit};
use saki_base::value::Value;

use crate::form::TextDictionary;
use crate::{Bounds, Column, Result, VectorError};

/// The values of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    /// Every row has this value.
    Constant(Value),
    Column(Column),
}

impl Operand {
    /// A column of `rows` rows of the logical type `data_type`.
    pub fn into_column(self, data_type: &DataType, rows: usize) -> Result<Column> {
        match self {
            Self::Column(column) => Ok(column),
            Self::Constant(value) => constant(&value, data_type, rows),
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Constant(Value::Null))
    }

    /// Which rows are not NULL; `None`: all of them. A constant NULL is the caller's to see.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Self::Constant(_) => None,
            Self::Column(column) => column.array().nulls(),
        }
    }
}

/// The one value in every row.
pub(crate) fn constant(value: &Value, data_type: &DataType, rows: usize) -> Result<Column> {
    let bounds = |value: i64| Bounds { min: value, max: value };
    let mismatch = || VectorError::internal(format!("{value:?} is no {data_type}"));
    Ok(match value {
        Value::Null => Column::new(nulls(data_type, rows)),
        Value::Bool(value) => {
            let bits = if *value { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) };
            Column::new(Arc::new(BooleanArray::new(bits, None)))
        }
        Value::Int2(value) => {
            Column::with_bounds(Arc::new(Int16Array::from_value(*value, rows)), bounds(i64::from(*value)))
        }
        Value::Int4(value) => {
            Column::with_bounds(Arc::new(Int32Array::from_value(*value, rows)), bounds(i64::from(*value)))
        }
        Value::Int8(value) => Column::with_bounds(Arc::new(Int64Array::from_value(*value, rows)), bounds(*value)),
        Value::Float4(value) => Column::new(Arc::new(Float32Array::from_value(*value, rows))),
        Value::Float8(value) => Column::new(Arc::new(Float64Array::from_value(*value, rows))),
        Value::Decimal(value) => {
            let DataType::Decimal128(precision, scale) = data_type else { return Err(mismatch()) };
            match i64::try_from(*value) {
                Ok(value) => Column::with_bounds(Arc::new(Int64Array::from_value(value, rows)), bounds(value)),
                Err(_) => Column::new(Arc::new(
                    Decimal128Array::from_value(*value, rows).with_precision_and_scale(*precision, *scale)?,
                )),
            }
        }
        Value::Text(value) => {
            let values = StringViewArray::from_iter_values([value]);
            Column::new(Arc::new(TextDictionary::try_new(UInt16Array::from_value(0, rows), Arc::new(values))?))
        }
        Value::Bytea(value) => {
            Column::new(Arc::new(BinaryViewArray::from_iter_values(std::iter::repeat_n(value, rows))))
        }
        Value::Date(value) => {
            Column::with_bounds(Arc::new(Date32Array::from_value(*value, rows)), bounds(i64::from(*value)))
        }
        Value::Timestamp(value) | Value::Timestamptz(value) => {
            let DataType::Timestamp(TimeUnit::Microsecond, zone) = data_type else { return Err(mismatch()) };
            let array = TimestampMicrosecondArray::from_value(*value, rows).with_timezone_opt(zone.clone());
            Column::new(Arc::new(array))
        }
        Value::Time(value) => {
            let DataType::Time64(TimeUnit::Microsecond) = data_type else { return Err(mismatch()) };
            Column::new(Arc::new(Time64MicrosecondArray::from_value(*value, rows)))
        }
        Value::Interval(value) => {
            let value = IntervalMonthDayNano::new(value.months, value.days, value.nanos());
            Column::new(Arc::new(IntervalMonthDayNanoArray::from_value(value, rows)))
        }
        Value::Uuid(value) => {
            let values = std::iter::repeat_n(*value, rows);
            if rows == 0 {
                return Ok(Column::new(nulls(data_type, 0)));
            }
            Column::new(Arc::new(FixedSizeBinaryArray::try_from_iter(values)?))
        }
    })
}

/// NULL in every row, in a native form of the logical type.
pub(crate) fn nulls(data_type: &DataType, rows: usize) -> ArrayRef {
    new_null_array(
        match data_type {
            DataType::Decimal128(..) | DataType::Timestamp(TimeUnit::Second, _) => &DataType::Int64,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::LargeBinary => &DataType::Utf8View,
            DataType::Binary => &DataType::BinaryView,
            other => other,
        },
        rows,
    )
}

/// The integers of an array: numbers, days, microseconds or unscaled decimals.
#[derive(Clone, Copy)]
pub(crate) enum Integers<'a> {
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    I128(&'a [i128]),
}

impl<'a> Integers<'a> {
    /// `None`: the array is not of integers.
    pub fn of(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Int16 => Self::I16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Self::I32(array.as_primitive::<Int32Type>().values()),
            DataType::Date32 => Self::I32(array.as_primitive::<Date32Type>().values()),
            DataType::Int64 => Self::I64(array.as_primitive::<Int64Type>().values()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Self::I64(array.as_primitive::<TimestampMicrosecondType>().values())
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                Self::I64(array.as_primitive::<Time64MicrosecondType>().values())
            }
            DataType::Decimal128(..) => Self::I128(array.as_primitive::<Decimal128Type>().values()),
            _ => return None,
        })
    }
}

/// The integer that a constant is held as. `None`: it is not held as one.
pub(crate) fn integer(value: &Value) -> Option<i128> {
    Some(match value {
        Value::Int2(value) => i128::from(*value),
        Value::Int4(value) | Value::Date(value) => i128::from(*value),
        Value::Int8(value) | Value::Timestamp(value) | Value::Timestamptz(value) | Value::Time(value) => {
            i128::from(*value)
        }
        Value::Decimal(value) => *value,
        _ => return None,
    })
}
