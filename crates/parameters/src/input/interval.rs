//! Intervals as texts spell them: with units, as `1-2 3 4:05:06`, and as ISO 8601 has them. The rules are PostgreSQL's
//! (`DecodeInterval`).

use saki_base::Interval;
use saki_base::civil::{MICROS_PER_DAY, MICROS_PER_SECOND};

use super::clocks::clock_parts;
use super::error::Bad;
use super::fields::{Field, Kind, fields};

use super::unit::Unit;
use super::words;
use crate::style::IntervalStyle;

const DAYS_OF_MONTH: f64 = 30.0;

/// Reads a text. A number without a unit has the one of `last`.
pub fn read(text: &str, style: IntervalStyle, last: Unit) -> Result<Interval, Bad> {
    let trimmed = text.trim();
    if let Some(designated) = trimmed.strip_prefix(['P', 'p']) {
        return iso(designated);
    }
    let fields = fields(text).ok_or(Bad::Form)?;
    let mut sum = Sum::default();
    let mut reader = Reader { unit: None, last, seen: 0, is_before: false };
    for field in fields.iter().rev() {
        reader.field(field, &mut sum)?;
    }
    if reader.seen == 0 {
        return Err(Bad::Form);
    }
    // As the standard has it, a sign at the beginning is that of all parts, unless others have signs.
    let is_signed = |field: &Field| field.text.starts_with(['-', '+']);
    if style == IntervalStyle::SqlStandard && fields[0].text.starts_with('-') && !fields[1..].iter().any(is_signed) {
        sum = sum.negative();
    }
    if reader.is_before { sum.turned() } else { sum }.interval()
}

/// Parts in sums that are wider than an interval's.
#[derive(Clone, Copy, Default)]
struct Sum {
    months: i64,
    days: i64,
    micros: i128,
}

impl Sum {
    fn turned(self) -> Self {
        Self { months: -self.months, days: -self.days, micros: -self.micros }
    }

    fn negative(self) -> Self {
        Self { months: -self.months.abs(), days: -self.days.abs(), micros: -self.micros.abs() }
    }

    fn interval(self) -> Result<Interval, Bad> {
        Ok(Interval {
            months: self.months.try_into().map_err(|_| Bad::Interval)?,
            days: self.days.try_into().map_err(|_| Bad::Interval)?,
            micros: self.micros.try_into().map_err(|_| Bad::Interval)?,
        })
    }

    /// Adds so many of a unit; parts of months become days, and parts of days become time.
    fn add(&mut self, whole: i64, fraction: f64, unit: Unit) -> Result<(), Bad> {
        let times = |count: i64| whole.checked_mul(count).ok_or(Bad::Interval);
        let months = |sum: &mut Self, count: i64| {
            // As much of the fraction as months hold is rounded to whole ones.
            sum.months = sum.months.checked_add(times(count)?).ok_or(Bad::Interval)?;
            sum.months += (fraction * count as f64).round_ties_even() as i64;
            Ok(())
        };
        match unit {
            Unit::Microsecond => self.time(whole, fraction, 1),
            Unit::Millisecond => self.time(whole, fraction, 1_000),
            Unit::Second => self.time(whole, fraction, MICROS_PER_SECOND),
            Unit::Minute => self.time(whole, fraction, 60 * MICROS_PER_SECOND),
            Unit::Hour => self.time(whole, fraction, 3_600 * MICROS_PER_SECOND),
            Unit::Day => {
                self.days = self.days.checked_add(whole).ok_or(Bad::Interval)?;
                self.time(0, fraction, MICROS_PER_DAY);
            }
            Unit::Week => {
                self.days = self.days.checked_add(times(7)?).ok_or(Bad::Interval)?;
                self.part_of_days(fraction * 7.0);
            }
            Unit::Month | Unit::Quarter => {
                self.months = self.months.checked_add(whole).ok_or(Bad::Interval)?;
                self.part_of_days(fraction * DAYS_OF_MONTH);
            }
            Unit::Year => months(self, 12)?,
            Unit::Decade => months(self, 120)?,
            Unit::Century => months(self, 1_200)?,
            Unit::Millennium => months(self, 12_000)?,
        }
        Ok(())
    }

    fn time(&mut self, whole: i64, fraction: f64, unit: i64) {
        self.micros += i128::from(whole) * i128::from(unit) + (fraction * unit as f64).round_ties_even() as i128;
    }

    fn part_of_days(&mut self, days: f64) {
        self.days += days.trunc() as i64;
        self.time(0, days - days.trunc(), MICROS_PER_DAY);
    }
}

/// Fields from the last to the first: a unit comes after its number.
struct Reader {
    unit: Option<Unit>,
    last: Unit,
    seen: u32,
    is_before: bool,
}

impl Reader {
    fn field(&mut self, field: &Field, sum: &mut Sum) -> Result<(), Bad> {
        match field.kind {
            Kind::Time => self.clock(&field.text, 1, sum),
            Kind::Signed if field.text.contains(':') => {
                let sign = if field.text.starts_with('-') { -1 } else { 1 };
                self.clock(&field.text[1..], sign, sum)
            }
            Kind::Signed | Kind::Number | Kind::Date => self.number(&field.text, sum),
            Kind::Word | Kind::Special if field.text == "ago" => {
                self.is_before = true;
                Ok(())
            }
            Kind::Word | Kind::Special if matches!(&*field.text, "on" | "at") => Ok(()),
            Kind::Word | Kind::Special => {
                self.unit = Some(words::unit(&field.text).ok_or(Bad::Form)?);
                Ok(())
            }
        }
    }

    fn clock(&mut self, text: &str, sign: i64, sum: &mut Sum) -> Result<(), Bad> {
        let (hour, minute, second, micros) = clock_parts(text)?;
        let all = i128::from(hour) * 3_600 + i128::from(minute * 60 + second);
        sum.micros += i128::from(sign) * (all * i128::from(MICROS_PER_SECOND) + i128::from(micros));
        self.note(&[Unit::Hour, Unit::Minute, Unit::Second])?;
        // `1 4:05` is a day and four hours.
        self.unit = Some(Unit::Day);
        Ok(())
    }

    fn number(&mut self, text: &str, sum: &mut Sum) -> Result<(), Bad> {
        let unit = *self.unit.get_or_insert(self.last);
        let (sign, digits) = match text.as_bytes().first() {
            Some(b'-') => (-1, &text[1..]),
            Some(b'+') => (1, &text[1..]),
            _ => (1, text),
        };
        let whole = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true if digits.is_empty() => Ok(0),
            true => digits.parse::<i64>().map_err(|_| Bad::Interval),
            false => Err(Bad::Form),
        };
        if let Some((years, months)) = digits.split_once('-') {
            let (years, months) = (whole(years)?, whole(months)?);
            if months > 11 {
                return Err(Bad::Interval);
            }
            let all = years.checked_mul(12).and_then(|all| all.checked_add(months)).ok_or(Bad::Interval)?;
            sum.add(sign * all, 0.0, Unit::Month)?;
            return self.note(&[Unit::Month]);
        }
        let (digits, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if !fraction.bytes().all(|byte| byte.is_ascii_digit()) || digits.is_empty() && fraction.is_empty() {
            return Err(Bad::Form);
        }
        let part: f64 =
            if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().map_err(|_| Bad::Form)? };
        sum.add(sign * whole(digits)?, sign as f64 * part, unit)?;
        match unit {
            Unit::Second if part != 0.0 => self.note(&[Unit::Second, Unit::Millisecond, Unit::Microsecond]),
            unit => self.note(&[unit]),
        }
    }

    /// Each unit comes once at most.
    fn note(&mut self, units: &[Unit]) -> Result<(), Bad> {
        for unit in units {
            let bit = 1 << *unit as u32;
            if self.seen & bit != 0 {
                return Err(Bad::Form);
            }
            self.seen |= bit;
        }
        Ok(())
    }
}

/// `1Y2M3DT4H5M6.5S`, and `0001-02-03T04:05:06`.
fn iso(text: &str) -> Result<Interval, Bad> {
    let mut sum = Sum::default();
    let (date, time) = match text.split_once(['T', 't']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    if date.is_empty() && time.is_none_or(str::is_empty) {
        return Err(Bad::Form);
    }
    let signed = |text: &str| -> Result<(i64, f64), Bad> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let value: f64 = digits.parse().map_err(|_| Bad::Form)?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') || value.abs() > i64::MAX as f64 / 2.0 {
            return Err(Bad::Form);
        }
        Ok((sign * value.trunc() as i64, sign as f64 * value.fract()))
    };
    let alternative =
        |text: &str| text.len() > 1 && text[1..].contains(['-', ':']) && text.ends_with(|c: char| c.is_ascii_digit());
    let mut part = |text: &str, units: &[(char, Unit)], separator: char, places: [Unit; 3]| -> Result<(), Bad> {
        if alternative(text) {
            for (count, unit) in text.split(separator).zip(places) {
                let (whole, fraction) = signed(count)?;
                sum.add(whole, fraction, unit)?;
            }
            return Ok(());
        }
        let mut rest = text;
        while let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic()) {
            let letter = rest[end..].chars().next().unwrap_or_default().to_ascii_uppercase();
            let (whole, fraction) = signed(&rest[..end])?;
            let unit = units.iter().find(|(known, _)| *known == letter).ok_or(Bad::Form)?.1;
            sum.add(whole, fraction, unit)?;
            rest = &rest[end + 1..];
        }
        if rest.is_empty() { Ok(()) } else { Err(Bad::Form) }
    };
    let days = [('Y', Unit::Year), ('M', Unit::Month), ('W', Unit::Week), ('D', Unit::Day)];
    part(date, &days, '-', [Unit::Year, Unit::Month, Unit::Day])?;
    let hours = [('H', Unit::Hour), ('M', Unit::Minute), ('S', Unit::Second)];
    part(time.unwrap_or_default(), &hours, ':', [Unit::Hour, Unit::Minute, Unit::Second])?;
    sum.interval()
}
