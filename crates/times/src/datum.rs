//! Single values of the types that functions over times take and give.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Date32Builder, Decimal128Builder, Float64Builder, IntervalMonthDayNanoBuilder, StringBuilder,
    Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use saki_catalog::SqlError;
use saki_parameters::Interval;

pub const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
pub const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

pub fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Days and microseconds are since 1970, or of the day.
#[derive(Clone, PartialEq, Debug)]
pub enum Datum {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A number, and its digits behind the point.
    Number(i128, i8),
    Text(String),
    Date(i32),
    Time(i64),
    Timestamp(i64),
    Timestamptz(i64),
    Interval(Interval),
}

impl Datum {
    /// A number that a function takes as one.
    pub fn float(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Number(value, scale) => Some(*value as f64 / 10_f64.powi((*scale).into())),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Text(text) => text.trim().parse().ok(),
            other => other.float().map(|value| value.round_ties_even() as i64),
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Values of an array, one for each row, in a form whose rows are found at once.
pub fn readable(array: &ArrayRef) -> Result<ArrayRef> {
    let target = match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _)
        | DataType::Date32
        | DataType::Boolean
        | DataType::Int64
        | DataType::Float64
        | DataType::Decimal128(..)
        | DataType::Utf8 => return Ok(Arc::clone(array)),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Time32(_) | DataType::Time64(_) => TIME,
        DataType::Interval(_) => INTERVAL,
        DataType::Duration(_) => INTERVAL,
        DataType::Float32 | DataType::Float16 => DataType::Float64,
        other if other.is_integer() => DataType::Int64,
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        _ => return Ok(Arc::clone(array)),
    };
    Ok(cast(array, &target)?)
}

/// The value of a row of such an array.
pub fn datum(array: &ArrayRef, row: usize) -> Result<Datum> {
    // A NULL without a type is an array of a type of its own, which has no mask.
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return Ok(Datum::Null);
    }
    Ok(match array.data_type() {
        DataType::Boolean => Datum::Bool(array.as_boolean().value(row)),
        DataType::Int64 => Datum::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Datum::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) => Datum::Number(array.as_primitive::<Decimal128Type>().value(row), *scale),
        DataType::Utf8 => Datum::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::Date32 => Datum::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Time64(_) => Datum::Time(array.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Timestamp(_, zone) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            if zone.is_none() { Datum::Timestamp(micros) } else { Datum::Timestamptz(micros) }
        }
        DataType::Interval(_) => {
            let IntervalMonthDayNano { months, days, nanoseconds } =
                array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            Datum::Interval(Interval { months, days, micros: nanoseconds.div_euclid(1_000) })
        }
        other => return Err(SqlError::invalid(format!("a function over times takes no {other}")).code("42883").into()),
    })
}

/// An interval as the planner holds it.
///
/// # Errors
/// 22008 for more than 292 years of time, which take more nanoseconds than there is room for.
pub fn nanoseconds(interval: Interval) -> Result<IntervalMonthDayNano> {
    let Interval { months, days, micros } = interval;
    let nanoseconds = micros.checked_mul(1_000).ok_or_else(|| SqlError::data("interval out of range").code("22008"))?;
    Ok(IntervalMonthDayNano { months, days, nanoseconds })
}

/// An array of values of one type.
pub fn array_of(values: Vec<Datum>, data_type: &DataType) -> Result<ArrayRef> {
    macro_rules! build {
        ($builder:expr, $pattern:pat => $value:expr) => {{
            let mut builder = $builder;
            for value in values {
                match value {
                    $pattern => builder.append_value($value),
                    _ => builder.append_null(),
                }
            }
            Ok(Arc::new(builder.finish()) as ArrayRef)
        }};
    }
    match data_type {
        DataType::Boolean => build!(BooleanBuilder::new(), Datum::Bool(value) => value),
        DataType::Float64 => build!(Float64Builder::new(), Datum::Float(value) => value),
        DataType::Decimal128(..) => {
            let builder = Decimal128Builder::new().with_data_type(data_type.clone());
            build!(builder, Datum::Number(value, _) => value)
        }
        DataType::Utf8 => build!(StringBuilder::new(), Datum::Text(value) => value),
        DataType::Date32 => build!(Date32Builder::new(), Datum::Date(value) => value),
        DataType::Time64(_) => build!(Time64MicrosecondBuilder::new(), Datum::Time(value) => value),
        DataType::Timestamp(..) => {
            let builder = TimestampMicrosecondBuilder::new().with_data_type(data_type.clone());
            build!(builder, Datum::Timestamp(value) | Datum::Timestamptz(value) => value)
        }
        DataType::Interval(_) => {
            build!(IntervalMonthDayNanoBuilder::new(), Datum::Interval(value) => nanoseconds(value)?)
        }
        other => Err(SqlError::internal(format!("a function over times gives no {other}")).into()),
    }
}

/// Microseconds rounded to so many digits of seconds; infinity stays.
pub fn rounded(micros: i64, digits: i64) -> Result<i64> {
    if !(0..6).contains(&digits) || matches!(micros, i64::MAX | i64::MIN) {
        return Ok(micros);
    }
    let unit = 10_i64.pow(6 - digits as u32);
    let half = if micros < 0 { -(unit / 2) } else { unit / 2 };
    let shifted = micros.checked_add(half).ok_or_else(|| out_of_range("timestamp out of range"))?;
    Ok(shifted / unit * unit)
}

/// 22008.
pub fn out_of_range(message: &str) -> datafusion::common::DataFusionError {
    SqlError::data(message.to_owned()).code("22008").into()
}
