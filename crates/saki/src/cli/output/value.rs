//! Values as PostgreSQL prints them.

use std::fmt::Write;

use arrow::array::cast::AsArray;
use arrow::array::types::{
    Date32Type, Float32Type, Float64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use saki_base::{DataType as SqlType, ValueRef};

/// The values of one column of one batch, as text.
pub struct Cells<'a> {
    array: &'a ArrayRef,
    /// Absent where the value is printed here.
    formatter: Option<ArrayFormatter<'a>>,
}

impl<'a> Cells<'a> {
    pub fn new(array: &'a ArrayRef) -> Self {
        const OPTIONS: FormatOptions<'static> = FormatOptions::new().with_display_error(true);
        let formatter = match array.data_type() {
            DataType::Boolean
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Interval(IntervalUnit::MonthDayNano)
            | DataType::Timestamp(..)
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::FixedSizeBinary(16) => None,
            _ => ArrayFormatter::try_new(array.as_ref(), &OPTIONS).ok(),
        };
        Self { array, formatter }
    }

    /// Appends the value in `row` to `text`; false if it is NULL.
    pub fn append(&self, row: usize, text: &mut String) -> bool {
        // An array of the type NULL has no null bits.
        if self.array.is_null(row) || *self.array.data_type() == DataType::Null {
            return false;
        }
        let written = match &self.formatter {
            Some(formatter) => write!(text, "{}", formatter.value(row)),
            None => match (own(self.array, row), labels(self.array, row)) {
                (Some((value, sql_type)), _) => write!(text, "{}", saki_base::display(value, sql_type)),
                (None, Some(labels)) => write!(text, "[{}]", labels.join(", ")),
                (None, None) => write!(text, "?"),
            },
        };
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
        true
    }
}

/// The labels of an array, which Arrow takes for moments.
fn labels(array: &ArrayRef, row: usize) -> Option<Vec<&'static str>> {
    let elements = array.as_list_opt::<i32>()?.value(row);
    let of = saki_exec::enumeration(elements.data_type())?;
    let numbers = elements.as_primitive::<TimestampSecondType>().iter();
    Some(numbers.map(|number| number.map_or("", |number| of.label(number).unwrap_or("?"))).collect())
}

/// The value as one of ours, for the types that Arrow prints differently.
fn own(array: &ArrayRef, row: usize) -> Option<(ValueRef<'_>, SqlType)> {
    Some(match array.data_type() {
        DataType::Boolean => (ValueRef::Bool(array.as_boolean().value(row)), SqlType::Bool),
        DataType::Float32 => (ValueRef::Float4(array.as_primitive::<Float32Type>().value(row)), SqlType::Float4),
        DataType::Float64 => (ValueRef::Float8(array.as_primitive::<Float64Type>().value(row)), SqlType::Float8),
        DataType::Date32 => (ValueRef::Date(array.as_primitive::<Date32Type>().value(row)), SqlType::Date),
        DataType::Binary => (ValueRef::Bytea(array.as_binary::<i32>().value(row)), SqlType::Bytea),
        DataType::LargeBinary => {
            (ValueRef::Text(std::str::from_utf8(array.as_binary::<i64>().value(row)).ok()?), SqlType::Json)
        }
        DataType::FixedSizeBinary(16) => {
            (ValueRef::Uuid(array.as_fixed_size_binary().value(row).try_into().ok()?), SqlType::Uuid)
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            (ValueRef::Time(array.as_primitive::<Time64MicrosecondType>().value(row)), SqlType::Time)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            (ValueRef::Interval(saki_exec::interval(value)), SqlType::Interval)
        }
        labels if let Some(of) = saki_exec::enumeration(labels) => {
            (ValueRef::Int8(array.as_primitive::<TimestampSecondType>().value(row)), SqlType::Enum(of))
        }
        DataType::Timestamp(unit, zone) => {
            let micros = match unit {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row).checked_mul(1_000_000)?,
                TimeUnit::Millisecond => {
                    array.as_primitive::<TimestampMillisecondType>().value(row).checked_mul(1000)?
                }
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row),
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1000),
            };
            match zone {
                Some(_) => (ValueRef::Timestamptz(micros), SqlType::Timestamptz),
                None => (ValueRef::Timestamp(micros), SqlType::Timestamp),
            }
        }
        _ => return None,
    })
}
