//! Spans of time as SQL has them: months, days and microseconds, which are not the same wherever they are added.

use std::cmp::Ordering;
use std::fmt;

use super::civil::{MICROS_PER_DAY, MICROS_PER_SECOND};

/// Bytes of an interval in the row format.
pub const INTERVAL_BYTES: usize = 16;

/// Days that a month counts as when intervals are compared.
const DAYS_PER_MONTH: i128 = 30;
const NANOS_PER_MICRO: i64 = 1_000;

/// An interval. Two are the same (`==` here) if all their parts are; they are *equal* to SQL if they are of one
/// [length](Self::length).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

impl Interval {
    /// Of a time in nanoseconds, rounded down.
    pub const fn of_nanos(months: i32, days: i32, nanos: i64) -> Self {
        Self { months, days, micros: nanos.div_euclid(NANOS_PER_MICRO) }
    }

    /// The time, without months and days, in nanoseconds; the most or least that there is where these are too many
    /// (see [`Self::fits`]).
    pub const fn nanos(self) -> i64 {
        self.micros.saturating_mul(NANOS_PER_MICRO)
    }

    /// Whether nanoseconds can count the time, which has 292 years then. All intervals in tables do.
    pub const fn fits(self) -> bool {
        self.micros.checked_mul(NANOS_PER_MICRO).is_some()
    }

    /// Microseconds, of 30 days to a month and 24 hours to a day: what PostgreSQL compares intervals by
    /// (`interval_cmp_value`).
    pub const fn length(self) -> i128 {
        let days = self.months as i128 * DAYS_PER_MONTH + self.days as i128;
        days * MICROS_PER_DAY as i128 + self.micros as i128
    }

    /// By length, and where that is one, by months, days and time: an order in which only intervals that are the same
    /// come together.
    pub fn total_cmp(&self, other: &Self) -> Ordering {
        let all = |of: &Self| (of.length(), of.months, of.days, of.micros);
        all(self).cmp(&all(other))
    }

    /// Months, days, microseconds, each little-endian.
    pub fn to_le_bytes(self) -> [u8; INTERVAL_BYTES] {
        let mut bytes = [0; INTERVAL_BYTES];
        bytes[..4].copy_from_slice(&self.months.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.days.to_le_bytes());
        bytes[8..].copy_from_slice(&self.micros.to_le_bytes());
        bytes
    }

    /// The inverse of [`Self::to_le_bytes`].
    pub fn from_le_bytes(bytes: [u8; INTERVAL_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, micros @ ..] = bytes;
        Self {
            months: i32::from_le_bytes([a, b, c, d]),
            days: i32::from_le_bytes([e, f, g, h]),
            micros: i64::from_le_bytes(micros),
        }
    }
}

/// As PostgreSQL writes it with `IntervalStyle = postgres`: `1 year 2 mons -3 days +04:05:06.5`.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")];
        let mut separator = "";
        // After a negative part, a positive one says so.
        let mut negative = false;
        for (count, unit) in units.into_iter().filter(|(count, _)| *count != 0) {
            let sign = if negative && count > 0 { "+" } else { "" };
            write!(f, "{separator}{sign}{count} {unit}{}", if count == 1 { "" } else { "s" })?;
            separator = " ";
            negative = count < 0;
        }
        if self.micros == 0 && !separator.is_empty() {
            return Ok(());
        }
        let sign = match self.micros < 0 {
            true => "-",
            false if negative => "+",
            false => "",
        };
        write!(f, "{separator}{sign}")?;
        write_clock(self.micros.unsigned_abs(), f)
    }
}

/// Writes hours, minutes, seconds and what there is of a part of a second; `micros` are microseconds.
pub fn write_clock(micros: u64, out: &mut impl fmt::Write) -> fmt::Result {
    let seconds = micros / MICROS_PER_SECOND as u64;
    write!(out, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
    match micros % MICROS_PER_SECOND as u64 {
        0 => Ok(()),
        part => write!(out, ".{}", format!("{part:06}").trim_end_matches('0')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn interval(months: i32, days: i32, micros: i64) -> Interval {
        Interval { months, days, micros }
    }

    #[test]
    fn a_month_is_as_long_as_thirty_days() {
        assert_eq!(interval(1, 0, 0).length(), interval(0, 29, MICROS_PER_DAY).length());
        assert_ne!(interval(1, 0, 0).total_cmp(&interval(0, 30, 0)), Ordering::Equal);
        let most = interval(i32::MAX, i32::MAX, i64::MAX);
        assert!(most.length() > interval(i32::MAX, i32::MAX, i64::MAX - 1).length());
        assert!(!most.fits() && interval(7, 7, i64::MAX / 1_000).fits());
    }

    #[test]
    fn bytes_and_nanoseconds_give_it_back() {
        let values = [interval(-1, 2, -3), interval(i32::MIN, i32::MAX, i64::MIN), Interval::default()];
        for value in values {
            assert_eq!(Interval::from_le_bytes(value.to_le_bytes()), value);
        }
        assert_eq!(Interval::of_nanos(1, 2, interval(1, 2, -3).nanos()), interval(1, 2, -3));
        assert_eq!(interval(0, 0, i64::MIN).nanos(), i64::MIN);
    }
}
