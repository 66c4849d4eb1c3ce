//! Dates, times and intervals, and the cursor that reads digits.

use super::error::{ParseReason, syntax};
use crate::civil::{MICROS_PER_DAY, MICROS_PER_SECOND, days_from_civil, days_in_month};
use crate::interval::Interval;
use crate::value::display::{DATE_INFINITY, DATE_MINUS_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_MINUS_INFINITY};

const DATE_EXPECTED: &str = "YYYY-MM-DD";
const TIME_EXPECTED: &str = "HH:MM:SS[.ffffff]";
const INTERVAL_EXPECTED: &str = "[N year[s]] [N mon[s]] [N day[s]] [[-]HH:MM:SS[.ffffff]]";
const TIMESTAMP_EXPECTED: &str = "YYYY-MM-DD HH:MM:SS[.ffffff][+HH[:MM]]";

/// 4714-11-24 BC, day 0 of the Julian period, as in PostgreSQL.
const DATE_MIN: i64 = days_from_civil(-4713, 11, 24);
/// 5874897-12-31, as in PostgreSQL.
const DATE_MAX: i64 = days_from_civil(5_874_897, 12, 31);
const _: () = assert!(DATE_MIN > DATE_MINUS_INFINITY as i64 && DATE_MAX < DATE_INFINITY as i64);

pub(super) fn parse_date(text: &str) -> Result<i32, ParseReason> {
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
pub(super) fn parse_timestamp(text: &str, with_time_zone: bool) -> Result<i64, ParseReason> {
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

/// Microseconds since midnight.
pub(super) fn parse_time(text: &str) -> Result<i64, ParseReason> {
    let mut cursor = Cursor(text.as_bytes());
    let micros = cursor.time_of_day(TIME_EXPECTED)?;
    if !cursor.0.is_empty() {
        return syntax(TIME_EXPECTED);
    }
    // A leap second, or a part of a second that rounds up, at the end of the day.
    if micros > MICROS_PER_DAY { Err(ParseReason::FieldOutOfRange { field: "hour" }) } else { Ok(micros) }
}

/// As intervals are printed: each part with its own sign, and each at most once.
pub(super) fn parse_interval(text: &str) -> Result<Interval, ParseReason> {
    const MALFORMED: ParseReason = ParseReason::Syntax { expected: INTERVAL_EXPECTED };
    let mut cursor = Cursor(text.as_bytes());
    let (mut months, mut days, mut micros) = (0_i64, 0_i64, 0_i128);
    // How far it has been read: each kind of part comes after those that are longer.
    let mut place = 0;
    while !cursor.0.is_empty() {
        let negative = cursor.eat(b'-');
        if !negative {
            cursor.eat(b'+');
        }
        let digits = cursor.digits();
        if !(1..=18).contains(&digits.len()) {
            return Err(MALFORMED);
        }
        let (count, sign) = (decimal(digits), if negative { -1 } else { 1 });
        let next = if cursor.0.first() == Some(&b':') {
            micros = i128::from(sign) * cursor.minutes_after(count, INTERVAL_EXPECTED)?;
            4
        } else {
            cursor.skip_blanks();
            let unit = if cursor.eat_word("year") {
                months = (sign * count).checked_mul(12).ok_or(ParseReason::OutOfRange)?;
                1
            } else if cursor.eat_word("mon") {
                months = months.checked_add(sign * count).ok_or(ParseReason::OutOfRange)?;
                2
            } else if cursor.eat_word("day") {
                days = sign * count;
                3
            } else {
                return Err(MALFORMED);
            };
            cursor.eat_word("s");
            unit
        };
        if next <= place || !cursor.skip_blanks() && !cursor.0.is_empty() {
            return Err(MALFORMED);
        }
        place = next;
    }
    let out_of_range = |_| ParseReason::OutOfRange;
    let interval = Interval {
        months: months.try_into().map_err(out_of_range)?,
        days: days.try_into().map_err(out_of_range)?,
        micros: micros.try_into().map_err(|_| ParseReason::OutOfRange)?,
    };
    if place == 0 {
        Err(MALFORMED)
    } else if !interval.fits() {
        Err(ParseReason::OutOfRange)
    } else {
        Ok(interval)
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
pub(super) struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn eat(&mut self, byte: u8) -> bool {
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
    pub fn digits(&mut self) -> &'a [u8] {
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
        let (second, micros) = if self.eat(b':') { self.seconds(expected)? } else { (0, 0) };
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

    /// `SS[.ffffff]`: seconds, and microseconds, to which further digits are rounded.
    fn seconds(&mut self, expected: &'static str) -> Result<(i64, i64), ParseReason> {
        let second = self.number(2, 2).ok_or(ParseReason::Syntax { expected })?;
        if !self.eat(b'.') {
            return Ok((second, 0));
        }
        let digits = self.digits();
        let digit = |position| digits.get(position).map_or(0, |digit| i64::from(digit - b'0'));
        let tenths_of_micros = (0..7).fold(0, |number, position| number * 10 + digit(position));
        Ok((second, (tenths_of_micros + 5) / 10))
    }

    /// `:MM[:SS[.ffffff]]` after so many hours: all of it in microseconds.
    fn minutes_after(&mut self, hours: i64, expected: &'static str) -> Result<i128, ParseReason> {
        self.eat(b':');
        let minute = self.number(2, 2).ok_or(ParseReason::Syntax { expected })?;
        let (second, micros) = if self.eat(b':') { self.seconds(expected)? } else { (0, 0) };
        if minute > 59 || second > 59 {
            return Err(ParseReason::FieldOutOfRange { field: "minute or second" });
        }
        let seconds = i128::from(hours) * 3_600 + i128::from(minute * 60 + second);
        Ok(seconds * i128::from(MICROS_PER_SECOND) + i128::from(micros))
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
