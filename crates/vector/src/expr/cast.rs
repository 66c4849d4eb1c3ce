//! Casts. Those between numbers work on native forms; the rest is Arrow's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_cast::CastOptions;
use arrow_schema::{DataType, TimeUnit};
use saki_base::civil::MICROS_PER_DAY;

use super::arithmetic::decimal::{out_of_range, rescale};
use crate::{Bounds, Column, Result, form};

/// The column, of logical type `from`, as one of logical type `to`.
pub(crate) fn evaluate(column: &Column, from: &DataType, to: &DataType) -> Result<Column> {
    use DataType::{Date32, Decimal128, Float64, Int16, Int32, Int64, Timestamp, Utf8, Utf8View};
    match (from, to) {
        _ if from == to => Ok(column.clone()),
        (Utf8 | Utf8View, Utf8 | Utf8View) => Ok(column.clone()),
        (Int16, Int32) => Ok(widen::<Int16Type, Int32Type>(column)),
        (Int16, Int64) => Ok(widen::<Int16Type, Int64Type>(column)),
        (Int32, Int64) => Ok(widen::<Int32Type, Int64Type>(column)),
        (Int16 | Int32 | Int64, Decimal128(precision, scale)) if *scale >= 0 => {
            let unscaled = evaluate(column, from, &Int64)?;
            within(rescale(&unscaled, 0, *scale)?, *precision)
        }
        (Decimal128(from_precision, from_scale), Decimal128(precision, scale)) => {
            let rescaled = rescale(column, *from_scale, *scale)?;
            // Digits before the point that may be there, one more if rounding may carry.
            let digits = i16::from(*from_precision) - i16::from(*from_scale) + i16::from(from_scale > scale);
            if digits <= i16::from(*precision) - i16::from(*scale) {
                Ok(rescaled)
            } else {
                within(rescaled, *precision)
            }
        }
        (Decimal128(_, scale), Float64) => {
            let divisor = 10_f64.powi(i32::from(*scale));
            let array: ArrayRef = match column.array().as_primitive_opt::<Int64Type>() {
                Some(array) => Arc::new(array.unary::<_, Float64Type>(|value| value as f64 / divisor)),
                None => Arc::new(form::wide_decimals(column)?.unary::<_, Float64Type>(|value| value as f64 / divisor)),
            };
            Ok(Column::new(array))
        }
        (Date32, Timestamp(TimeUnit::Microsecond, None)) => {
            let days = column.array().as_primitive::<Date32Type>();
            let micros = days.unary::<_, TimestampMicrosecondType>(|days| i64::from(days).wrapping_mul(MICROS_PER_DAY));
            let fits = |days: i64| days.checked_mul(MICROS_PER_DAY).is_some();
            match column.bounds() {
                Some(Bounds { min, max }) if fits(min) && fits(max) => Ok(Column::new(Arc::new(micros))),
                _ => by_arrow(column, from, to),
            }
        }
        _ => by_arrow(column, from, to),
    }
}

fn widen<From, To>(column: &Column) -> Column
where
    From: ArrowPrimitiveType,
    To: ArrowPrimitiveType<Native: std::convert::From<From::Native>>,
{
    let widened: PrimitiveArray<To> = column.array().as_primitive::<From>().unary(To::Native::from);
    match column.known_bounds() {
        Some(bounds) => Column::with_bounds(Arc::new(widened), bounds),
        None => Column::new(Arc::new(widened)),
    }
}

/// The decimals, none of which has more digits than `precision`.
fn within(column: Column, precision: u8) -> Result<Column> {
    let limit = 10_i128.checked_pow(u32::from(precision)).ok_or_else(out_of_range)?;
    if column.bounds().is_some_and(|bounds| i128::from(bounds.min) > -limit && i128::from(bounds.max) < limit) {
        return Ok(column);
    }
    let wide = form::wide_decimals(&column)?;
    let mut values = wide.iter().flatten();
    if values.any(|value| value <= -limit || value >= limit) { Err(out_of_range()) } else { Ok(column) }
}

fn by_arrow(column: &Column, from: &DataType, to: &DataType) -> Result<Column> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let surface = form::to_surface(column, from)?;
    form::from_surface(&arrow_cast::cast_with_options(&surface, to, &options)?)
}
