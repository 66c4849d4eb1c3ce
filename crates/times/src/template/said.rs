//! What a text says by a template: fields, and the day and time that they make.

use std::ops::RangeInclusive;

use datafusion::common::{DataFusionError, Result};
use saki_base::civil::{JULIAN_EPOCH, MICROS_PER_SECOND, MONTHS, WEEKDAYS, days_from_civil, days_in_month};
use saki_catalog::SqlError;

/// Months in Roman numbers, each before those that are its beginning.
const ROMAN: [(&str, i64); 12] = [
    ("XII", 12),
    ("XI", 11),
    ("X", 10),
    ("IX", 9),
    ("VIII", 8),
    ("VII", 7),
    ("VI", 6),
    ("V", 5),
    ("IV", 4),
    ("III", 3),
    ("II", 2),
    ("I", 1),
];

/// By which calendar a pattern counts: that of ISO 8601, whose years have whole weeks, or the usual one.
fn is_iso(pattern: &str) -> Option<bool> {
    match pattern {
        "IYYY" | "IYY" | "IY" | "I" | "IDDD" | "ID" | "IW" => Some(true),
        "YYYY" | "Y,YYY" | "YYY" | "YY" | "Y" | "MONTH" | "MON" | "MM" | "RM" | "DDD" | "DD" | "D" | "WW" | "W" => {
            Some(false)
        }
        _ => None,
    }
}

/// What a text says.
#[derive(Default)]
pub struct Said {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    /// Of the year: by ISO 8601 if the template counts so.
    week: Option<i64>,
    week_of_month: Option<i64>,
    /// From Monday, 1.
    iso_weekday: Option<i64>,
    century: Option<i64>,
    /// Whether the template counts by ISO 8601, once that is known.
    is_iso: Option<bool>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    second_of_day: Option<i64>,
    is_half: bool,
    afternoon: Option<bool>,
    before_era: bool,
    /// Whether the year was given with two digits at most.
    is_short: bool,
    pub zone_hours: Option<i64>,
    pub zone_minutes: Option<i64>,
    /// Digits that seconds are rounded to.
    pub digits: Option<i64>,
}

impl Said {
    /// Since 1970.
    ///
    /// # Errors
    /// 22008 for a field that there is not, and for a day that no date is; 22007 for a day of an unknown year.
    pub fn days(&self, text: &str) -> Result<i64> {
        const RANGE: RangeInclusive<i64> = days_from_civil(-4713, 11, 24)..=days_from_civil(5_874_897, 12, 31);
        let days = self.counted_days(text)?;
        match RANGE.contains(&days) {
            true => Ok(days),
            false => Err(SqlError::data(format!("date out of range: \"{text}\"")).code("22008").into()),
        }
    }

    fn counted_days(&self, text: &str) -> Result<i64> {
        let bad = || SqlError::data(format!("date/time field value out of range: \"{text}\"")).code("22008");
        if let Some(julian) = self.julian {
            return Ok(julian - JULIAN_EPOCH);
        }
        let year = self.calendar_year();
        if year.abs() > 5_000_000 {
            return Err(bad().into());
        }
        if self.is_iso == Some(true) {
            return self.iso_days(year);
        }
        let of_week = self.week.map(|week| (week - 1) * 7 + 1);
        if let Some(day) = self.day_of_year.or(of_week) {
            if self.year.is_none() && !self.before_era {
                return Err(no_year());
            }
            let length = 337 + i64::from(days_in_month(year, 2));
            return if (1..=length).contains(&day) {
                Ok(days_from_civil(year, 1, 1) + day - 1)
            } else {
                Err(bad().into())
            };
        }
        let of_week = self.week_of_month.map(|week| (week - 1) * 7 + 1);
        let (month, day) = (self.month.unwrap_or(1), self.day.or(of_week).unwrap_or(1));
        if !(1..=12).contains(&month) {
            return Err(bad().into());
        }
        match (1..=i64::from(days_in_month(year, month as u8))).contains(&day) {
            true => Ok(days_from_civil(year, month as u8, day as u8)),
            false => Err(bad().into()),
        }
    }

    /// Without a year it is the one before our era.
    fn calendar_year(&self) -> i64 {
        match (self.year.filter(|year| *year != 0), self.century) {
            (Some(year), _) if self.before_era || year < 0 => 1 - year.abs(),
            (Some(year), Some(century)) if self.is_short => match year % 100 {
                0 => century * 100,
                year => (century - 1) * 100 + year,
            },
            (Some(year), _) => year,
            (None, Some(century)) => (century - 1) * 100 + 1,
            (None, None) => 0,
        }
    }

    /// A day of a year of ISO 8601, whose first week is that of the fourth of January.
    fn iso_days(&self, year: i64) -> Result<i64> {
        let fourth = days_from_civil(year, 1, 4);
        let monday = fourth - (fourth + 3).rem_euclid(7);
        if let Some(week) = self.week {
            return Ok(monday + (week - 1) * 7 + self.iso_weekday.unwrap_or(1) - 1);
        }
        match self.day_of_year {
            Some(_) if self.year.is_none() => Err(no_year()),
            Some(day) => Ok(monday + day - 1),
            None => Ok(days_from_civil(year, 1, 1)),
        }
    }

    /// # Errors
    /// 22007 for a template of both calendars.
    pub fn counts_by(&mut self, pattern: &str) -> Result<()> {
        let Some(is_iso) = is_iso(pattern) else { return Ok(()) };
        match self.is_iso.replace(is_iso) {
            Some(before) if before != is_iso => Err(SqlError::data("invalid combination of date conventions")
                .code("22007")
                .hint("Do not mix Gregorian and ISO week date conventions in a formatting template.")
                .into()),
            _ => Ok(()),
        }
    }

    /// Of the day.
    pub fn micros(&self, text: &str) -> Result<i64> {
        let bad = || SqlError::data(format!("date/time field value out of range: \"{text}\"")).code("22008");
        if self.micros >= MICROS_PER_SECOND || self.second_of_day.is_some_and(|second| second >= 86_400) {
            return Err(bad().into());
        }
        if let Some(second) = self.second_of_day {
            return Ok(second * MICROS_PER_SECOND + self.micros);
        }
        let mut hour = self.hour;
        if self.is_half {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                return Err(SqlError::data(message)
                    .code("22007")
                    .hint("Use the 24-hour clock, or give an hour between 1 and 12.")
                    .into());
            }
            match self.afternoon {
                Some(true) if hour < 12 => hour += 12,
                Some(false) if hour == 12 => hour = 0,
                _ => {}
            }
        }
        if !(0..24).contains(&hour) || self.minute > 59 || self.second > 59 {
            return Err(bad().into());
        }
        Ok((hour * 3_600 + self.minute * 60 + self.second) * MICROS_PER_SECOND + self.micros)
    }

    /// # Errors
    /// 22007 for a field that has been said otherwise before.
    pub fn set(&mut self, pattern: &str, value: i64, digits: usize) -> Result<()> {
        let fraction = |width: u32| value * 10_i64.pow(6_u32.saturating_sub(width));
        let once = |field: &mut Option<i64>, value: i64| match field.replace(value) {
            Some(before) if before != value => Err(conflict(pattern)),
            _ => Ok(()),
        };
        match pattern {
            "HH24" => self.hour = value,
            "HH12" | "HH" => (self.hour, self.is_half) = (value, true),
            "MI" => self.minute = value,
            "SS" => self.second = value,
            "SSSS" | "SSSSS" => once(&mut self.second_of_day, value)?,
            "MS" | "US" => self.micros += fraction(digits as u32),
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                self.micros += fraction(digits as u32);
                self.digits = pattern[2..].parse().ok();
            }
            "YYYY" | "Y,YYY" | "IYYY" => once(&mut self.year, value)?,
            // Of the century that is near 2020.
            "YYY" | "IYY" if value < 100 => self.year = Some(value + if value < 70 { 2_000 } else { 1_900 }),
            "YYY" | "IYY" => self.year = Some(value + if value < 520 { 2_000 } else { 1_000 }),
            "YY" | "Y" | "IY" | "I" => {
                let century = if value < 70 { 2_000 } else { 1_900 };
                self.year = Some(if value < 100 { value + century } else { value });
                self.is_short = true;
            }
            "CC" => self.century = Some(value),
            "WW" | "IW" => self.week = Some(value),
            "W" => self.week_of_month = Some(value),
            // What is no weekday is a Sunday, as to PostgreSQL.
            "ID" => self.iso_weekday = Some(if (1..7).contains(&value) { value } else { 7 }),
            // They say nothing that the rest does not.
            "D" | "Q" => {}
            "MM" => once(&mut self.month, value)?,
            "DD" => once(&mut self.day, value)?,
            "DDD" | "IDDD" => once(&mut self.day_of_year, value)?,
            "J" => once(&mut self.julian, value)?,
            "TZH" => self.zone_hours = Some(value),
            _ => self.zone_minutes = Some(value),
        }
        Ok(())
    }

    /// A name at the beginning of a text: how many bytes it takes.
    ///
    /// # Errors
    /// 22007 for what is none, and for one that contradicts what was said before.
    pub fn name(&mut self, pattern: &str, rest: &str) -> Result<usize> {
        let month = self.month;
        let used = self.known_name(pattern, rest).ok_or_else(|| {
            let word: String = rest.chars().take(pattern.len()).collect();
            SqlError::data(format!("invalid value \"{word}\" for \"{pattern}\"")).code("22007")
        })?;
        match month {
            Some(_) if month != self.month => Err(conflict(pattern)),
            _ => Ok(used),
        }
    }

    fn known_name(&mut self, pattern: &str, rest: &str) -> Option<usize> {
        let lower = rest.to_ascii_lowercase();
        let of = |names: &[&str], cut: bool| {
            let length = |name: &str| if cut { 3 } else { name.len() };
            let begins = |name: &str| lower.starts_with(&name[..length(name)].to_ascii_lowercase());
            let found = names.iter().position(|name| begins(name))?;
            Some((found, length(names[found])))
        };
        match pattern {
            "MONTH" | "MON" => {
                let (month, length) = of(&MONTHS, pattern == "MON")?;
                self.month = Some(month as i64 + 1);
                Some(length)
            }
            "DAY" | "DY" => {
                let (day, length) = of(&WEEKDAYS, pattern == "DY")?;
                self.iso_weekday = Some(if day == 0 { 7 } else { day as i64 });
                Some(length)
            }
            "RM" => {
                let (roman, month) = ROMAN.iter().find(|(roman, _)| strip(rest, roman).is_some())?;
                self.month = Some(*month);
                Some(roman.len())
            }
            "AM" | "PM" | "A.M." | "P.M." => {
                let words = if pattern.len() == 2 { ["am", "pm"] } else { ["a.m.", "p.m."] };
                let half = words.iter().position(|word| lower.starts_with(word))?;
                self.afternoon = Some(half == 1);
                Some(words[half].len())
            }
            _ => {
                let words = if pattern.len() == 2 { ["ad", "bc"] } else { ["a.d.", "b.c."] };
                let era = words.iter().position(|word| lower.starts_with(word))?;
                self.before_era = era == 1;
                Some(words[era].len())
            }
        }
    }
}

fn conflict(pattern: &str) -> DataFusionError {
    SqlError::data(format!("conflicting values for \"{pattern}\" field in formatting string"))
        .code("22007")
        .detail("This value contradicts a previous setting for the same field type.")
        .into()
}

fn no_year() -> DataFusionError {
    SqlError::data("cannot calculate day of year without year information").code("22007").into()
}

/// What follows a prefix that is compared without regard to case.
pub fn strip<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}
