//! Texts read as times: every form that PostgreSQL takes, by the session's zone and order of day, month and year.

mod clocks;
mod error;
mod fields;
mod interval;
mod moment;
mod unit;
mod words;

#[cfg(test)]
mod tests;

pub use saki_base::Interval;
use saki_base::civil::{MICROS_PER_DAY, MICROS_PER_SECOND, days_from_civil};
use saki_base::{DataType, Value};
use saki_catalog::{Result, SqlError};

use self::error::Bad;
use self::moment::{Local, Moment, Zone};
pub use self::unit::Unit;
pub use self::words::is_relative;
use crate::style::TimeStyle;
use crate::zone::TimeZone;

/// 4714-11-24 BC, the first day of the Julian period.
const DAYS_MIN: i64 = days_from_civil(-4713, 11, 24);
/// 5874897-12-31.
const DAYS_MAX: i64 = days_from_civil(5_874_897, 12, 31);
/// Infinity is the one moment after it.
const MICROS_MAX: i64 = i64::MAX - 1;

const DATE: &str = "date";
const TIME: &str = "time";
const TIMESTAMP: &str = "timestamp";
const TIMESTAMPTZ: &str = "timestamp with time zone";
const INTERVAL: &str = "interval";

impl TimeStyle {
    /// Days since 1970. `now`, here and below, is what `now` means: microseconds since 1970.
    ///
    /// # Errors
    /// 22007 for a text that has no form of a date; 22008, 22009 and 22023 for a day, an offset or a zone that there
    /// is not.
    pub fn read_date(&self, text: &str, now: i64) -> Result<i32> {
        let days = match moment::read(text, self, now).map_err(|bad| bad.of(text, DATE))? {
            Moment::Infinity => return Ok(i32::MAX),
            Moment::MinusInfinity => return Ok(i32::MIN),
            Moment::Epoch => 0,
            Moment::At(local) => local.days.ok_or_else(|| Bad::Form.of(text, DATE))?,
        };
        match i32::try_from(days) {
            Ok(fits) if (DAYS_MIN..=DAYS_MAX).contains(&days) => Ok(fits),
            _ => Err(Bad::Range.of(text, DATE)),
        }
    }

    /// Microseconds since 1970 by clocks of no zone; what the text says of one is ignored.
    ///
    /// # Errors
    /// As [`Self::read_date`].
    pub fn read_timestamp(&self, text: &str, now: i64) -> Result<i64> {
        let bad = |bad: Bad| bad.of(text, TIMESTAMP);
        match moment::read(text, self, now).map_err(bad)? {
            Moment::Infinity => Ok(i64::MAX),
            Moment::MinusInfinity => Ok(i64::MIN),
            Moment::Epoch => Ok(0),
            Moment::At(local) => micros(&local).and_then(in_range).map_err(bad),
        }
    }

    /// Microseconds since 1970; a text that says no zone is of the session's.
    ///
    /// # Errors
    /// As [`Self::read_date`].
    pub fn read_timestamptz(&self, text: &str, now: i64) -> Result<i64> {
        let bad = |bad: Bad| bad.of(text, TIMESTAMPTZ);
        match moment::read(text, self, now).map_err(bad)? {
            Moment::Infinity => Ok(i64::MAX),
            Moment::MinusInfinity => Ok(i64::MIN),
            Moment::Epoch => Ok(0),
            Moment::At(local) => {
                let clocks = micros(&local).map_err(bad)?;
                let instant = match &local.zone {
                    Zone::Own => self.zone.instant(clocks),
                    Zone::Named(zone) => zone.instant(clocks),
                    Zone::Offset(seconds) => clocks.saturating_sub(i64::from(*seconds) * MICROS_PER_SECOND),
                };
                in_range(instant).map_err(bad)
            }
        }
    }

    /// Microseconds of the day.
    ///
    /// # Errors
    /// As [`Self::read_date`].
    pub fn read_time(&self, text: &str, now: i64) -> Result<i64> {
        match moment::read_time(text, self, now).map_err(|bad| bad.of(text, TIME))? {
            Moment::At(Local { micros, has_time: true, .. }) => Ok(micros),
            _ => Err(Bad::Form.of(text, TIME)),
        }
    }

    /// An interval; a number without a unit has the one of `last`.
    ///
    /// # Errors
    /// 22007 for a text that has no form of one, 22008 and 22015 for parts that are too large.
    pub fn read_interval(&self, text: &str, last: Unit) -> Result<Interval> {
        interval::read(text, self.interval, last).map_err(|bad| bad.of(text, INTERVAL))
    }

    /// A value of a column's type, as [`Value::parse`] reads it, but times as the session reads them.
    ///
    /// # Errors
    /// As [`Self::read_date`] and [`Value::parse`].
    pub fn read_value(&self, data_type: DataType, text: &str, now: i64) -> Result<Value> {
        match data_type {
            DataType::Date => self.read_date(text, now).map(Value::Date),
            DataType::Timestamp => self.read_timestamp(text, now).map(Value::Timestamp),
            DataType::Timestamptz => self.read_timestamptz(text, now).map(Value::Timestamptz),
            DataType::Time => self.read_time(text, now).map(Value::Time),
            DataType::Interval => match self.read_interval(text, Unit::Second)? {
                interval if interval.fits() => Ok(Value::Interval(interval)),
                _ => Err(Bad::Interval.of(text, INTERVAL)),
            },
            DataType::Array(element) => Value::parse_array(element, text, |of, text| self.read_value(of, text, now)),
            other => Value::parse(other, text).map_err(SqlError::from),
        }
    }
}

impl TimeZone {
    /// Of an offset with its sign, as times have it: `+02`, `-0330`, `+05:30:15`. `None`: it is none, or more than 15
    /// hours.
    pub fn offset(text: &str) -> Option<Self> {
        clocks::offset(text).ok().map(Self::fixed)
    }
}

/// A zone as functions name it: an abbreviation, or a name of any kind.
///
/// # Errors
/// 22023.
pub fn zone_named(name: &str) -> Result<TimeZone> {
    let lower = name.trim().to_ascii_lowercase();
    let known = words::zone(&lower).map(TimeZone::fixed);
    known.or_else(|| TimeZone::read(name)).ok_or_else(|| Bad::Zone(name.to_owned()).of(name, TIMESTAMPTZ))
}

/// What clocks show, which may lie outside of the range if they are of a zone.
fn micros(local: &Local) -> std::result::Result<i64, Bad> {
    let days = local.days.ok_or(Bad::Form)?;
    days.checked_mul(MICROS_PER_DAY).and_then(|day| day.checked_add(local.micros)).ok_or(Bad::Range)
}

fn in_range(micros: i64) -> std::result::Result<i64, Bad> {
    if (DAYS_MIN * MICROS_PER_DAY..=MICROS_MAX).contains(&micros) { Ok(micros) } else { Err(Bad::Range) }
}
