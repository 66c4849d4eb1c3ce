//! `to_date` and `to_timestamp` of a text by a template: the patterns of `to_char`, read.

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use arrow_schema::DataType;
use datafusion::common::{DataFusionError, Result};
use saki_base::civil::{
    JULIAN_EPOCH, MICROS_PER_DAY, MICROS_PER_SECOND, MONTHS, WEEKDAYS, days_from_civil, days_in_month,
};
use saki_catalog::SqlError;
use saki_parameters::{SessionTime, TimeZone};

use crate::conversion::rounded;
use crate::datum::Datum;
use crate::function::{TimeFunction, no_function};

/// Patterns, each before those that are its beginning, and how many digits they have.
const PATTERNS: [(&str, usize); 53] = [
    ("HH24", 2),
    ("HH12", 2),
    ("HH", 2),
    ("MI", 2),
    ("SSSSS", 5),
    ("SSSS", 5),
    ("SS", 2),
    ("MS", 3),
    ("US", 6),
    ("FF1", 1),
    ("FF2", 2),
    ("FF3", 3),
    ("FF4", 4),
    ("FF5", 5),
    ("FF6", 6),
    ("Y,YYY", 5),
    ("YYYY", 4),
    ("YYY", 3),
    ("YY", 2),
    ("IYYY", 4),
    ("IYY", 3),
    ("IY", 2),
    ("IDDD", 3),
    ("ID", 1),
    ("IW", 2),
    ("I", 1),
    ("MONTH", 0),
    ("MON", 0),
    ("MM", 2),
    ("RM", 0),
    ("WW", 2),
    ("W", 1),
    ("Q", 1),
    ("CC", 2),
    ("DAY", 0),
    ("DY", 0),
    ("DDD", 3),
    ("DD", 2),
    ("D", 1),
    ("Y", 1),
    ("J", 7),
    ("A.M.", 0),
    ("P.M.", 0),
    ("AM", 0),
    ("PM", 0),
    ("A.D.", 0),
    ("B.C.", 0),
    ("AD", 0),
    ("BC", 0),
    ("TZH", 3),
    ("TZM", 2),
    ("TZ", 0),
    ("OF", 0),
];

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

/// `to_date(text, template)`.
pub const TO_DATE: TimeFunction = TimeFunction::new(
    "to_date",
    (2, 2),
    |types, _| text_type(types, DataType::Date32),
    |args, _| {
        let (Some(text), Some(template)) = (args[0].text(), args[1].text()) else { return Ok(Datum::Null) };
        Ok(Datum::Date(read(text, template)?.days(text)? as i32))
    },
);

fn text_type(types: &[DataType], of: DataType) -> Result<DataType> {
    match types.iter().all(|of| matches!(of, DataType::Utf8 | DataType::Null)) {
        true => Ok(of),
        false => Err(no_function("to_date", types).into()),
    }
}

/// `to_timestamp(text, template)`: microseconds since 1970.
///
/// # Errors
/// 22007 for a text that does not fit, 22008 for a field that there is not.
pub fn timestamp(text: &str, template: &str, session: &SessionTime) -> Result<i64> {
    let said = read(text, template)?;
    let local = said.days(text)?.saturating_mul(MICROS_PER_DAY).saturating_add(said.micros(text)?);
    let instant = match (said.zone_hours, said.zone_minutes) {
        (None, None) => session.style.zone.instant(local),
        (hours, minutes) => {
            let (hours, minutes) = (hours.unwrap_or(0), minutes.unwrap_or(0));
            let sign = if hours < 0 { -1 } else { 1 };
            TimeZone::fixed((hours * 3_600 + sign * minutes * 60) as i32).instant(local)
        }
    };
    rounded(instant, said.digits.unwrap_or(6))
}

/// What a text says.
#[derive(Default)]
struct Said {
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
    zone_hours: Option<i64>,
    zone_minutes: Option<i64>,
    /// Digits that seconds are rounded to.
    digits: Option<i64>,
}

impl Said {
    /// Since 1970.
    ///
    /// # Errors
    /// 22008 for a field that there is not, and for a day that no date is; 22007 for a day of an unknown year.
    fn days(&self, text: &str) -> Result<i64> {
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
    fn counts_by(&mut self, pattern: &str) -> Result<()> {
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
    fn micros(&self, text: &str) -> Result<i64> {
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
    fn set(&mut self, pattern: &str, value: i64, digits: usize) -> Result<()> {
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
    fn name(&mut self, pattern: &str, rest: &str) -> Result<usize> {
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
fn strip<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

fn is_separator(letter: char) -> bool {
    letter.is_ascii_punctuation() || letter.is_whitespace()
}

/// Reads a text by a template. Blanks and separators match each other, and blanks around fields count for nothing.
fn read(text: &str, template: &str) -> Result<Said> {
    let mut said = Said::default();
    let (mut rest, mut template) = (text.trim_start(), template);
    // With FX each character of the template stands for one of the text.
    let (mut is_exact, mut is_free) = (false, false);
    // How many characters more have been passed over than the template has.
    let mut ahead = 0_i64;
    if strip(template, "FX").is_some() {
        rest = text;
    }
    while let Some(first) = template.chars().next() {
        if let Some(after) = strip(template, "FX") {
            (is_exact, template) = (true, after);
            continue;
        }
        if let Some(after) = strip(template, "FM") {
            (is_free, template) = (true, after);
            continue;
        }
        if let Some((pattern, width)) = PATTERNS.iter().find(|(pattern, _)| strip(template, pattern).is_some()) {
            template = &template[pattern.len()..];
            let ordinal = strip(template, "TH");
            template = ordinal.unwrap_or(template);
            if !is_exact || *width > 0 {
                pass_blanks(&mut rest, &mut ahead);
            }
            if rest.is_empty() {
                break;
            }
            // The sign of a zone may have been taken for a separator.
            let passed = text.len() - rest.len();
            if *pattern == "TZH" && ahead > 0 && text[..passed].ends_with('-') {
                rest = &text[passed - 1..];
            }
            let free = std::mem::take(&mut is_free) || ordinal.is_some();
            let used = field(&mut said, pattern, *width, rest, if free { "" } else { template })?;
            rest = &rest[used..];
            if ordinal.is_some() {
                // `st`, `nd`, `rd` or `th`.
                rest = rest.char_indices().nth(2).map_or("", |(at, _)| &rest[at..]);
            }
            if !is_exact {
                ahead = 0;
                pass_blanks(&mut rest, &mut ahead);
            }
            continue;
        }
        if first == '"' {
            // It stands for as many characters, whichever they are.
            let letters;
            (letters, template) = quoted(&template[1..]);
            (0..letters).for_each(|_| pass(&mut rest, &mut ahead));
            continue;
        }
        // A quotation mark that begins nothing.
        template = template.strip_prefix('\\').filter(|after| after.starts_with('"')).unwrap_or(template);
        template = template.get(first.len_utf8()..).unwrap_or_default();
        if is_exact {
            pass(&mut rest, &mut 0);
        } else if is_separator(first) {
            ahead -= 1;
            if let Some(next) = rest.chars().next().filter(|next| is_separator(*next)) {
                rest = &rest[next.len_utf8()..];
                ahead += 1;
            }
        } else {
            pass(&mut rest, &mut ahead);
        }
    }
    Ok(said)
}

/// How many characters a template has up to the quotation mark that ends them, and what follows it. A backslash stands
/// before one that does not.
fn quoted(template: &str) -> (usize, &str) {
    let (mut letters, mut escaped) = (0, false);
    for (at, letter) in template.char_indices() {
        match letter {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return (letters, &template[at + 1..]),
            _ => (letters, escaped) = (letters + 1, false),
        }
    }
    (letters, "")
}

/// A field at the beginning of a text: how many bytes it takes.
fn field(said: &mut Said, pattern: &str, width: usize, rest: &str, template: &str) -> Result<usize> {
    said.counts_by(pattern)?;
    match pattern {
        "TZ" | "OF" => {
            let message = format!("formatting field \"{pattern}\" is only supported in to_char");
            Err(SqlError::unsupported(message).into())
        }
        "Y,YYY" if rest.contains(',') => thousands(said, rest),
        _ if width > 0 => number(said, pattern, width, rest, template),
        _ => said.name(pattern, rest),
    }
}

/// A year with a comma behind its thousands.
fn thousands(said: &mut Said, rest: &str) -> Result<usize> {
    let length = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let invalid = || SqlError::data("invalid input string for \"Y,YYY\"").code("22007");
    let first = length(rest);
    let after = rest[first..].strip_prefix(',').ok_or_else(invalid)?;
    let second = length(after).min(3);
    let number = |digits: &str| digits.parse::<i64>().map_err(|_| invalid());
    let (thousands, ones) = (number(&rest[..first])?, number(&after[..second])?);
    said.set("Y,YYY", thousands.saturating_mul(1_000).saturating_add(ones), second)?;
    Ok(first + 1 + second)
}

fn pass_blanks(rest: &mut &str, ahead: &mut i64) {
    let trimmed = rest.trim_start();
    *ahead += rest.chars().count() as i64 - trimmed.chars().count() as i64;
    *rest = trimmed;
}

/// Passes over a character, unless one too many has been.
fn pass(rest: &mut &str, ahead: &mut i64) {
    if *ahead > 0 {
        *ahead -= 1;
    } else if let Some(next) = rest.chars().next() {
        *rest = &rest[next.len_utf8()..];
    }
}

/// A number at the beginning of a text: of so many digits if a number follows it in the template, else of all.
fn number(said: &mut Said, pattern: &str, width: usize, rest: &str, template: &str) -> Result<usize> {
    let is_signed = rest.starts_with(['+', '-']);
    let digits = rest[usize::from(is_signed)..].bytes().take_while(u8::is_ascii_digit).count();
    let follows = template.starts_with(|next: char| next.is_ascii_digit())
        || PATTERNS.iter().any(|(pattern, width)| *width > 0 && strip(template, pattern).is_some());
    let invalid = || {
        let word: String = rest.chars().take(width).collect();
        SqlError::data(format!("invalid value \"{word}\" for \"{pattern}\"")).code("22007")
    };
    let loose = || "If your source string is not fixed-width, try using the \"FM\" modifier.";
    if follows {
        let remain = rest.chars().count();
        if remain < width {
            let message = format!("source string too short for \"{pattern}\" formatting field");
            return Err(SqlError::data(message)
                .code("22007")
                .detail(format!("Field requires {width} characters, but only {remain} remain."))
                .hint(loose())
                .into());
        }
        let parsed = usize::from(is_signed) + digits;
        if digits > 0 && parsed < width {
            return Err(invalid()
                .detail(format!("Field requires {width} characters, but only {parsed} could be parsed."))
                .hint(loose())
                .into());
        }
    }
    let is_fraction = matches!(pattern, "MS" | "US");
    let taken = if follows { digits.min(width - usize::from(is_signed)) } else { digits };
    let taken = if is_fraction { taken.min(width) } else { taken };
    if taken == 0 {
        return Err(invalid().detail("Value must be an integer.").into());
    }
    let end = usize::from(is_signed) + taken;
    let too_large = || {
        SqlError::data(format!("value for \"{pattern}\" in source string is out of range"))
            .code("22008")
            .detail("Value must be in the range -2147483648 to 2147483647.")
    };
    let value: i32 = rest[..end].parse().map_err(|_| too_large())?;
    said.set(pattern, value.into(), taken)?;
    Ok(end)
}
