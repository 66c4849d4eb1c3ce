//! Time zones: of the IANA database, and fixed offsets.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, MappedLocalTime, NaiveDateTime, Offset, TimeZone as _};
use chrono_tz::{OffsetName, TZ_VARIANTS, Tz};
use saki_base::civil::MICROS_PER_SECOND;

/// A time zone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TimeZone {
    /// As it is shown.
    name: String,
    rule: Rule,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Rule {
    Named(Tz),
    /// Seconds east of Greenwich.
    Fixed(i32),
}

/// A zone's offset at some instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneOffset {
    /// Seconds east of Greenwich.
    pub seconds: i32,
    /// `CEST`, or `+03` where a zone has no letters for it.
    pub abbreviation: String,
}

impl Default for TimeZone {
    fn default() -> Self {
        Self { name: "UTC".to_owned(), rule: Rule::Named(Tz::UTC) }
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Seconds of offsets, at most; PostgreSQL's bound.
const OFFSET_MAX: i32 = 168 * 3_600;

impl TimeZone {
    /// Reads a name whatever its case, hours east of Greenwich (`-3.5`), or an abbreviation with hours *west* of it, as
    /// POSIX has them (`UTC+3`, `+03:00`, `03:00`, `<+03>-03`). `None`: it is none of them.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(hours) = text.parse::<f64>() {
            let seconds = (hours * 3_600.0).round();
            return (seconds.abs() <= f64::from(OFFSET_MAX)).then(|| Self::fixed(seconds as i32));
        }
        if let Some(named) = Self::named(text) {
            return Some(named);
        }
        let (abbreviation, west) = posix(text)?;
        let offset = clock(west)?;
        let known = !abbreviation.is_empty() || text.starts_with(|first: char| matches!(first, '+' | '-' | '0'..='9'));
        (known && offset.abs() <= OFFSET_MAX).then(|| Self { name: text.to_owned(), rule: Rule::Fixed(-offset) })
    }

    /// A zone of the IANA database, whatever the case.
    pub fn named(text: &str) -> Option<Self> {
        let zone = match Tz::from_str(text) {
            Ok(zone) => zone,
            Err(_) => *TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(text))?,
        };
        Some(Self { name: zone.name().to_owned(), rule: Rule::Named(zone) })
    }

    /// So many seconds east of Greenwich.
    pub fn fixed(seconds: i32) -> Self {
        let hours = |seconds: i32| {
            let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
            let minutes = if seconds % 3_600 == 0 { String::new() } else { format!(":{:02}", seconds / 60 % 60) };
            format!("{sign}{:02}{minutes}", seconds / 3_600)
        };
        Self { name: format!("<{}>{}", hours(seconds), hours(-seconds)), rule: Rule::Fixed(seconds) }
    }

    /// Whether its time is Greenwich's at all times.
    pub fn is_utc(&self) -> bool {
        matches!(self.rule, Rule::Fixed(0) | Rule::Named(Tz::UTC))
    }

    /// Its name in the IANA database, if it has one.
    pub fn iana(&self) -> Option<&'static str> {
        match self.rule {
            Rule::Named(zone) => Some(zone.name()),
            Rule::Fixed(_) => None,
        }
    }

    /// Its offset at an instant: microseconds since 1970.
    pub fn at(&self, micros: i64) -> ZoneOffset {
        let zone = match self.rule {
            Rule::Fixed(seconds) => {
                let abbreviation = self.name.trim_start_matches('<');
                let end = abbreviation.find(['>', '+', '-']).filter(|end| *end > 0);
                let abbreviation = match end {
                    Some(end) => abbreviation[..end].to_owned(),
                    None => abbreviation.split('>').next().unwrap_or_default().to_owned(),
                };
                return ZoneOffset { seconds, abbreviation };
            }
            Rule::Named(zone) => zone,
        };
        let offset = zone.offset_from_utc_datetime(&similar(micros));
        let seconds = offset.fix().local_minus_utc();
        ZoneOffset { seconds, abbreviation: offset.abbreviation().unwrap_or_default().to_owned() }
    }

    /// Seconds east of Greenwich at an instant.
    pub fn seconds_at(&self, micros: i64) -> i32 {
        match self.rule {
            Rule::Fixed(seconds) => seconds,
            Rule::Named(Tz::UTC) => 0,
            Rule::Named(zone) => zone.offset_from_utc_datetime(&similar(micros)).fix().local_minus_utc(),
        }
    }

    /// What its clocks show at an instant; both are microseconds since 1970. Infinity stays what it is.
    pub fn local(&self, micros: i64) -> i64 {
        if matches!(micros, i64::MAX | i64::MIN) {
            return micros;
        }
        micros.saturating_add(i64::from(self.seconds_at(micros)) * MICROS_PER_SECOND)
    }

    /// The instant at which its clocks show a time. Of a time that they show twice it is the second, and of one that
    /// they skip it is as if they had not been set forward yet: both by standard time, as in PostgreSQL.
    pub fn instant(&self, local: i64) -> i64 {
        if matches!(local, i64::MAX | i64::MIN) {
            return local;
        }
        let seconds = match self.rule {
            Rule::Fixed(seconds) => seconds,
            Rule::Named(Tz::UTC) => 0,
            Rule::Named(zone) => match zone.offset_from_local_datetime(&similar(local)) {
                MappedLocalTime::Single(offset) => offset.fix().local_minus_utc(),
                MappedLocalTime::Ambiguous(first, second) => {
                    first.fix().local_minus_utc().min(second.fix().local_minus_utc())
                }
                // Before the gap.
                MappedLocalTime::None => self.seconds_at(local.saturating_sub(86_400 * MICROS_PER_SECOND)),
            },
        };
        local.saturating_sub(i64::from(seconds) * MICROS_PER_SECOND)
    }
}

/// A moment that zones treat alike: those that are later than what the database lists, as a year that begins with the
/// same day of the week and is as long; those that are earlier than calendars count here, as the first.
fn similar(micros: i64) -> NaiveDateTime {
    /// The database lists changes until 2099; years repeat after 28, but for centuries.
    const LAST_LISTED: i32 = 2_070;
    let seconds = micros.div_euclid(MICROS_PER_SECOND);
    // Four centuries are always as long, in days and in weeks.
    const ERA_SECONDS: i64 = 146_097 * 86_400;
    /// 2000-01-01.
    const MILLENNIUM: i64 = 946_684_800;
    let seconds = match seconds >= MILLENNIUM {
        true => MILLENNIUM + (seconds - MILLENNIUM) % ERA_SECONDS,
        false => seconds.max(-MILLENNIUM * 200),
    };
    let moment = DateTime::from_timestamp(seconds, 0).unwrap_or_default().naive_utc();
    if moment.year() <= LAST_LISTED {
        return moment;
    }
    let first = |year: i32| chrono::NaiveDate::from_ymd_opt(year, 1, 1);
    let alike = |year: &i32| {
        let (Some(one), Some(other)) = (first(*year), first(moment.year())) else { return false };
        one.weekday() == other.weekday() && one.leap_year() == other.leap_year()
    };
    let year = (LAST_LISTED - 28..LAST_LISTED).find(alike).and_then(first);
    let date = year.and_then(|year| year.checked_add_days(Days::new(moment.ordinal0().into())));
    date.map_or(moment, |date| date.and_time(moment.time()))
}

/// The abbreviation and the rest of `UTC+3` or `<+03>-03`.
fn posix(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>');
    }
    let end = text.find(|c: char| !c.is_ascii_alphabetic())?;
    Some(text.split_at(end))
}

/// Seconds of `+3`, `-03:30`, `05:00:00`.
fn clock(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = digits.split(':');
    let mut next = |greatest: i32| -> Option<i32> {
        let part = parts.next().unwrap_or("0");
        let is_number = !part.is_empty() && part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|number| is_number && *number <= greatest)
    };
    let (hours, minutes, seconds) = (next(167)?, next(59)?, next(59)?);
    parts.next().is_none().then_some(sign * ((hours * 60 + minutes) * 60 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use saki_base::civil::{MICROS_PER_DAY, days_from_civil};

    fn micros(year: i64, month: u8, day: u8, hour: i64) -> i64 {
        days_from_civil(year, month, day) * MICROS_PER_DAY + hour * 3_600 * MICROS_PER_SECOND
    }

    #[test]
    fn zones_are_names_and_offsets() {
        let shown = |text: &str| TimeZone::read(text).map(|zone| (zone.to_string(), zone.seconds_at(0)));
        assert_eq!(shown("america/new_york").unwrap(), ("America/New_York".to_owned(), -18_000));
        assert_eq!(shown("3").unwrap(), ("<+03>-03".to_owned(), 10_800));
        assert_eq!(shown("-3.5").unwrap(), ("<-03:30>+03:30".to_owned(), -12_600));
        assert_eq!(shown("UTC+3").unwrap(), ("UTC+3".to_owned(), -10_800));
        assert_eq!(shown("+03:00").unwrap(), ("+03:00".to_owned(), -10_800));
        assert_eq!(shown("04:15").unwrap(), ("04:15".to_owned(), -15_300));
        assert_eq!(shown("<+03>-03").unwrap(), ("<+03>-03".to_owned(), 10_800));
        assert_eq!(shown("EST5EDT").unwrap().1, -18_000);
        assert!(shown("Nowhere/x").is_none() && shown("").is_none() && shown("UTC+200").is_none());
        assert!(TimeZone::read("gmt").unwrap().at(0).seconds == 0);
    }

    #[test]
    fn offsets_follow_the_database_and_go_on_behind_it() {
        let zone = TimeZone::read("America/New_York").unwrap();
        assert_eq!(zone.at(micros(2024, 1, 1, 0)), ZoneOffset { seconds: -18_000, abbreviation: "EST".into() });
        assert_eq!(zone.at(micros(2024, 7, 1, 0)), ZoneOffset { seconds: -14_400, abbreviation: "EDT".into() });
        assert_eq!(zone.seconds_at(micros(2124, 7, 1, 0)), -14_400);
        assert_eq!(zone.seconds_at(micros(9999, 1, 1, 0)), -18_000);
        assert_eq!(zone.seconds_at(micros(200_000, 7, 1, 0)), -14_400);
        assert_eq!(zone.seconds_at(micros(1850, 7, 1, 0)), -17_762);
        assert_eq!(zone.seconds_at(micros(-4700, 7, 1, 0)), -17_762);
    }

    #[test]
    fn local_times_that_are_skipped_or_come_twice_are_standard_time() {
        let zone = TimeZone::read("America/New_York").unwrap();
        // 2:30 is skipped on this day: PostgreSQL takes it for 3:30.
        let skipped = micros(2024, 3, 10, 2) + 1_800 * MICROS_PER_SECOND;
        assert_eq!(zone.local(zone.instant(skipped)), skipped + 3_600 * MICROS_PER_SECOND);
        let twice = micros(2024, 11, 3, 1);
        assert_eq!(zone.instant(twice), twice + 5 * 3_600 * MICROS_PER_SECOND);
        assert_eq!(zone.instant(i64::MAX), i64::MAX);
    }
}
