//! Times made of their parts.

use arrow_schema::DataType;
use datafusion::common::{DataFusionError, Result};
use saki_base::civil::{MICROS_PER_DAY, MICROS_PER_SECOND, days_from_civil, days_in_month};
use saki_catalog::SqlError;
use saki_parameters::{Interval, TimeZone};

use crate::conversion::{out_of_range, zone_of};
use crate::datum::{Datum, INTERVAL, TIME, TIMESTAMP, timestamptz};
use crate::function::TimeFunction;

pub const FUNCTIONS: &[TimeFunction] = &[
    TimeFunction::new("make_date", (3, 3), |_, _| Ok(DataType::Date32), |args, _| Ok(Datum::Date(days(args)? as i32))),
    TimeFunction::new("make_time", (3, 3), |_, _| Ok(TIME), |args, _| Ok(Datum::Time(of_day(args)?))),
    TimeFunction::new("make_timestamp", (6, 6), |_, _| Ok(TIMESTAMP), |args, _| Ok(Datum::Timestamp(local(args)?))),
    TimeFunction::new(
        "make_timestamptz",
        (6, 7),
        |_, _| Ok(timestamptz()),
        |args, session| {
            let zone = args.get(6).map(numbered_zone).transpose()?;
            let zone = zone.as_ref().unwrap_or(&session.style.zone);
            Ok(Datum::Timestamptz(zone.instant(local(args)?)))
        },
    ),
    TimeFunction::new("make_interval", (0, 7), |_, _| Ok(INTERVAL), |args, _| interval(args)),
];

/// A zone whose number, if it is one, has a sign: east of Greenwich, other than in POSIX's names.
fn numbered_zone(value: &Datum) -> Result<TimeZone> {
    let invalid = |message: String| SqlError::data(message).code("22023");
    match value.text() {
        Some(text) if text.starts_with(|first: char| first.is_ascii_digit()) => {
            Err(invalid(format!("invalid input syntax for type numeric time zone: \"{text}\""))
                .hint("Numeric time zones must have \"-\" or \"+\" as first character.")
                .into())
        }
        Some(text) if text.starts_with(['+', '-']) => match TimeZone::offset(text) {
            Some(zone) => Ok(zone),
            None => Err(invalid(format!("numeric time zone \"{text}\" out of range")).into()),
        },
        _ => zone_of(value),
    }
}

/// Names of `make_interval`'s arguments, in their order.
pub const INTERVAL_PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

fn whole(args: &[Datum], position: usize) -> i64 {
    args.get(position).and_then(Datum::integer).unwrap_or_default()
}

fn days(args: &[Datum]) -> Result<i64> {
    let (year, month, day) = (whole(args, 0), whole(args, 1), whole(args, 2));
    // Negative years are before our era.
    let of_calendar = if year < 0 { year + 1 } else { year };
    let is_day = year != 0
        && year.abs() < 5_900_000
        && (1..=12).contains(&month)
        && (1..=i64::from(days_in_month(of_calendar, month as u8))).contains(&day);
    let days = is_day.then(|| days_from_civil(of_calendar, month as u8, day as u8));
    let in_range = days_from_civil(-4713, 11, 24)..=days_from_civil(5_874_897, 12, 31);
    days.filter(|days| in_range.contains(days))
        .ok_or_else(|| out_of_range(&format!("date field value out of range: {year}-{month:02}-{day:02}")))
}

fn of_day(args: &[Datum]) -> Result<i64> {
    let (hour, minute, seconds) = (whole(args, 0), whole(args, 1), seconds(args, 2));
    let bad = || -> DataFusionError {
        out_of_range(&format!("time field value out of range: {hour}:{minute:02}:{seconds:02}"))
    };
    if !(0..=24).contains(&hour) || !(0..60).contains(&minute) || !(0.0..=60.0).contains(&seconds) {
        return Err(bad());
    }
    let micros = (hour * 60 + minute) * 60 * MICROS_PER_SECOND + (seconds * 1e6).round_ties_even() as i64;
    if micros > MICROS_PER_DAY { Err(bad()) } else { Ok(micros) }
}

fn seconds(args: &[Datum], position: usize) -> f64 {
    args.get(position).and_then(Datum::float).unwrap_or_default()
}

fn local(args: &[Datum]) -> Result<i64> {
    let (days, of_day) = (days(&args[..3])?, of_day(&args[3..6])?);
    let micros = days.checked_mul(MICROS_PER_DAY).and_then(|micros| micros.checked_add(of_day));
    micros.ok_or_else(|| out_of_range("timestamp out of range"))
}

fn interval(args: &[Datum]) -> Result<Datum> {
    let too_large = || out_of_range("interval out of range");
    let part = |position: usize, times: i64| whole(args, position).checked_mul(times).ok_or_else(too_large);
    let months = part(0, 12)?.checked_add(part(1, 1)?).ok_or_else(too_large)?;
    let days = part(2, 7)?.checked_add(part(3, 1)?).ok_or_else(too_large)?;
    let seconds = seconds(args, 6) * 1e6;
    let hours = part(4, 3_600 * MICROS_PER_SECOND)?.checked_add(part(5, 60 * MICROS_PER_SECOND)?);
    if seconds.is_nan() || seconds.abs() >= i64::MAX as f64 {
        return Err(too_large());
    }
    let micros = hours.and_then(|micros| micros.checked_add(seconds.round_ties_even() as i64)).ok_or_else(too_large)?;
    let fits = |part: i64| i32::try_from(part).map_err(|_| too_large());
    Ok(Datum::Interval(Interval { months: fits(months)?, days: fits(days)?, micros }))
}
