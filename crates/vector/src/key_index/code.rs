//! Codes: what joins compare in place of integers, dates, decimals and floats.
//!
//! A code is an `i64` that is equal for equal values of one logical type, whichever form they have. Operators visit the
//! values of an array as they lie there; nothing is copied but booleans and wide decimals.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type,
};
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use std::sync::Arc;

use crate::{Bounds, Result, VectorError, form};

/// A value that has a code.
pub(crate) trait Code: Copy {
    fn code(self) -> i64;
}

macro_rules! integer_codes {
    ($($type:ty),*) => { $(impl Code for $type {
        #[inline(always)]
        fn code(self) -> i64 {
            i64::from(self)
        }
    })* };
}
integer_codes!(i8, i16, i32, i64, u8, u16, u32);

// -0 equals 0 and NaN equals NaN, as in keys (`saki_base::key`): adding zero turns -0 into 0.
impl Code for f32 {
    #[inline(always)]
    fn code(self) -> i64 {
        i64::from(if self.is_nan() { f32::NAN.to_bits() } else { (self + 0.0).to_bits() })
    }
}

impl Code for f64 {
    #[inline(always)]
    fn code(self) -> i64 {
        (if self.is_nan() { f64::NAN.to_bits() } else { (self + 0.0).to_bits() }) as i64
    }
}

/// What is done with values that have codes; one function for each type of them.
pub(crate) trait Visitor {
    type Output;
    fn visit<T: Code>(self, values: &[T]) -> Self::Output;
}

/// Whether values of this logical type have codes; those of decimals only if they fit 8 bytes.
pub(crate) fn has_codes(logical: &DataType) -> bool {
    use DataType::{
        Boolean, Date32, Date64, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Time32, Time64, Timestamp,
        UInt8, UInt16, UInt32,
    };
    matches!(
        logical,
        Boolean
            | Int8
            | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | Float32
            | Float64
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(..)
            | Decimal128(..)
    )
}

/// Whether codes are ordered as the values are: integers, dates, timestamps and narrow decimals.
pub(crate) fn codes_are_ordered(logical: &DataType) -> bool {
    has_codes(logical) && !matches!(logical, DataType::Boolean | DataType::Float32 | DataType::Float64)
}

/// The array with values that [`visit`] can see: booleans as integers; decimals of 16 bytes in 8 bytes, `None` if one
/// that is not NULL does not fit.
pub(crate) fn codable(array: &ArrayRef) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::Boolean => Some(booleans(array)),
        DataType::Decimal128(..) => {
            let wide = array.as_primitive::<Decimal128Type>();
            let fits = |row: usize| wide.is_null(row) || i64::try_from(wide.value(row)).is_ok();
            (0..wide.len()).all(fits).then(|| Arc::new(wide.unary::<_, Int64Type>(|value| value as i64)) as ArrayRef)
        }
        _ => Some(Arc::clone(array)),
    }
}

/// As [`codable`], with `other` in the place of decimals that do not fit.
pub(crate) fn codable_or(array: &ArrayRef, other: i64) -> ArrayRef {
    match array.data_type() {
        DataType::Decimal128(..) => {
            let wide = array.as_primitive::<Decimal128Type>();
            Arc::new(wide.unary::<_, Int64Type>(|value| i64::try_from(value).unwrap_or(other)))
        }
        DataType::Boolean => booleans(array),
        _ => Arc::clone(array),
    }
}

fn booleans(array: &ArrayRef) -> ArrayRef {
    let values = array.as_boolean();
    Arc::new(Int64Array::new(values.values().iter().map(i64::from).collect(), values.nulls().cloned()))
}

/// Shows the values of an array that [`codable`] gave to `visitor`, those under NULLs too.
pub(crate) fn visit<V: Visitor>(array: &dyn Array, start: usize, rows: usize, visitor: V) -> Result<V::Output> {
    fn values<T: ArrowPrimitiveType>(array: &dyn Array, start: usize, rows: usize) -> &[T::Native] {
        &array.as_primitive::<T>().values()[start..start + rows]
    }
    macro_rules! visit {
        ($type:ty) => {
            Ok(visitor.visit(values::<$type>(array, start, rows)))
        };
    }
    match array.data_type() {
        DataType::Int8 => visit!(Int8Type),
        DataType::Int16 => visit!(Int16Type),
        DataType::Int32 => visit!(Int32Type),
        DataType::Int64 => visit!(Int64Type),
        DataType::UInt8 => visit!(UInt8Type),
        DataType::UInt16 => visit!(UInt16Type),
        DataType::UInt32 => visit!(UInt32Type),
        DataType::Float32 => visit!(Float32Type),
        DataType::Float64 => visit!(Float64Type),
        DataType::Date32 => visit!(Date32Type),
        DataType::Date64 => visit!(Date64Type),
        DataType::Time32(TimeUnit::Second) => visit!(Time32SecondType),
        DataType::Time32(_) => visit!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => visit!(Time64MicrosecondType),
        DataType::Time64(_) => visit!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => visit!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => visit!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => visit!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => visit!(TimestampNanosecondType),
        other => Err(VectorError::internal(format!("values of {other} have no codes"))),
    }
}

/// The nulls of rows `start..start + rows`, if there is one among them.
pub(crate) fn nulls_of(array: &dyn Array, start: usize, rows: usize) -> Option<NullBuffer> {
    let nulls = array.nulls()?.slice(start, rows);
    (nulls.null_count() > 0).then_some(nulls)
}

/// Least and greatest code of the values that are not NULL; `None` if there are none.
pub(crate) fn code_bounds(array: &dyn Array) -> Result<Option<Bounds>> {
    struct Extremes<'a>(Option<&'a NullBuffer>);
    impl Visitor for Extremes<'_> {
        type Output = Option<Bounds>;
        fn visit<T: Code>(self, values: &[T]) -> Option<Bounds> {
            let widen = |bounds: Bounds, value: &T| Bounds {
                min: bounds.min.min(value.code()),
                max: bounds.max.max(value.code()),
            };
            let none = Bounds { min: i64::MAX, max: i64::MIN };
            let bounds = match self.0 {
                None => values.iter().fold(none, widen),
                Some(nulls) => nulls.valid_indices().fold(none, |bounds, row| widen(bounds, &values[row])),
            };
            (bounds.min <= bounds.max).then_some(bounds)
        }
    }
    let nulls = nulls_of(array, 0, array.len());
    visit(array, 0, array.len(), Extremes(nulls.as_ref()))
}

/// The unscaled value of a decimal column in 16 bytes, or the code of another, for each row; what lies under NULLs too.
pub(crate) fn wide_codes(column: &crate::Column, logical: &DataType) -> Result<Vec<i128>> {
    struct Widen;
    impl Visitor for Widen {
        type Output = Vec<i128>;
        fn visit<T: Code>(self, values: &[T]) -> Vec<i128> {
            values.iter().map(|value| i128::from(value.code())).collect()
        }
    }
    if matches!(logical, DataType::Decimal128(..)) {
        return Ok(form::wide_decimals(column)?.values().to_vec());
    }
    visit(codable_or(column.array(), 0).as_ref(), 0, column.len(), Widen)
}
