//! The values of a column as slices, whatever its form.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType, UInt16Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, StringViewArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::{DataType, TimeUnit};

use crate::{Bounds, Column, Result, VectorError, form};

/// Values that are integers underneath: integers, dates, times, timestamps, booleans (0 and 1), decimals that fit.
pub(super) enum Integers<'a> {
    Two(&'a [i16]),
    Four(&'a [i32]),
    Eight(Cow<'a, [i64]>),
}

impl<'a> Integers<'a> {
    /// `None`: the column is of another kind, or has decimals that do not fit.
    pub(super) fn of(column: &'a Column) -> Option<Self> {
        let array = column.array();
        Some(match array.data_type() {
            DataType::Int16 => Self::Two(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Self::Four(array.as_primitive::<Int32Type>().values()),
            DataType::Date32 => Self::Four(array.as_primitive::<Date32Type>().values()),
            DataType::Int64 => Self::Eight(Cow::Borrowed(array.as_primitive::<Int64Type>().values())),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Self::Eight(Cow::Borrowed(array.as_primitive::<TimestampMicrosecondType>().values()))
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                Self::Eight(Cow::Borrowed(array.as_primitive::<Time64MicrosecondType>().values()))
            }
            DataType::Boolean => Self::Eight(array.as_boolean().values().iter().map(i64::from).collect()),
            DataType::Decimal128(..) => {
                let narrow = form::narrow_decimals(array.as_primitive::<Decimal128Type>())?;
                Self::Eight(Cow::Owned(narrow.values().to_vec()))
            }
            _ => return None,
        })
    }

    /// Bounds of the column's values, found by looking at them if they are not known. What lies under NULLs may count.
    pub(super) fn bounds(&self, column: &Column) -> Bounds {
        fn of<T: Copy + Ord + Into<i64>>(values: &[T]) -> Bounds {
            let Some(first) = values.first() else { return Bounds { min: 0, max: 0 } };
            let min = values.iter().fold(*first, |min, value| min.min(*value));
            let max = values.iter().fold(*first, |max, value| max.max(*value));
            Bounds { min: min.into(), max: max.into() }
        }
        column.known_bounds().unwrap_or_else(|| match self {
            Self::Two(values) => of(values),
            Self::Four(values) => of(values),
            Self::Eight(values) => of(values),
        })
    }

    /// As eight-byte integers, with `filler` in the place of those that `valid` excludes.
    pub(super) fn widen(self, valid: Option<&NullBuffer>, filler: i64) -> Cow<'a, [i64]> {
        fn of<T: Copy + Into<i64>>(values: &[T]) -> Vec<i64> {
            values.iter().map(|value| (*value).into()).collect()
        }
        let mut values = match self {
            Self::Two(values) => Cow::Owned(of(values)),
            Self::Four(values) => Cow::Owned(of(values)),
            Self::Eight(values) => values,
        };
        if let Some(valid) = valid {
            for (value, valid) in values.to_mut().iter_mut().zip(valid) {
                *value = if valid { *value } else { filler };
            }
        }
        values
    }
}

/// Unscaled values of a decimal column in 16 bytes.
pub(super) fn wide(column: &Column, valid: Option<&NullBuffer>, filler: i128) -> Result<Vec<i128>> {
    let mut values = form::wide_decimals(column)?.values().to_vec();
    if let Some(valid) = valid {
        for (value, valid) in values.iter_mut().zip(valid) {
            *value = if valid { *value } else { filler };
        }
    }
    Ok(values)
}

/// Floats of either width.
pub(super) fn floats(column: &Column) -> Option<Cow<'_, [f64]>> {
    let array = column.array();
    match array.data_type() {
        DataType::Float64 => Some(Cow::Borrowed(array.as_primitive::<Float64Type>().values())),
        DataType::Float32 => Some(array.as_primitive::<Float32Type>().values().iter().map(|v| f64::from(*v)).collect()),
        _ => None,
    }
}

/// An integer that orders as SQL orders floats: NaN is one value, greater than all others, and there is one zero.
pub(super) fn ordered(value: f64) -> i64 {
    let canonical = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = canonical.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// The float of an [`ordered`] integer.
pub(super) fn unordered(ordered: i64) -> f64 {
    f64::from_bits((ordered ^ (((ordered >> 63) as u64) >> 1) as i64) as u64)
}

/// Values that are byte strings underneath: of text, binaries and UUIDs.
pub(super) enum Strings<'a> {
    Text(&'a StringViewArray),
    Binary(&'a BinaryViewArray),
    Fixed(&'a FixedSizeBinaryArray),
    Dictionary(&'a [u16], &'a StringViewArray),
}

impl<'a> Strings<'a> {
    pub(super) fn of(column: &'a Column) -> Option<Self> {
        let array = column.array();
        Some(match array.data_type() {
            DataType::Utf8View => Self::Text(array.as_string_view()),
            DataType::BinaryView => Self::Binary(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => Self::Fixed(array.as_fixed_size_binary()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_dictionary_opt::<UInt16Type>()?;
                Self::Dictionary(dictionary.keys().values(), dictionary.values().as_string_view_opt()?)
            }
            _ => return None,
        })
    }

    /// The value of a row that is not NULL.
    #[inline]
    pub(super) fn get(&self, row: usize) -> &'a [u8] {
        match self {
            Self::Text(array) => array.value(row).as_bytes(),
            Self::Binary(array) => array.value(row),
            Self::Fixed(array) => array.value(row),
            Self::Dictionary(codes, values) => values.value(codes[row].as_usize()).as_bytes(),
        }
    }
}

/// The native form of values that are integers underneath.
pub(super) fn integer_array(values: Vec<i64>, nulls: Option<NullBuffer>, logical: &DataType) -> Result<ArrayRef> {
    use std::sync::Arc;
    Ok(match logical {
        DataType::Int64 | DataType::Decimal128(..) | DataType::Timestamp(TimeUnit::Second, _) => {
            Arc::new(Int64Array::new(values.into(), nulls))
        }
        DataType::Int32 => Arc::new(Int32Array::new(values.iter().map(|v| *v as i32).collect(), nulls)),
        DataType::Int16 => Arc::new(Int16Array::new(values.iter().map(|v| *v as i16).collect(), nulls)),
        DataType::Date32 => Arc::new(Date32Array::new(values.iter().map(|v| *v as i32).collect(), nulls)),
        DataType::Boolean => Arc::new(BooleanArray::new(values.iter().map(|v| *v != 0).collect(), nulls)),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            Arc::new(TimestampMicrosecondArray::new(values.into(), nulls).with_timezone_opt(zone.clone()))
        }
        DataType::Time64(TimeUnit::Microsecond) => Arc::new(Time64MicrosecondArray::new(values.into(), nulls)),
        other => return Err(unfit("integers", other)),
    })
}

/// Floats as the result of a call.
pub(super) fn float_array(values: Vec<f64>, nulls: Option<NullBuffer>, logical: &DataType) -> Result<ArrayRef> {
    use std::sync::Arc;
    Ok(match logical {
        DataType::Float64 => Arc::new(Float64Array::new(values.into(), nulls)),
        DataType::Float32 => Arc::new(Float32Array::new(values.iter().map(|v| *v as f32).collect(), nulls)),
        other => return Err(unfit("floats", other)),
    })
}

/// Types and values that plans do not bring together.
pub(super) fn unfit(what: &str, data_type: &DataType) -> VectorError {
    VectorError::internal(format!("an aggregate has {what} where its type is {data_type}"))
}

/// Decimals in the narrow form if they fit.
pub(super) fn decimals(values: Vec<i128>, nulls: Option<NullBuffer>, logical: &DataType) -> Result<Column> {
    let DataType::Decimal128(precision, scale) = logical else { return Err(unfit("decimals", logical)) };
    let wide = Decimal128Array::new(values.into(), nulls).with_precision_and_scale(*precision, *scale)?;
    Ok(match form::narrow_decimals(&wide) {
        Some(narrow) => Column::new(std::sync::Arc::new(narrow)),
        None => Column::new(std::sync::Arc::new(wide)),
    })
}
