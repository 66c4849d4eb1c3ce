//! Parts of dates.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, Int32Array};
use arrow_schema::{DataType, TimeUnit};
use saki_base::civil::{MICROS_PER_DAY, civil_from_days, days_from_civil};

use super::tree::DatePart;
use crate::{Bounds, Column, Result, VectorError};

/// Years whose first days are compared with, at most; more are computed from each date.
const FEW_YEARS: i64 = 16;

/// The part of each date or timestamp, as an `Int32`.
pub(crate) fn part(part: DatePart, column: &Column) -> Result<Column> {
    let array = column.array();
    match array.data_type() {
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            match (part, column.bounds()) {
                (DatePart::Year, Some(bounds)) => Ok(years(days.values(), bounds, column)),
                _ => Ok(Column::new(Arc::new(
                    days.unary::<_, arrow_array::types::Int32Type>(|days| of(part, i64::from(days))),
                ))),
            }
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>();
            Ok(Column::new(Arc::new(
                micros.unary::<_, arrow_array::types::Int32Type>(|micros| of(part, micros.div_euclid(MICROS_PER_DAY))),
            )))
        }
        other => Err(VectorError::internal(format!("no part of {other}"))),
    }
}

/// An `i32` holds the year of any day that a date or a timestamp can have.
fn of(part: DatePart, days: i64) -> i32 {
    let date = civil_from_days(days);
    match part {
        DatePart::Year => date.year as i32,
        DatePart::Month => i32::from(date.month),
        DatePart::Day => i32::from(date.day),
    }
}

/// The first year, and one more for each following year's first day that is not after the date.
fn years(days: &[i32], bounds: Bounds, column: &Column) -> Column {
    let (first, last) = (of(DatePart::Year, bounds.min), of(DatePart::Year, bounds.max));
    // `i32::MAX` fills up the starts: no date may reach it.
    let spanned = if bounds.max < i64::from(i32::MAX) { i64::from(last) - i64::from(first) } else { i64::MAX };
    let values = match spanned {
        0 => vec![first; days.len()],
        1..=8 => years_since::<8>(first, days),
        9..=FEW_YEARS => years_since::<{ FEW_YEARS as usize }>(first, days),
        _ => days.iter().map(|days| of(DatePart::Year, i64::from(*days))).collect(),
    };
    let array: ArrayRef = Arc::new(Int32Array::new(values.into(), column.array().nulls().cloned()));
    Column::with_bounds(array, Bounds { min: i64::from(first), max: i64::from(last) })
}

/// Years of dates from `first` to the `N`th year after it.
fn years_since<const N: usize>(first: i32, days: &[i32]) -> Vec<i32> {
    let mut starts = [i32::MAX; N];
    for (start, year) in starts.iter_mut().zip(i64::from(first) + 1..) {
        *start = i32::try_from(days_from_civil(year, 1, 1)).unwrap_or(i32::MAX);
    }
    let year = |day: i32| starts.iter().fold(first, |year, start| year + i32::from(day >= *start));
    days.iter().map(|day| year(*day)).collect()
}
