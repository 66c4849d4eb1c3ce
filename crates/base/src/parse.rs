//! Text to values, as PostgreSQL reads them: for CSV, parameters in text form
//! and literals.
//!
//! Dates and timestamps are ISO 8601 (`2024-02-29`, `2024-02-29 12:30:00.5+02`,
//! `0044-03-15 BC`, `infinity`); a timestamp with time zone that names no offset
//! is taken as UTC. Text is taken as it is; everything else may have blanks around it.

use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;

use crate::civil::{MICROS_PER_DAY, MICROS_PER_SECOND, days_from_civil, days_in_month};
use crate::display::{DATE_INFINITY, DATE_MINUS_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY};
use crate::types::{DECIMAL_PRECISION_MAX, DataType, decimal_limit};
use crate::value::Value;

/// Characters of the text that an error repeats.
const QUOTED_CHARACTERS_MAX: usize = 80;

impl Value {
    /// The value of type `data_type` that `text` spells. The caller knows what
    /// spells NULL; here nothing does.
    ///
    /// Errors: text of another form, a value out of the type's range, text longer
    /// than `varchar(n)` or `character(n)` allow (blanks in excess are dropped).
    pub fn parse(data_type: DataType, text: &str) -> Result<Self, ParseError> {
        parse(data_type, text).map_err(|reason| ParseError { value: quote(text), data_type, reason })
    }
}

/// Text that spells no value of a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The text, cut if it is long.
    pub value: String,
    pub data_type: DataType,
    pub reason: ParseReason,
}

/// Why text spells no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseReason {
    /// It has not the form that is named.
    Syntax { expected: &'static str },
    /// It has, but the type cannot hold the value.
    OutOfRange,
    /// A month, day, hour, … that does not exist.
    FieldOutOfRange { field: &'static str },
    /// More digits before the point than the type has.
    NumericOverflow { precision: u8, scale: u8 },
    /// More characters than the type has.
    TooLong { limit: u32, found: usize },
    /// A zero character, which no text can hold.
    ZeroCharacter,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, data_type, reason } = self;
        match reason {
            ParseReason::Syntax { expected } => {
                write!(f, "invalid input syntax for type {data_type}: \"{value}\": expected {expected}")
            }
            ParseReason::OutOfRange => write!(f, "value \"{value}\" is out of range for type {data_type}"),
            ParseReason::FieldOutOfRange { field } => {
                write!(f, "date/time field value out of range: \"{value}\": no such {field}")
            }
            ParseReason::NumericOverflow { precision, scale } => write!(
                f,
                "numeric field overflow: \"{value}\": a field with precision {precision}, scale {scale} must round to \
                 an absolute value less than 10^{}",
                i16::from(*precision) - i16::from(*scale)
            ),
            ParseReason::TooLong { limit, found } => {
                write!(f, "value too long for type {data_type}: \"{value}\": {found} characters, at most {limit}")
            }
            ParseReason::ZeroCharacter => write!(f, "invalid text for type {data_type}: it has a zero character"),
        }
    }
}

impl std::error::Error for ParseError {}

fn quote(text: &str) -> String {
    let mut characters = text.chars();
    let mut quoted: String = characters.by_ref().take(QUOTED_CHARACTERS_MAX).collect();
    if characters.next().is_some() {
        quoted.push('…');
    }
    quoted
}

const fn syntax<T>(expected: &'static str) -> Result<T, ParseReason> {
    Err(ParseReason::Syntax { expected })
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
        DataType::Uuid => Value::Uuid(parse_uuid(trimmed)?),
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

const DATE_EXPECTED: &str = "YYYY-MM-DD";
const TIMESTAMP_EXPECTED: &str = "YYYY-MM-DD HH:MM:SS[.ffffff][+HH[:MM]]";

/// 4714-11-24 BC, day 0 of the Julian period, as in PostgreSQL.
const DATE_MIN: i64 = days_from_civil(-4713, 11, 24);
/// 5874897-12-31, as in PostgreSQL.
const DATE_MAX: i64 = days_from_civil(5_874_897, 12, 31);
const _: () = assert!(DATE_MIN > DATE_MINUS_INFINITY as i64 && DATE_MAX < DATE_INFINITY as i64);

fn parse_date(text: &str) -> Result<i32, ParseReason> {
    match infinity(text) {
        Some(true) => return Ok(DATE_INFINITY),
        Some(false) => return Ok(DATE_MINUS_INFINITY),
        None => {}
    }
    let days = Moment::parse(text, DATE_EXPECTED)?.days;
    if !(DATE_MIN..=DATE_MAX).contains(&days) {
        return Err(ParseReason::OutOfRange);
    }
    Ok(days as i32)
}

/// Microseconds since 1970; an offset is taken off `with_time_zone`, else ignored.
fn parse_timestamp(text: &str, with_time_zone: bool) -> Result<i64, ParseReason> {
    match infinity(text) {
        Some(true) => return Ok(TIMESTAMP_INFINITY),
        Some(false) => return Ok(TIMESTAMP_MINUS_INFINITY),
        None => {}
    }
    let moment = Moment::parse(text, TIMESTAMP_EXPECTED)?;
    let offset = if with_time_zone { moment.offset_seconds * MICROS_PER_SECOND } else { 0 };
    let micros = moment.days.checked_mul(MICROS_PER_DAY).and_then(|day| day.checked_add(moment.micros - offset));
    match micros {
        Some(micros) if micros != TIMESTAMP_INFINITY && moment.days >= DATE_MIN => Ok(micros),
        _ => Err(ParseReason::OutOfRange),
    }
}

fn infinity(text: &str) -> Option<bool> {
    let (positive, word) = match text.as_bytes().first() {
        Some(b'-') => (false, &text[1..]),
        Some(b'+') => (true, &text[1..]),
        _ => (true, text),
    };
    word.eq_ignore_ascii_case("infinity").then_some(positive)
}

/// A date with a time of day, as text spells them.
struct Moment {
    days: i64,
    /// Of the day; a whole day and a second at most.
    micros: i64,
    /// East of Greenwich.
    offset_seconds: i64,
}

impl Moment {
    fn parse(text: &str, expected: &'static str) -> Result<Self, ParseReason> {
        let mut cursor = Cursor(text.as_bytes());
        let (mut year, month, day) = cursor.date().ok_or(ParseReason::Syntax { expected })?;
        let mut moment = Self { days: 0, micros: 0, offset_seconds: 0 };

        let separated = cursor.eat(b'T') || cursor.eat(b't') || cursor.skip_blanks();
        if separated && cursor.0.first().is_some_and(u8::is_ascii_digit) {
            moment.micros = cursor.time_of_day(expected)?;
            cursor.skip_blanks();
            moment.offset_seconds = cursor.offset(expected)?;
        }
        cursor.skip_blanks();
        if cursor.eat_word("BC") {
            // There is no year 0: 1 BC comes before AD 1.
            if year == 0 {
                return Err(ParseReason::FieldOutOfRange { field: "year" });
            }
            year = 1 - year;
        } else {
            cursor.eat_word("AD");
            if year == 0 {
                return Err(ParseReason::FieldOutOfRange { field: "year" });
            }
        }
        if !cursor.0.is_empty() {
            return syntax(expected);
        }
        if !(1..=12).contains(&month) {
            return Err(ParseReason::FieldOutOfRange { field: "month" });
        }
        if day == 0 || day > i64::from(days_in_month(year, month as u8)) {
            return Err(ParseReason::FieldOutOfRange { field: "day" });
        }
        moment.days = days_from_civil(year, month as u8, day as u8);
        Ok(moment)
    }
}

/// What is still to be read.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn eat(&mut self, byte: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn eat_word(&mut self, word: &str) -> bool {
        match self.0.split_at_checked(word.len()) {
            Some((first, rest)) if first.eq_ignore_ascii_case(word.as_bytes()) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn skip_blanks(&mut self) -> bool {
        let before = self.0.len();
        self.0 = self.0.trim_ascii_start();
        self.0.len() < before
    }

    /// All digits up to the next other character.
    fn digits(&mut self) -> &'a [u8] {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        digits
    }

    /// A number of `shortest` to `longest` digits; at most nine.
    fn number(&mut self, shortest: usize, longest: usize) -> Option<i64> {
        let digits = self.digits();
        (shortest..=longest).contains(&digits.len()).then(|| decimal(digits))
    }

    /// `YYYY-MM-DD`, more digits for later years, or `YYYYMMDD`.
    fn date(&mut self) -> Option<(i64, i64, i64)> {
        let first = self.digits();
        if first.len() == 8 && self.0.first() != Some(&b'-') {
            return Some((decimal(&first[..4]), decimal(&first[4..6]), decimal(&first[6..])));
        }
        if !(4..=7).contains(&first.len()) || !self.eat(b'-') {
            return None;
        }
        let month = self.number(1, 2)?;
        if !self.eat(b'-') {
            return None;
        }
        Some((decimal(first), month, self.number(1, 2)?))
    }

    /// `HH:MM[:SS[.ffffff]]`, in microseconds; more digits are rounded.
    fn time_of_day(&mut self, expected: &'static str) -> Result<i64, ParseReason> {
        let malformed = ParseReason::Syntax { expected };
        let hour = self.number(1, 2).ok_or(malformed)?;
        if !self.eat(b':') {
            return Err(malformed);
        }
        let minute = self.number(2, 2).ok_or(malformed)?;
        let mut second = 0;
        let mut micros = 0;
        if self.eat(b':') {
            second = self.number(2, 2).ok_or(malformed)?;
            if self.eat(b'.') {
                let mut tenths_of_micros = 0;
                let digits = self.digits();
                for position in 0..7 {
                    tenths_of_micros = tenths_of_micros * 10 + digits.get(position).map_or(0, |d| i64::from(d - b'0'));
                }
                micros = (tenths_of_micros + 5) / 10;
            }
        }
        let seconds = (hour * 60 + minute) * 60 + second;
        let total = seconds * MICROS_PER_SECOND + micros;
        // A day may end with 24:00:00, and a minute with a leap second.
        if minute > 59 {
            Err(ParseReason::FieldOutOfRange { field: "minute" })
        } else if second > 60 {
            Err(ParseReason::FieldOutOfRange { field: "second" })
        } else if hour > 24 || (hour == 24 && total > MICROS_PER_DAY) {
            Err(ParseReason::FieldOutOfRange { field: "hour" })
        } else {
            Ok(total)
        }
    }

    /// `Z`, `UTC`, `+HH`, `+HHMM`, `+HH:MM[:SS]`, in seconds; 0 if there is none.
    fn offset(&mut self, expected: &'static str) -> Result<i64, ParseReason> {
        const HOURS_MAX: i64 = 15;
        let malformed = ParseReason::Syntax { expected };
        let sign = if self.eat(b'+') {
            1
        } else if self.eat(b'-') {
            -1
        } else {
            let _ = self.eat_word("UTC") || self.eat_word("GMT") || self.eat_word("Z");
            return Ok(0);
        };
        let first = self.digits();
        let (hours, mut minutes) = match first.len() {
            1 | 2 => (decimal(first), 0),
            4 => (decimal(&first[..2]), decimal(&first[2..])),
            _ => return Err(malformed),
        };
        let mut seconds = 0;
        if first.len() <= 2 && self.eat(b':') {
            minutes = self.number(2, 2).ok_or(malformed)?;
            if self.eat(b':') {
                seconds = self.number(2, 2).ok_or(malformed)?;
            }
        }
        if hours > HOURS_MAX || minutes > 59 || seconds > 59 {
            return Err(ParseReason::FieldOutOfRange { field: "time zone" });
        }
        Ok(sign * ((hours * 60 + minutes) * 60 + seconds))
    }
}

/// The number that at most 18 digits spell.
fn decimal(digits: &[u8]) -> i64 {
    debug_assert!(digits.len() <= 18);
    digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
}
