//! Values as text where storage has no type for them: times, intervals, arrays, rows. As PostgreSQL prints them by
//! default.

use std::fmt::{self, Write};

use arrow_buffer::IntervalMonthDayNano;
use bytes::{BufMut, BytesMut};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Microseconds of a day as `12:34:56.789`.
pub fn time(micros: i64, out: &mut impl Write) -> fmt::Result {
    let seconds = micros / MICROS_PER_SECOND;
    write!(out, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
    fraction(micros % MICROS_PER_SECOND, out)
}

fn fraction(micros: i64, out: &mut impl Write) -> fmt::Result {
    if micros == 0 {
        return Ok(());
    }
    write!(out, ".{}", format!("{micros:06}").trim_end_matches('0'))
}

/// `1 year 2 mons -3 days 04:05:06`.
pub fn interval(value: IntervalMonthDayNano, out: &mut impl Write) -> fmt::Result {
    let mut separator = "";
    // After a negative part, a positive one says so.
    let mut negative = false;
    for (count, unit) in [(value.months / 12, "year"), (value.months % 12, "mon"), (value.days, "day")] {
        if count != 0 {
            let sign = if negative && count > 0 { "+" } else { "" };
            write!(out, "{separator}{sign}{count} {unit}{}", if count == 1 { "" } else { "s" })?;
            separator = " ";
            negative = count < 0;
        }
    }
    let micros = value.nanoseconds / 1_000;
    if micros == 0 && !separator.is_empty() {
        return Ok(());
    }
    let sign = match micros < 0 {
        true => "-",
        false if negative => "+",
        false => "",
    };
    write!(out, "{separator}{sign}")?;
    let micros = micros.unsigned_abs();
    let seconds = micros / 1_000_000;
    write!(out, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
    fraction((micros % 1_000_000) as i64, out)
}

/// Whether an element must be quoted within `{…}`.
pub fn needs_quotes(element: &str) -> bool {
    element.is_empty()
        || element.eq_ignore_ascii_case("null")
        || element.contains(|c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_ascii_whitespace())
}

/// Appends a field of `(1,"a b",)`, in quotes where it would be taken for something else.
pub fn record_field(field: &[u8], out: &mut BytesMut) {
    let is_special = |byte: &u8| matches!(byte, b'(' | b')' | b'"' | b',' | b'\\') || byte.is_ascii_whitespace();
    if !field.is_empty() && !field.iter().any(is_special) {
        out.put_slice(field);
        return;
    }
    out.put_u8(b'"');
    for byte in field {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(*byte);
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_print_as_postgresqls() {
        let text = |months, days, nanoseconds| {
            let mut out = String::new();
            interval(IntervalMonthDayNano { months, days, nanoseconds }, &mut out).unwrap();
            out
        };
        assert_eq!(text(0, 0, 0), "00:00:00");
        assert_eq!(text(14, -3, 3_661_000_001_000), "1 year 2 mons -3 days +01:01:01.000001");
        assert_eq!(text(0, 1, -1_500_000_000), "1 day -00:00:01.5");
    }
}
