//! Dates and times of day as texts spell them. The rules are PostgreSQL's (`DecodeDateTime` and what it calls).

use saki_base::civil::{JULIAN_EPOCH, MICROS_PER_DAY, days_from_civil, days_in_month};

use super::clocks::{HOUR, clock, micros_of, of_day, offset};
use super::error::Bad;
use super::fields::{Field, Kind, fields};
use super::unit::Unit;
use super::words::{self, Word};
use crate::style::{DateOrder, TimeStyle};
use crate::zone::TimeZone;

/// Parts that a text has said, a bit each.
mod part {
    pub const YEAR: u8 = 1;
    pub const MONTH: u8 = 2;
    pub const DAY: u8 = 4;
    pub const YEAR_MONTH: u8 = YEAR | MONTH;
    pub const MONTH_DAY: u8 = MONTH | DAY;
    pub const DATE: u8 = YEAR | MONTH | DAY;
    pub const DAY_OF_YEAR: u8 = 8;
    pub const TIME: u8 = 16;
    pub const ZONE: u8 = 32;
    pub const HALF: u8 = 64;
    pub const ERA: u8 = 128;
}

/// What a text says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Moment {
    Infinity,
    MinusInfinity,
    /// 1970-01-01 in Greenwich.
    Epoch,
    At(Local),
}

/// A day and a time of it, by the clocks of some zone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Local {
    /// Since 1970; `None`: a time alone.
    pub days: Option<i64>,
    /// Of the day.
    pub micros: i64,
    /// Whether it says a time at all.
    pub has_time: bool,
    pub zone: Zone,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Zone {
    /// The session's.
    #[default]
    Own,
    /// Seconds east of Greenwich.
    Offset(i32),
    Named(TimeZone),
}

/// Reads a text; `now` are microseconds since 1970.
pub fn read(text: &str, style: &TimeStyle, now: i64) -> Result<Moment, Bad> {
    let fields = fields(text).ok_or(Bad::Form)?;
    Reader { now, ..Reader::new(style) }.read(&fields)
}

/// Reads a time of day; numbers with nothing that says what they are are hours, minutes and seconds.
pub fn read_time(text: &str, style: &TimeStyle, now: i64) -> Result<Moment, Bad> {
    match read(text, style, now) {
        Err(Bad::Form) => {
            let fields = fields(text).ok_or(Bad::Form)?;
            Reader { now, of_day: true, ..Reader::new(style) }.read(&fields)
        }
        read => read,
    }
}

/// What stands before a field and says what it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Anything,
    Time,
    Julian,
    Part(Unit),
}

struct Reader<'s> {
    style: &'s TimeStyle,
    now: i64,
    /// Whether it reads times of day alone.
    of_day: bool,
    seen: u8,
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    /// A day that was counted, not spelled.
    julian: Option<i64>,
    micros: i64,
    zone: Zone,
    expected: Expected,
    has_text_month: bool,
    two_digits: bool,
    before_era: bool,
    afternoon: Option<bool>,
}

impl<'s> Reader<'s> {
    fn new(style: &'s TimeStyle) -> Self {
        Self {
            style,
            now: 0,
            of_day: false,
            seen: 0,
            year: 0,
            month: 0,
            day: 0,
            day_of_year: 0,
            julian: None,
            micros: 0,
            zone: Zone::Own,
            expected: Expected::Anything,
            has_text_month: false,
            two_digits: false,
            before_era: false,
            afternoon: None,
        }
    }

    fn has(&self, parts: u8) -> bool {
        self.seen & parts == parts
    }

    /// Notes that parts have been said, each once at most.
    fn note(&mut self, parts: u8) -> Result<(), Bad> {
        if self.seen & parts != 0 {
            return Err(Bad::Form);
        }
        self.seen |= parts;
        Ok(())
    }

    fn read(mut self, fields: &[Field]) -> Result<Moment, Bad> {
        for (position, field) in fields.iter().enumerate() {
            let text = &*field.text;
            match field.kind {
                Kind::Date => self.date_field(text)?,
                Kind::Time => {
                    if !matches!(self.expected, Expected::Anything | Expected::Time) {
                        return Err(Bad::Form);
                    }
                    self.expected = Expected::Anything;
                    self.micros = clock(text)?;
                    self.note(part::TIME)?;
                }
                Kind::Signed => {
                    self.zone = Zone::Offset(offset(text)?);
                    self.note(part::ZONE)?;
                }
                Kind::Number => self.number_field(text)?,
                Kind::Word | Kind::Special => {
                    if let Some(done) = self.word_field(text, fields.get(position + 1))? {
                        return if fields.len() == 1 { Ok(done) } else { Err(Bad::Form) };
                    }
                }
            }
        }
        if self.expected != Expected::Anything {
            return Err(Bad::Form);
        }
        self.finished()
    }

    fn word_field(&mut self, text: &str, next: Option<&Field>) -> Result<Option<Moment>, Bad> {
        let Some(word) = words::word(text) else {
            let zone = TimeZone::named(text).ok_or(Bad::Form)?;
            self.zone = Zone::Named(zone);
            self.note(part::ZONE)?;
            return Ok(None);
        };
        match word {
            Word::Infinity => return Ok(Some(Moment::Infinity)),
            Word::MinusInfinity => return Ok(Some(Moment::MinusInfinity)),
            Word::Epoch => return Ok(Some(Moment::Epoch)),
            Word::Now => self.now()?,
            Word::Day(days) => {
                self.note(part::DATE)?;
                self.julian = Some(self.local_now().div_euclid(MICROS_PER_DAY) + i64::from(days));
            }
            Word::AllBalls => {
                self.note(part::TIME | part::ZONE)?;
                self.zone = Zone::Offset(0);
            }
            Word::Month(month) => {
                // The month that was read as a number is a day then.
                if self.seen & (part::MONTH | part::DAY) == part::MONTH && !self.has_text_month {
                    self.day = self.month;
                    self.seen = self.seen & !part::MONTH | part::DAY;
                }
                self.has_text_month = true;
                self.month = month.into();
                self.note(part::MONTH)?;
            }
            Word::Weekday | Word::Nothing => {}
            Word::Morning | Word::Afternoon => {
                self.note(part::HALF)?;
                self.afternoon = Some(word == Word::Afternoon);
            }
            Word::Era { before } => {
                self.note(part::ERA)?;
                self.before_era = before;
            }
            Word::Zone(seconds) => {
                self.note(part::ZONE)?;
                self.zone = Zone::Offset(seconds);
            }
            Word::Julian => self.expected = Expected::Julian,
            Word::Part(unit) => self.expected = Expected::Part(unit),
            Word::Clock => {
                let is_time = |field: &Field| matches!(field.kind, Kind::Number | Kind::Time | Kind::Date);
                if !(self.of_day || self.has(part::DATE)) || !next.is_some_and(is_time) {
                    return Err(Bad::Form);
                }
                self.expected = Expected::Time;
            }
        }
        Ok(None)
    }

    /// What the session's clocks show.
    fn local_now(&self) -> i64 {
        self.style.zone.local(self.now)
    }

    fn now(&mut self) -> Result<(), Bad> {
        self.note(part::DATE | part::TIME | part::ZONE)?;
        let local = self.local_now();
        self.julian = Some(local.div_euclid(MICROS_PER_DAY));
        self.micros = local.rem_euclid(MICROS_PER_DAY);
        self.zone = Zone::Offset(self.style.zone.seconds_at(self.now));
        Ok(())
    }

    /// A date with separators, `101112-03` after a date, or a zone's name.
    fn date_field(&mut self, text: &str) -> Result<(), Bad> {
        match self.expected {
            Expected::Julian => return self.julian_and_zone(text),
            Expected::Part(_) => return Err(Bad::Form),
            Expected::Anything | Expected::Time => {}
        }
        if self.expected == Expected::Anything && !self.has(part::MONTH_DAY) {
            return self.date(text);
        }
        if text.starts_with(|first: char| first.is_ascii_digit()) || self.expected == Expected::Time {
            self.expected = Expected::Anything;
            if self.has(part::TIME) {
                return Err(Bad::Form);
            }
            let at = text.find('-').ok_or(Bad::Form)?;
            self.zone = Zone::Offset(offset(&text[at..])?);
            self.joined_digits(&text[..at])?;
            return self.note(part::ZONE);
        }
        let zone = TimeZone::read(text).ok_or_else(|| Bad::Zone(text.to_owned()))?;
        self.zone = Zone::Named(zone);
        self.note(part::ZONE)
    }

    /// `2024-01-31`, `31.jan.2024`: the month that is a word first, since it leaves no doubt.
    fn date(&mut self, text: &str) -> Result<(), Bad> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
            rest = &rest[start..];
            let digits = rest.starts_with(|first: char| first.is_ascii_digit());
            let is_part = |c: char| if digits { c.is_ascii_digit() } else { c.is_ascii_alphabetic() };
            let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            parts.push((&rest[..length], digits));
            rest = &rest[length..];
        }
        for (name, _) in parts.iter().filter(|(_, digits)| !digits) {
            match words::word(name) {
                Some(Word::Month(month)) => {
                    self.month = month.into();
                    self.has_text_month = true;
                    self.note(part::MONTH)?;
                }
                Some(Word::Nothing | Word::Weekday) => {}
                _ => return Err(Bad::Form),
            }
        }
        for (digits, _) in parts.iter().filter(|(_, digits)| *digits) {
            self.number(digits)?;
        }
        // No time stands before it.
        if self.seen & !(part::DAY_OF_YEAR | part::ZONE) == part::DATE { Ok(()) } else { Err(Bad::Form) }
    }

    /// `2452271-08` behind a `J`.
    fn julian_and_zone(&mut self, text: &str) -> Result<(), Bad> {
        let at = text.find('-').ok_or(Bad::Form)?;
        self.number_field(&text[..at])?;
        self.zone = Zone::Offset(offset(&text[at..])?);
        self.note(part::TIME | part::ZONE)
    }

    /// The number behind `Y`, `M`, `D`, `H`, `MM` or `S`. An `M` behind a month and an hour is a minute.
    fn part(&mut self, unit: Unit, text: &str) -> Result<(), Bad> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let number: i64 = whole.parse().map_err(|_| Bad::Field)?;
        if !fraction.is_empty() && unit != Unit::Second {
            return Err(Bad::Form);
        }
        let has_hour = self.seen & part::TIME != 0;
        match unit {
            Unit::Year => self.year = number,
            Unit::Month if !(self.has(part::MONTH) && has_hour) => self.month = number,
            Unit::Day => self.day = number,
            Unit::Hour => {
                self.micros = of_day(number, 0, 0, 0)?;
                return self.note(part::TIME);
            }
            // Of a time that has begun with its hour.
            Unit::Month | Unit::Minute if has_hour && number < 60 => {
                self.micros += of_day(0, number, 0, 0)?;
                return Ok(());
            }
            Unit::Second if has_hour && number <= 60 => {
                self.micros += of_day(0, 0, number, micros_of(fraction)?)?;
                return Ok(());
            }
            _ => return Err(Bad::Field),
        }
        self.note(match unit {
            Unit::Year => part::YEAR,
            Unit::Month => part::MONTH,
            _ => part::DAY,
        })
    }

    fn number_field(&mut self, text: &str) -> Result<(), Bad> {
        match std::mem::replace(&mut self.expected, Expected::Anything) {
            Expected::Julian => {
                let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
                let number: i64 = whole.parse().map_err(|_| Bad::Form)?;
                self.julian = Some(number - JULIAN_EPOCH);
                self.note(part::DATE)?;
                if !fraction.is_empty() {
                    let part: f64 = format!("0.{fraction}").parse().map_err(|_| Bad::Form)?;
                    self.micros = (part * MICROS_PER_DAY as f64).round_ties_even() as i64;
                    self.note(part::TIME)?;
                }
                return Ok(());
            }
            Expected::Time if self.of_day => return self.joined_time(text),
            Expected::Time => return self.joined_digits(text),
            Expected::Part(unit) => return self.part(unit, text),
            Expected::Anything if self.of_day && self.seen & part::DATE == 0 => return self.joined_time(text),
            Expected::Anything => {}
        }
        let point = text.find('.');
        if point.is_some() && self.seen & part::DATE == 0 {
            return self.date(text);
        }
        let is_joined = point.is_some_and(|point| point > 2)
            || text.len() >= 6 && (self.seen & part::DATE == 0 || self.seen & part::TIME == 0);
        if is_joined { self.joined_digits(text) } else { self.number(text) }
    }

    /// A number of a date, which one depends on what has been said and on the session's order.
    fn number(&mut self, text: &str) -> Result<(), Bad> {
        let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
        if !fraction.is_empty() {
            // A day and time that run together, if anything.
            return if digits.len() > 2 { self.joined_time(text) } else { Err(Bad::Form) };
        }
        let number: i64 = digits.parse().map_err(|_| Bad::Field)?;
        let (length, order) = (digits.len(), self.style.date.order);
        if length == 3 && self.seen & part::DATE == part::YEAR && (1..=366).contains(&number) {
            self.day_of_year = number;
            return self.note(part::DAY_OF_YEAR | part::MONTH | part::DAY);
        }
        let is_year = length >= 3 || order == DateOrder::Ymd;
        let what = match self.seen & part::DATE {
            0 if is_year => part::YEAR,
            0 if order == DateOrder::Dmy => part::DAY,
            0 | part::YEAR | part::DAY => part::MONTH,
            part::MONTH if self.has_text_month && is_year => part::YEAR,
            part::MONTH => part::DAY,
            part::YEAR_MONTH => {
                if self.has_text_month && length >= 3 && self.two_digits {
                    // What was taken for the year is the day.
                    self.day = self.year;
                    self.year = number;
                    self.two_digits = false;
                    return self.note(part::DAY);
                }
                part::DAY
            }
            part::MONTH_DAY => part::YEAR,
            part::DATE => return self.joined_digits(text),
            _ => return Err(Bad::Form),
        };
        match what {
            part::YEAR => {
                self.year = number;
                self.two_digits = length <= 2;
            }
            part::MONTH => self.month = number,
            _ => self.day = number,
        }
        self.note(what)
    }

    /// `20240131`, `101530`, `1015` or `101530.5`.
    fn joined_digits(&mut self, text: &str) -> Result<(), Bad> {
        if text.contains('.') || self.has(part::DATE) || text.len() < 6 {
            return self.joined_time(text);
        }
        let (rest, day) = text.split_at(text.len() - 2);
        let (year, month) = rest.split_at(rest.len() - 2);
        let number = |digits: &str| digits.parse::<i64>().map_err(|_| Bad::Form);
        (self.year, self.month, self.day) = (number(year)?, number(month)?, number(day)?);
        self.two_digits = year.len() == 2;
        self.note(part::DATE)
    }

    fn joined_time(&mut self, text: &str) -> Result<(), Bad> {
        let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
        let number = |range: std::ops::Range<usize>| digits.get(range).and_then(|part| part.parse::<i64>().ok());
        let second = match digits.len() {
            6 => number(4..6),
            4 => Some(0),
            _ => return Err(Bad::Form),
        };
        let (Some(hour), Some(minute), Some(second)) = (number(0..2), number(2..4), second) else {
            return Err(Bad::Form);
        };
        self.micros = of_day(hour, minute, second, micros_of(fraction)?)?;
        self.note(part::TIME)
    }

    fn finished(mut self) -> Result<Moment, Bad> {
        let has_time = self.has(part::TIME);
        if let Some(afternoon) = self.afternoon {
            let hour = self.micros / HOUR;
            if hour > 12 {
                return Err(Bad::Field);
            }
            self.micros += match (afternoon, hour) {
                (false, 12) => -12 * HOUR,
                (true, 0..12) => 12 * HOUR,
                _ => 0,
            };
        }
        let days = match (self.julian, self.has(part::DATE)) {
            (Some(days), _) => Some(days),
            (None, true) => Some(self.days()?),
            (None, false) if self.seen & part::DATE == 0 && has_time => None,
            (None, false) => return Err(Bad::Form),
        };
        Ok(Moment::At(Local { days, micros: self.micros, has_time, zone: self.zone }))
    }

    fn days(&self) -> Result<i64, Bad> {
        let year = match self.year {
            year if self.before_era && year > 0 => 1 - year,
            year if self.before_era => return Err(if year == 0 { Bad::Field } else { Bad::Form }),
            year @ ..70 if self.two_digits => year + 2_000,
            year if self.two_digits => year + 1_900,
            ..=0 => return Err(Bad::Field),
            year => year,
        };
        if year.abs() > 10_000_000 {
            return Err(Bad::Range);
        }
        if self.seen & part::DAY_OF_YEAR != 0 {
            return Ok(days_from_civil(year, 1, 1) + self.day_of_year - 1);
        }
        if !(1..=12).contains(&self.month) || !(1..=31).contains(&self.day) {
            return Err(Bad::MonthOrDay);
        }
        if self.day > i64::from(days_in_month(year, self.month as u8)) {
            return Err(Bad::Field);
        }
        Ok(days_from_civil(year, self.month as u8, self.day as u8))
    }
}
