//! How dates, times and intervals look in text: `DateStyle`, `IntervalStyle`, `TimeZone`.

use std::fmt::{self, Write};

use saki_base::Interval;
use saki_base::civil::{CivilDate, MICROS_PER_DAY, MICROS_PER_SECOND, MONTHS, WEEKDAYS, civil_from_days};

use saki_base::interval;

use crate::zone::TimeZone;

/// The order in which day, month and year are read where the text does not say.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DateOrder {
    #[default]
    Mdy,
    Dmy,
    Ymd,
}

/// In what form dates are written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DateOutput {
    #[default]
    Iso,
    Sql,
    Postgres,
    German,
}

/// `DateStyle`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DateStyle {
    pub output: DateOutput,
    pub order: DateOrder,
}

/// `IntervalStyle`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum IntervalStyle {
    #[default]
    Postgres,
    PostgresVerbose,
    SqlStandard,
    Iso8601,
}

/// How a session writes and reads times.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct TimeStyle {
    pub zone: TimeZone,
    pub date: DateStyle,
    pub interval: IntervalStyle,
}

impl DateStyle {
    /// Reads `ISO, MDY` and its like; what is not said stays as in `before`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str, before: Self) -> Result<Self, String> {
        let (mut output, mut order) = (None, None);
        let conflict = || "Conflicting \"datestyle\" specifications.".to_owned();
        for word in text.split(',').map(str::trim) {
            let lower = word.to_ascii_lowercase();
            let (said_output, said_order) = match &*lower {
                "iso" => (Some(DateOutput::Iso), None),
                "sql" => (Some(DateOutput::Sql), None),
                "german" => (Some(DateOutput::German), (order.is_none()).then_some(DateOrder::Dmy)),
                "ymd" => (None, Some(DateOrder::Ymd)),
                word if word.starts_with("postgres") => (Some(DateOutput::Postgres), None),
                word if word == "dmy" || word.starts_with("euro") => (None, Some(DateOrder::Dmy)),
                word if word == "mdy" || word == "us" || word.starts_with("noneuro") => (None, Some(DateOrder::Mdy)),
                "default" => (Some(DateOutput::Iso), Some(DateOrder::Mdy)),
                _ => return Err(format!("Unrecognized key word: {word:?}.")),
            };
            if said_output.is_some_and(|said| output.is_some_and(|before| before != said)) {
                return Err(conflict());
            }
            if said_order.is_some_and(|said| order.is_some_and(|before| before != said)) {
                return Err(conflict());
            }
            (output, order) = (said_output.or(output), said_order.or(order));
        }
        Ok(Self { output: output.unwrap_or(before.output), order: order.unwrap_or(before.order) })
    }
}

impl fmt::Display for DateStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let output = match self.output {
            DateOutput::Iso => "ISO",
            DateOutput::Sql => "SQL",
            DateOutput::Postgres => "Postgres",
            DateOutput::German => "German",
        };
        let order = match self.order {
            DateOrder::Mdy => "MDY",
            DateOrder::Dmy => "DMY",
            DateOrder::Ymd => "YMD",
        };
        write!(f, "{output}, {order}")
    }
}

impl IntervalStyle {
    /// By its name, whatever the case.
    pub fn read(text: &str) -> Option<Self> {
        Some(match &*text.to_ascii_lowercase() {
            "postgres" => Self::Postgres,
            "postgres_verbose" => Self::PostgresVerbose,
            "sql_standard" => Self::SqlStandard,
            "iso_8601" => Self::Iso8601,
            _ => return None,
        })
    }
}

impl TimeStyle {
    /// Whether all looks as by default: ISO dates and Greenwich's time.
    pub fn is_plain(&self) -> bool {
        self.zone.is_utc() && self.date.output == DateOutput::Iso
    }

    /// Writes days since 1970.
    pub fn write_date(&self, days: i32, out: &mut impl Write) -> fmt::Result {
        match days {
            i32::MAX => return out.write_str("infinity"),
            i32::MIN => return out.write_str("-infinity"),
            _ => {}
        }
        let date = civil_from_days(days.into());
        self.write_day(date, if self.date.output == DateOutput::Postgres { '-' } else { '/' }, out)?;
        write_era(date, out)
    }

    /// Writes microseconds of the day.
    pub fn write_time(&self, micros: i64, out: &mut impl Write) -> fmt::Result {
        write_clock(micros, out)
    }

    /// Writes microseconds since 1970 without a zone.
    pub fn write_timestamp(&self, micros: i64, out: &mut impl Write) -> fmt::Result {
        self.write_moment(micros, None, out)
    }

    /// Writes an instant, microseconds since 1970, by the zone's clocks.
    pub fn write_timestamptz(&self, micros: i64, out: &mut impl Write) -> fmt::Result {
        if matches!(micros, i64::MAX | i64::MIN) {
            return self.write_moment(micros, None, out);
        }
        if self.date.output == DateOutput::Iso {
            let seconds = self.zone.seconds_at(micros);
            let local = micros.saturating_add(i64::from(seconds) * MICROS_PER_SECOND);
            return self.write_moment(local, Some((seconds, "")), out);
        }
        let offset = self.zone.at(micros);
        let local = micros.saturating_add(i64::from(offset.seconds) * MICROS_PER_SECOND);
        self.write_moment(local, Some((offset.seconds, &offset.abbreviation)), out)
    }

    fn write_moment(&self, local: i64, zone: Option<(i32, &str)>, out: &mut impl Write) -> fmt::Result {
        match local {
            i64::MAX => return out.write_str("infinity"),
            i64::MIN => return out.write_str("-infinity"),
            _ => {}
        }
        let days = local.div_euclid(MICROS_PER_DAY);
        let (date, of_day) = (civil_from_days(days), local.rem_euclid(MICROS_PER_DAY));
        match self.date.output {
            DateOutput::Iso => {
                self.write_day(date, '-', out)?;
                out.write_char(' ')?;
                write_clock(of_day, out)?;
                if let Some((seconds, _)) = zone {
                    write_offset(seconds, out)?;
                }
            }
            DateOutput::Sql | DateOutput::German => {
                self.write_day(date, '/', out)?;
                out.write_char(' ')?;
                write_clock(of_day, out)?;
                write_zone(zone, out)?;
            }
            DateOutput::Postgres => {
                // 1970-01-01 was a Thursday.
                let weekday = &WEEKDAYS[(days + 4).rem_euclid(7) as usize][..3];
                let month = &MONTHS[usize::from(date.month) - 1][..3];
                match self.date.order {
                    DateOrder::Dmy => write!(out, "{weekday} {:02} {month} ", date.day)?,
                    _ => write!(out, "{weekday} {month} {:02} ", date.day)?,
                }
                write_clock(of_day, out)?;
                write!(out, " {:04}", year(date))?;
                write_zone(zone, out)?;
            }
        }
        write_era(date, out)
    }

    /// A day in the style's form; `separator` stands in those that have no other.
    fn write_day(&self, date: CivilDate, separator: char, out: &mut impl Write) -> fmt::Result {
        let (year, month, day) = (year(date), date.month, date.day);
        match (self.date.output, self.date.order) {
            (DateOutput::Iso, _) => write!(out, "{year:04}-{month:02}-{day:02}"),
            (DateOutput::German, _) => write!(out, "{day:02}.{month:02}.{year:04}"),
            (DateOutput::Postgres, DateOrder::Ymd) => write!(out, "{year:04}-{month:02}-{day:02}"),
            (_, DateOrder::Dmy) => write!(out, "{day:02}{separator}{month:02}{separator}{year:04}"),
            (_, _) => write!(out, "{month:02}{separator}{day:02}{separator}{year:04}"),
        }
    }

    /// Writes an interval of months, days and microseconds.
    pub fn write_interval(&self, months: i32, days: i32, micros: i64, out: &mut impl Write) -> fmt::Result {
        let parts = Parts { years: months / 12, months: months % 12, days, micros };
        match self.interval {
            IntervalStyle::Postgres => write!(out, "{}", Interval { months, days, micros }),
            IntervalStyle::PostgresVerbose => parts.write_verbose(out),
            IntervalStyle::SqlStandard => parts.write_standard(out),
            IntervalStyle::Iso8601 => parts.write_iso(out),
        }
    }
}

/// The year as people count it.
fn year(date: CivilDate) -> i64 {
    if date.year > 0 { date.year } else { 1 - date.year }
}

fn write_era(date: CivilDate, out: &mut impl Write) -> fmt::Result {
    if date.year > 0 { Ok(()) } else { out.write_str(" BC") }
}

fn write_clock(of_day: i64, out: &mut impl Write) -> fmt::Result {
    interval::write_clock(of_day.unsigned_abs(), out)
}

fn write_fraction(micros: i64, out: &mut impl Write) -> fmt::Result {
    if micros == 0 {
        return Ok(());
    }
    let digits = format!("{micros:06}");
    write!(out, ".{}", digits.trim_end_matches('0'))
}

fn write_offset(seconds: i32, out: &mut impl Write) -> fmt::Result {
    let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
    write!(out, "{sign}{:02}", seconds / 3_600)?;
    if seconds % 3_600 != 0 {
        write!(out, ":{:02}", seconds / 60 % 60)?;
    }
    if seconds % 60 != 0 {
        write!(out, ":{:02}", seconds % 60)?;
    }
    Ok(())
}

fn write_zone(zone: Option<(i32, &str)>, out: &mut impl Write) -> fmt::Result {
    match zone {
        None => Ok(()),
        Some((_, abbreviation)) if abbreviation.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            write!(out, " {abbreviation}")
        }
        Some((seconds, _)) => {
            out.write_char(' ')?;
            write_offset(seconds, out)
        }
    }
}

/// An interval in its parts, years and months of one sign.
struct Parts {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

impl Parts {
    fn units(&self) -> [(i64, &'static str); 3] {
        [(self.years.into(), "year"), (self.months.into(), "mon"), (self.days.into(), "day")]
    }

    /// `4:05:06.5`
    fn write_hours(&self, out: &mut impl Write) -> fmt::Result {
        let micros = self.micros.unsigned_abs();
        let seconds = micros / 1_000_000;
        write!(out, "{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
        write_fraction((micros % 1_000_000) as i64, out)
    }

    /// `@ 1 year 2 mons -3 days 4 hours 5 mins 6.5 secs`; the first part has no sign, and `ago` turns all.
    fn write_verbose(&self, out: &mut impl Write) -> fmt::Result {
        out.write_char('@')?;
        let (mut first, mut turned) = (true, false);
        let seconds = self.micros / MICROS_PER_SECOND;
        let clock = [(seconds / 3_600, "hour"), (seconds / 60 % 60, "min")];
        for (count, unit) in self.units().into_iter().chain(clock).filter(|(count, _)| *count != 0) {
            if first {
                (first, turned) = (false, count < 0);
            }
            let count = if turned { -count } else { count };
            write!(out, " {count} {unit}{}", if count == 1 { "" } else { "s" })?;
        }
        let rest = self.micros % (60 * MICROS_PER_SECOND);
        if rest != 0 {
            if first {
                (first, turned) = (false, rest < 0);
            }
            let rest = if turned { -rest } else { rest };
            write!(out, " {}{}", if rest < 0 { "-" } else { "" }, rest.abs() / MICROS_PER_SECOND)?;
            write_fraction(rest.abs() % MICROS_PER_SECOND, out)?;
            out.write_str(if rest == MICROS_PER_SECOND { " sec" } else { " secs" })?;
        }
        if first {
            out.write_str(" 0")?;
        }
        if turned { out.write_str(" ago") } else { Ok(()) }
    }

    /// `1-2`, `3 4:05:06`, or all with signs where they differ.
    fn write_standard(&self, out: &mut impl Write) -> fmt::Result {
        let months = i64::from(self.years) * 12 + i64::from(self.months);
        let parts = [months, self.days.into(), self.micros];
        let (has_negative, has_positive) = (parts.iter().any(|part| *part < 0), parts.iter().any(|part| *part > 0));
        let (has_months, has_rest) = (months != 0, self.days != 0 || self.micros != 0);
        let (years, of_year) = (self.years.abs(), self.months.abs());
        if !has_negative && !has_positive {
            return out.write_char('0');
        }
        if has_negative && has_positive || has_months && has_rest {
            let sign = |part: i64| if part < 0 { '-' } else { '+' };
            write!(out, "{}{years}-{of_year} ", sign(months))?;
            write!(out, "{}{} ", sign(self.days.into()), self.days.unsigned_abs())?;
            out.write_char(sign(self.micros))?;
            return self.write_hours(out);
        }
        if has_negative {
            out.write_char('-')?;
        }
        if has_months {
            return write!(out, "{years}-{of_year}");
        }
        if self.days != 0 {
            write!(out, "{} ", self.days.unsigned_abs())?;
        }
        self.write_hours(out)
    }

    /// `P1Y2M-3DT4H5M6.5S`
    fn write_iso(&self, out: &mut impl Write) -> fmt::Result {
        if self.years == 0 && self.months == 0 && self.days == 0 && self.micros == 0 {
            return out.write_str("PT0S");
        }
        out.write_char('P')?;
        for (count, letter) in [(self.years, 'Y'), (self.months, 'M'), (self.days, 'D')] {
            if count != 0 {
                write!(out, "{count}{letter}")?;
            }
        }
        if self.micros == 0 {
            return Ok(());
        }
        out.write_char('T')?;
        let seconds = self.micros / MICROS_PER_SECOND;
        for (count, letter) in [(seconds / 3_600, 'H'), (seconds / 60 % 60, 'M')] {
            if count != 0 {
                write!(out, "{count}{letter}")?;
            }
        }
        let rest = self.micros % (60 * MICROS_PER_SECOND);
        if rest == 0 {
            return Ok(());
        }
        write!(out, "{}{}", if rest < 0 { "-" } else { "" }, rest.abs() / MICROS_PER_SECOND)?;
        write_fraction(rest.abs() % MICROS_PER_SECOND, out)?;
        out.write_char('S')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saki_base::civil::days_from_civil;

    fn style(date: &str) -> TimeStyle {
        let zone = TimeZone::read("Europe/Berlin").unwrap();
        TimeStyle { zone, date: DateStyle::read(date, DateStyle::default()).unwrap(), ..TimeStyle::default() }
    }

    /// What PostgreSQL 15 writes.
    #[test]
    fn times_look_as_their_style_says() {
        let noon = days_from_civil(2024, 7, 1) * MICROS_PER_DAY + 12 * 3_600 * MICROS_PER_SECOND;
        let cases = [
            ("iso", "2024-07-01 14:00:00.5+02", "2024-07-01 12:00:00", "2024-07-01", "0044-03-15 BC"),
            ("german", "01.07.2024 14:00:00.5 CEST", "01.07.2024 12:00:00", "01.07.2024", "15.03.0044 BC"),
            ("sql, dmy", "01/07/2024 14:00:00.5 CEST", "01/07/2024 12:00:00", "01/07/2024", "15/03/0044 BC"),
            ("sql, mdy", "07/01/2024 14:00:00.5 CEST", "07/01/2024 12:00:00", "07/01/2024", "03/15/0044 BC"),
            ("postgres", "Mon Jul 01 14:00:00.5 2024 CEST", "Mon Jul 01 12:00:00 2024", "07-01-2024", "03-15-0044 BC"),
        ];
        for (date, instant, local, day, early) in cases {
            let (style, mut out) = (style(date), String::new());
            style.write_timestamptz(noon + 500_000, &mut out).unwrap();
            out.push('|');
            style.write_timestamp(noon, &mut out).unwrap();
            out.push('|');
            style.write_date(days_from_civil(2024, 7, 1) as i32, &mut out).unwrap();
            out.push('|');
            style.write_date(days_from_civil(-43, 3, 15) as i32, &mut out).unwrap();
            assert_eq!(out, format!("{instant}|{local}|{day}|{early}"), "{date}");
        }
        let mut out = String::new();
        style("iso").write_timestamptz(i64::MIN, &mut out).unwrap();
        assert_eq!(out, "-infinity");
    }

    #[test]
    fn intervals_look_as_their_style_says() {
        let values = [
            (14, -3, 14_706_500_000),
            (-14, 0, 0),
            (0, 0, 0),
            (0, -1, 3_600_000_000),
            (0, 0, 500_000),
            (0, 0, -1_000_000),
            (1, 0, 3_600_000_000),
            (0, 3, 0),
            (0, -1, -3_601_000_000),
        ];
        let cases = [
            (
                "postgres",
                "1 year 2 mons -3 days +04:05:06.5|-1 years -2 mons|00:00:00|-1 days +01:00:00|00:00:00.5|-00:00:01|\
                 1 mon 01:00:00|3 days|-1 days -01:00:01",
            ),
            (
                "postgres_verbose",
                "@ 1 year 2 mons -3 days 4 hours 5 mins 6.5 secs|@ 1 year 2 mons ago|@ 0|@ 1 day -1 hours ago|\
                 @ 0.5 secs|@ 1 sec ago|@ 1 mon 1 hour|@ 3 days|@ 1 day 1 hour 1 sec ago",
            ),
            (
                "sql_standard",
                "+1-2 -3 +4:05:06.5|-1-2|0|+0-0 -1 +1:00:00|0:00:00.5|-0:00:01|+0-1 +0 +1:00:00|3 0:00:00|-1 1:00:01",
            ),
            ("iso_8601", "P1Y2M-3DT4H5M6.5S|P-1Y-2M|PT0S|P-1DT1H|PT0.5S|PT-1S|P1MT1H|P3D|P-1DT-1H-1S"),
        ];
        for (name, expected) in cases {
            let style = TimeStyle { interval: IntervalStyle::read(name).unwrap(), ..TimeStyle::default() };
            let shown = values.map(|(months, days, micros)| {
                let mut out = String::new();
                style.write_interval(months, days, micros, &mut out).unwrap();
                out
            });
            assert_eq!(shown.join("|"), expected, "{name}");
        }
    }

    #[test]
    fn date_styles_are_read_word_by_word() {
        let shown = |text: &str| DateStyle::read(text, DateStyle::default()).map(|style| style.to_string());
        assert_eq!(shown("german").unwrap(), "German, DMY");
        assert_eq!(shown("iso, european").unwrap(), "ISO, DMY");
        assert_eq!(shown("ymd").unwrap(), "ISO, YMD");
        assert_eq!(shown("nonsense").unwrap_err(), "Unrecognized key word: \"nonsense\".");
        assert_eq!(shown("sql, iso").unwrap_err(), "Conflicting \"datestyle\" specifications.");
    }
}
