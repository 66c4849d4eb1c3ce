//! Values as PostgreSQL prints them, with its default settings and time zone UTC.

use std::fmt;

use crate::civil::{MICROS_PER_DAY, civil_from_days};
use crate::interval::write_clock;
use crate::types::{DataType, Element, ValueRef};
use crate::value::{Value, array};

/// Dates and timestamps that are greater or less than all others.
pub(crate) const DATE_INFINITY: i32 = i32::MAX;
pub(crate) const DATE_MINUS_INFINITY: i32 = i32::MIN;
pub(crate) const TIMESTAMP_INFINITY: i64 = i64::MAX;
pub(crate) const TIMESTAMP_MINUS_INFINITY: i64 = i64::MIN;

/// The text of `value`, a value of type `data_type`, which says where a
/// decimal's point is and how long a `character(n)` is. NULL prints as `NULL`.
pub fn display(value: ValueRef<'_>, data_type: DataType) -> impl fmt::Display {
    DisplayValue { value, data_type }
}

impl Value {
    /// The text of this value of type `data_type`, as [`display`] gives it.
    pub fn display(&self, data_type: DataType) -> impl fmt::Display {
        display(self.as_ref(), data_type)
    }
}

struct DisplayValue<'a> {
    value: ValueRef<'a>,
    data_type: DataType,
}

impl fmt::Display for DisplayValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            ValueRef::Null => f.write_str("NULL"),
            ValueRef::Bool(value) => f.write_str(if value { "t" } else { "f" }),
            ValueRef::Int2(value) => write!(f, "{value}"),
            ValueRef::Int4(value) => write!(f, "{value}"),
            ValueRef::Int8(value) => match self.data_type {
                DataType::Enum(of) => f.write_str(of.label(value).unwrap_or("???")),
                _ => write!(f, "{value}"),
            },
            // The shortest digits that give the value back are those of its own
            // width: a real must not be widened first.
            ValueRef::Float4(value) => write_float(f, value.into(), format_args!("{value:e}"), FLOAT4_DIGITS),
            ValueRef::Float8(value) => write_float(f, value, format_args!("{value:e}"), FLOAT8_DIGITS),
            ValueRef::Decimal(unscaled) => {
                let scale = if let DataType::Decimal { scale, .. } = self.data_type { scale } else { 0 };
                write_decimal(f, unscaled, scale)
            }
            ValueRef::Text(text) => {
                f.write_str(text)?;
                if let DataType::Char(length) = self.data_type {
                    let padding = (length as usize).saturating_sub(text.chars().count());
                    write!(f, "{:padding$}", "")?;
                }
                Ok(())
            }
            ValueRef::Bytea(bytes) if let DataType::Array(element) = self.data_type => write_array(f, element, bytes),
            ValueRef::Bytea(bytes) => {
                f.write_str("\\x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            ValueRef::Date(DATE_INFINITY) => f.write_str("infinity"),
            ValueRef::Date(DATE_MINUS_INFINITY) => f.write_str("-infinity"),
            ValueRef::Date(days) => write_date_and(f, days.into(), |_| Ok(())),
            ValueRef::Timestamp(micros) => write_timestamp(f, micros, ""),
            ValueRef::Timestamptz(micros) => write_timestamp(f, micros, "+00"),
            ValueRef::Time(micros) => write_clock(micros.unsigned_abs(), f),
            ValueRef::Interval(interval) => write!(f, "{interval}"),
            ValueRef::Uuid(bytes) => {
                for (index, byte) in bytes.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

/// Of bytes that are no array's: the elements before the fault.
fn write_array(f: &mut fmt::Formatter<'_>, element: Element, bytes: &[u8]) -> fmt::Result {
    let mut text = String::from("{");
    let _ = array::for_each(element, bytes, |value| {
        if text.len() > 1 {
            text.push(',');
        }
        match value {
            ValueRef::Null => text.push_str("NULL"),
            value => array::push_text(&display(value, element.data_type()).to_string(), &mut text),
        }
    });
    f.write_str(&text)?;
    f.write_str("}")
}

/// Significant digits from which a number is printed with an exponent.
const FLOAT4_DIGITS: i32 = 6;
const FLOAT8_DIGITS: i32 = 15;

/// Prints a float whose shortest scientific form is `scientific` (`-1.25e-7`).
fn write_float(f: &mut fmt::Formatter<'_>, value: f64, scientific: fmt::Arguments<'_>, digits_max: i32) -> fmt::Result {
    if value.is_nan() {
        return f.write_str("NaN");
    }
    if value.is_infinite() {
        return f.write_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let scientific = scientific.to_string();
    let (mantissa, exponent) = scientific.split_once('e').expect("a finite float has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small integer");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    if !(-4..digits_max).contains(&exponent) {
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return write!(f, "{sign}{mantissa}e{exponent_sign}{:02}", exponent.abs());
    }
    let digits = mantissa.replace('.', "");
    // Digits before the point; none or less if the number is below 1.
    let whole = exponent + 1;
    f.write_str(sign)?;
    if whole <= 0 {
        write!(f, "0.{:0>width$}", digits, width = digits.len() + whole.unsigned_abs() as usize)
    } else if digits.len() <= whole as usize {
        write!(f, "{digits:0<width$}", width = whole as usize)
    } else {
        let (whole, fraction) = digits.split_at(whole as usize);
        write!(f, "{whole}.{fraction}")
    }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, unscaled: i128, scale: u8) -> fmt::Result {
    let sign = if unscaled < 0 { "-" } else { "" };
    let scale = scale as usize;
    // At least one digit before the point.
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if scale == 0 { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{fraction}") }
}

/// Prints a date, what `rest` prints, and the mark of years before our era.
fn write_date_and(
    f: &mut fmt::Formatter<'_>,
    days: i64,
    rest: impl FnOnce(&mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    let date = civil_from_days(days);
    let year = if date.year > 0 { date.year } else { 1 - date.year };
    write!(f, "{year:04}-{:02}-{:02}", date.month, date.day)?;
    rest(f)?;
    if date.year > 0 { Ok(()) } else { f.write_str(" BC") }
}

fn write_timestamp(f: &mut fmt::Formatter<'_>, micros: i64, offset: &str) -> fmt::Result {
    match micros {
        TIMESTAMP_INFINITY => return f.write_str("infinity"),
        TIMESTAMP_MINUS_INFINITY => return f.write_str("-infinity"),
        _ => {}
    }
    let of_day = micros.rem_euclid(MICROS_PER_DAY);
    write_date_and(f, micros.div_euclid(MICROS_PER_DAY), |f| {
        f.write_str(" ")?;
        write_clock(of_day.unsigned_abs(), f)?;
        f.write_str(offset)
    })
}
