//! Text to values, as PostgreSQL reads them: for CSV, parameters in text form
//! and literals.
//!
//! Dates and timestamps are ISO 8601 (`2024-02-29`, `2024-02-29 12:30:00.5+02`,
//! `0044-03-15 BC`, `infinity`); a timestamp with time zone that names no offset
//! is taken as UTC. Times of day are as in these, and intervals as they are printed
//! (`1 year 2 mons -3 days +04:05:06`). Text is taken as it is; everything else may have blanks around it.

mod array;
mod error;
mod time;

use std::num::IntErrorKind;
use std::str::FromStr;

use crate::json;
use crate::types::{DECIMAL_PRECISION_MAX, DataType, Element, decimal_limit};
use crate::value::{self, Value};

use array::elements;
pub use error::{ParseError, ParseReason};
use error::{quote, syntax};
use time::{Cursor, parse_date, parse_interval, parse_time, parse_timestamp};

impl Value {
    /// The value of type `data_type` that `text` spells. The caller knows what
    /// spells NULL; here nothing does.
    ///
    /// Errors: text of another form, a value out of the type's range, text longer
    /// than `varchar(n)` or `character(n)` allow (blanks in excess are dropped).
    pub fn parse(data_type: DataType, text: &str) -> Result<Self, ParseError> {
        match data_type {
            DataType::Array(element) => Self::parse_array(element, text, Self::parse),
            _ => parse(data_type, text).map_err(|reason| ParseError { value: quote(text), data_type, reason }),
        }
    }

    /// The array that `text` spells, as in `{1,"a b",NULL}`, of elements that `read` makes of their texts.
    ///
    /// # Errors
    /// Of `read`, and text of another form.
    pub fn parse_array<E: From<ParseError>>(
        element: Element,
        text: &str,
        mut read: impl FnMut(DataType, &str) -> Result<Self, E>,
    ) -> Result<Self, E> {
        let data_type = DataType::Array(element);
        let refused = |reason| ParseError { value: quote(text), data_type, reason };
        let mut bytes = Vec::new();
        for text in elements(text).map_err(refused)? {
            let value = text.map_or(Ok(Self::Null), |text| read(element.data_type(), &text))?;
            value::array::push(element, value.as_ref(), &mut bytes).map_err(|_| refused(ParseReason::OutOfRange))?;
        }
        Ok(Self::Bytea(bytes))
    }
}

/// The texts of an array's elements, whatever they are texts of.
///
/// # Errors
/// If it is no array of one dimension.
pub fn array_elements(text: &str) -> Result<Vec<Option<String>>, ParseError> {
    elements(text).map_err(|reason| ParseError { value: quote(text), data_type: DataType::Text, reason })
}

fn parse(data_type: DataType, text: &str) -> Result<Value, ParseReason> {
    let trimmed = text.trim_ascii();
    Ok(match data_type {
        DataType::Bool => Value::Bool(parse_bool(trimmed)?),
        DataType::Int2 => Value::Int2(parse_integer(trimmed)?),
        DataType::Int4 => Value::Int4(parse_integer(trimmed)?),
        DataType::Int8 => Value::Int8(parse_integer(trimmed)?),
        DataType::Float4 => Value::Float4(parse_float::<f32>(trimmed)?),
        DataType::Float8 => Value::Float8(parse_float::<f64>(trimmed)?),
        DataType::Decimal { precision, scale } => Value::Decimal(parse_decimal(trimmed, precision, scale)?),
        DataType::Text => Value::Text(parse_text(text)?.to_owned()),
        DataType::Varchar(limit) => Value::Text(parse_varchar(parse_text(text)?, limit)?.to_owned()),
        DataType::Char(limit) => Value::Text(parse_varchar(parse_text(text)?, limit)?.trim_end_matches(' ').to_owned()),
        DataType::Bytea => Value::Bytea(parse_bytea(text)?),
        DataType::Date => Value::Date(parse_date(trimmed)?),
        DataType::Timestamp => Value::Timestamp(parse_timestamp(trimmed, false)?),
        DataType::Timestamptz => Value::Timestamptz(parse_timestamp(trimmed, true)?),
        DataType::Time => Value::Time(parse_time(trimmed)?),
        DataType::Interval => Value::Interval(parse_interval(trimmed)?),
        DataType::Uuid => Value::Uuid(parse_uuid(trimmed)?),
        DataType::Enum(of) => Value::Int8(of.value(text).ok_or(ParseReason::NoLabel)?),
        DataType::Json => {
            json::checked(text).map_err(ParseReason::Json)?;
            Value::Text(text.to_owned())
        }
        DataType::Jsonb => Value::Text(json::canonical(text).map_err(ParseReason::Json)?),
        DataType::Array(_) => return Err(ParseReason::Array),
    })
}

fn parse_bool(text: &str) -> Result<bool, ParseReason> {
    // Any beginning of these words will do, if it is the beginning of no other.
    const WORDS: [(&str, usize, bool); 8] = [
        ("true", 1, true),
        ("false", 1, false),
        ("yes", 1, true),
        ("no", 1, false),
        ("on", 2, true),
        ("off", 2, false),
        ("1", 1, true),
        ("0", 1, false),
    ];
    let matches = |word: &str, shortest| {
        text.len() >= shortest && word.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
    };
    match WORDS.iter().find(|(word, shortest, _)| matches(word, *shortest)) {
        Some((_, _, value)) => Ok(*value),
        None => syntax("t, f, true, false, yes, no, on, off, 1 or 0"),
    }
}

fn parse_integer<T: FromStr<Err = std::num::ParseIntError>>(text: &str) -> Result<T, ParseReason> {
    text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => ParseReason::OutOfRange,
        _ => ParseReason::Syntax { expected: "a whole number" },
    })
}

fn parse_float<T: FromStr + Copy + Into<f64>>(text: &str) -> Result<T, ParseReason> {
    let Ok(value) = text.parse::<T>() else {
        return syntax("a number, NaN, Infinity or -Infinity");
    };
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let spelled_infinite = text.contains(['n', 'N']);
    let spelled_zero = !mantissa.contains(|digit| matches!(digit, '1'..='9'));
    let widened: f64 = value.into();
    if (widened.is_infinite() && !spelled_infinite) || (widened == 0.0 && !spelled_zero) {
        return Err(ParseReason::OutOfRange);
    }
    Ok(value)
}

/// Rounds half away from zero to `scale` digits after the point.
fn parse_decimal(text: &str, precision: u8, scale: u8) -> Result<i128, ParseReason> {
    const EXPECTED: ParseReason = ParseReason::Syntax { expected: "a decimal number" };
    let overflow = ParseReason::NumericOverflow { precision, scale };
    let (negative, unsigned) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let mut cursor = Cursor(unsigned);
    let whole = cursor.digits();
    let fraction = if cursor.eat(b'.') { cursor.digits() } else { &[] };
    if whole.is_empty() && fraction.is_empty() {
        return Err(EXPECTED);
    }
    let exponent = if cursor.eat(b'e') || cursor.eat(b'E') {
        let exponent = std::str::from_utf8(cursor.0).map_err(|_| EXPECTED)?;
        match exponent.parse::<i32>() {
            Ok(exponent) => i64::from(exponent),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => i64::from(i32::MAX),
            Err(error) if *error.kind() == IntErrorKind::NegOverflow => i64::from(i32::MIN),
            Err(_) => return Err(EXPECTED),
        }
    } else if cursor.0.is_empty() {
        0
    } else {
        return Err(EXPECTED);
    };

    // So many digits, counted from the first, make the unscaled number.
    let kept = whole.len() as i64 + exponent + i64::from(scale);
    let mut unscaled = 0_i128;
    let mut position = 0_i64;
    // Asked before a digit is appended: ten times the largest decimal is more than an i128 holds.
    let has_room = |unscaled: i128| unscaled < decimal_limit(DECIMAL_PRECISION_MAX - 1);
    for digit in whole.iter().chain(fraction) {
        let digit = i128::from(digit - b'0');
        if position < kept {
            if !has_room(unscaled) {
                return Err(overflow);
            }
            unscaled = unscaled * 10 + digit;
        } else if position == kept && digit >= 5 {
            unscaled += 1;
        }
        position += 1;
    }
    // Zeroes that the exponent or the scale add; a zero stays one whatever they are.
    while position < kept && unscaled != 0 {
        if !has_room(unscaled) {
            return Err(overflow);
        }
        unscaled *= 10;
        position += 1;
    }
    if unscaled >= decimal_limit(precision) {
        return Err(overflow);
    }
    Ok(if negative { -unscaled } else { unscaled })
}

fn parse_text(text: &str) -> Result<&str, ParseReason> {
    if text.contains('\0') { Err(ParseReason::ZeroCharacter) } else { Ok(text) }
}

/// Cuts blanks beyond the limit; other characters beyond it are an error.
fn parse_varchar(text: &str, limit: u32) -> Result<&str, ParseReason> {
    // No text has more characters than bytes.
    if text.len() <= limit as usize {
        return Ok(text);
    }
    let end = text.char_indices().nth(limit as usize).map_or(text.len(), |(at, _)| at);
    let (kept, excess) = text.split_at(end);
    if excess.bytes().all(|byte| byte == b' ') {
        Ok(kept)
    } else {
        Err(ParseReason::TooLong { limit, found: text.chars().count() })
    }
}

/// `\x` and hexadecimal digits; or PostgreSQL's older form, in which `\\` is a
/// backslash and `\ooo` a byte in octal.
fn parse_bytea(text: &str) -> Result<Vec<u8>, ParseReason> {
    const EXPECTED: &str = "\\x and pairs of hexadecimal digits";
    let trimmed = text.trim_ascii();
    if let Some(digits) = trimmed.strip_prefix("\\x") {
        let mut nibbles = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(hex_digit);
        let mut bytes = Vec::with_capacity(digits.len() / 2);
        while let Some(high) = nibbles.next() {
            match (high, nibbles.next().flatten()) {
                (Some(high), Some(low)) => bytes.push(high << 4 | low),
                _ => return syntax(EXPECTED),
            }
        }
        return Ok(bytes);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            [b'\\', ..] => return syntax(EXPECTED),
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// 32 hexadecimal digits, with or without a hyphen after any four of them,
/// with or without braces around them.
fn parse_uuid(text: &str) -> Result<[u8; 16], ParseReason> {
    const EXPECTED: &str = "32 hexadecimal digits";
    let inside = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or(ParseReason::Syntax { expected: EXPECTED })?,
        None => text,
    };
    let mut bytes = [0; 16];
    let mut count = 0;
    for byte in inside.bytes() {
        match hex_digit(byte) {
            Some(digit) if count < 32 => {
                bytes[count / 2] = bytes[count / 2] << 4 | digit;
                count += 1;
            }
            // A hyphen stands between two groups: never first, last or doubled.
            None if byte == b'-' && count > 0 && count % 4 == 0 && count < 32 => {}
            _ => return syntax(EXPECTED),
        }
    }
    if count == 32 && !inside.contains("--") { Ok(bytes) } else { syntax(EXPECTED) }
}
