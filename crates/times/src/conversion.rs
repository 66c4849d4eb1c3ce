//! Casts from and to times that depend on the session: texts by its styles, and moments with a zone beside moments
//! without by its zone.

use std::sync::LazyLock;

use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ScalarUDF};
use saki_base::civil::{MICROS_PER_DAY, MICROS_PER_SECOND};
use saki_catalog::SqlError;
use saki_parameters::{Interval, SessionTime, TimeStyle, TimeZone, Unit, zone_named};

use crate::datum::{Datum, INTERVAL, TIME, TIMESTAMP, timestamptz};
pub use crate::datum::{out_of_range, rounded};
use crate::function::{TimeFunction, no_function};
use crate::template;

/// The function that rounds a time to digits of its seconds.
pub const ROUND: &str = "time_round";

pub const FUNCTIONS: &[TimeFunction] = &[
    template::TO_DATE,
    TimeFunction::new("timezone", (2, 2), zoned_type, zoned),
    TimeFunction::new(
        ROUND,
        (2, 2),
        |types, _| Ok(types[0].clone()),
        |args, _| {
            let digits = args[1].integer().unwrap_or(6);
            Ok(match &args[0] {
                Datum::Timestamp(micros) => Datum::Timestamp(rounded(*micros, digits)?),
                Datum::Timestamptz(micros) => Datum::Timestamptz(rounded(*micros, digits)?),
                Datum::Time(micros) => Datum::Time(rounded(*micros, digits)?),
                Datum::Interval(interval) => {
                    Datum::Interval(Interval { micros: rounded(interval.micros, digits)?, ..*interval })
                }
                other => other.clone(),
            })
        },
    ),
    TimeFunction::new(
        "to_timestamp",
        (1, 2),
        |_, _| Ok(timestamptz()),
        |args, session| {
            if let [Datum::Text(text), Datum::Text(template)] = args {
                return Ok(Datum::Timestamptz(template::timestamp(text, template, session)?));
            }
            let seconds = args[0].float().ok_or_else(|| no_function("to_timestamp", &[DataType::Utf8]))?;
            match seconds {
                seconds if seconds.is_nan() => Err(out_of_range("timestamp cannot be NaN")),
                f64::INFINITY => Ok(Datum::Timestamptz(i64::MAX)),
                f64::NEG_INFINITY => Ok(Datum::Timestamptz(i64::MIN)),
                // What no i64 holds is beyond the calendar.
                seconds if seconds.abs() > 9.2e12 => {
                    Err(out_of_range(&format!("timestamp out of range: \"{seconds}\"")))
                }
                seconds => Ok(Datum::Timestamptz((seconds * 1e6).round_ties_even() as i64)),
            }
        },
    ),
];

const CASTS: [TimeFunction; 5] = [
    TimeFunction::new(
        "to_date_type",
        (1, 1),
        |_, _| Ok(DataType::Date32),
        |args, session| Ok(Datum::Date(date(&args[0], session)?)),
    ),
    TimeFunction::new(
        "to_timestamp_type",
        (1, 1),
        |_, _| Ok(TIMESTAMP),
        |args, session| Ok(Datum::Timestamp(timestamp(&args[0], session)?)),
    ),
    TimeFunction::new(
        "to_timestamptz_type",
        (1, 1),
        |_, _| Ok(timestamptz()),
        |args, session| Ok(Datum::Timestamptz(instant(&args[0], session)?)),
    ),
    TimeFunction::new(
        "to_time_type",
        (1, 1),
        |_, _| Ok(TIME),
        |args, session| {
            Ok(Datum::Time(match &args[0] {
                Datum::Text(text) => session.style.read_time(text, session.now())?,
                Datum::Time(micros) => *micros,
                Datum::Interval(interval) => interval.micros.rem_euclid(MICROS_PER_DAY),
                other => timestamp(other, session)?.rem_euclid(MICROS_PER_DAY),
            }))
        },
    ),
    TimeFunction::new(
        "to_interval_type",
        (1, 1),
        |_, _| Ok(INTERVAL),
        |args, session| match &args[0] {
            Datum::Text(text) => Ok(Datum::Interval(session.style.read_interval(text, Unit::Second)?)),
            Datum::Time(micros) => Ok(Datum::Interval(Interval { micros: *micros, ..Interval::default() })),
            other => Ok(other.clone()),
        },
    ),
];

/// A value as one of a type by the session's rules.
pub fn cast_function(value: Expr, target: &DataType) -> Option<Expr> {
    static FUNCTIONS: LazyLock<Vec<ScalarUDF>> = LazyLock::new(|| CASTS.iter().map(TimeFunction::of).collect());
    let position = match target {
        DataType::Date32 => 0,
        DataType::Timestamp(_, None) => 1,
        DataType::Timestamp(_, Some(_)) => 2,
        DataType::Time64(_) => 3,
        DataType::Interval(_) => 4,
        _ => return None,
    };
    Some(FUNCTIONS[position].call(vec![value]))
}

/// Days since 1970.
pub fn date(value: &Datum, session: &SessionTime) -> Result<i32> {
    Ok(match value {
        Datum::Text(text) => session.style.read_date(text, session.now())?,
        Datum::Date(days) => *days,
        other => match timestamp(other, session)? {
            i64::MAX => i32::MAX,
            i64::MIN => i32::MIN,
            micros => micros.div_euclid(MICROS_PER_DAY) as i32,
        },
    })
}

/// What clocks show: those of the session of a moment with a zone.
pub fn timestamp(value: &Datum, session: &SessionTime) -> Result<i64> {
    Ok(match value {
        Datum::Text(text) => session.style.read_timestamp(text, session.now())?,
        Datum::Date(days) => midnight(*days)?,
        Datum::Timestamp(micros) => *micros,
        Datum::Timestamptz(micros) => session.style.zone.local(*micros),
        _ => return Err(out_of_range("this is no time")),
    })
}

/// The moment at which the session's clocks show a time.
pub fn instant(value: &Datum, session: &SessionTime) -> Result<i64> {
    Ok(match value {
        Datum::Text(text) => session.style.read_timestamptz(text, session.now())?,
        Datum::Timestamptz(micros) => *micros,
        other => session.style.zone.instant(timestamp(other, session)?),
    })
}

fn midnight(days: i32) -> Result<i64> {
    match days {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        days => {
            i64::from(days).checked_mul(MICROS_PER_DAY).ok_or_else(|| out_of_range("date out of range for timestamp"))
        }
    }
}

/// A zone that a function is given: by a name, or as hours.
///
/// # Errors
/// 22023.
pub fn zone_of(value: &Datum) -> Result<TimeZone> {
    let invalid = |message: String| SqlError::data(message).code("22023");
    match value {
        Datum::Text(name) => Ok(zone_named(name)?),
        Datum::Interval(Interval { months: 0, days: 0, micros }) => {
            Ok(TimeZone::fixed((micros / MICROS_PER_SECOND) as i32))
        }
        Datum::Interval(Interval { months, days, micros }) => {
            let mut text = String::new();
            let _ = TimeStyle::default().write_interval(*months, *days, *micros, &mut text);
            Err(invalid(format!("interval time zone \"{text}\" must not include months or days")).into())
        }
        _ => Err(invalid("a time zone is a text or an interval".to_owned()).into()),
    }
}

fn zoned_type(types: &[DataType], _: Option<&str>) -> Result<DataType> {
    match &types[1] {
        DataType::Timestamp(_, None) => Ok(timestamptz()),
        DataType::Timestamp(..) | DataType::Date32 | DataType::Utf8 | DataType::Utf8View | DataType::Null => {
            Ok(TIMESTAMP)
        }
        _ => Err(no_function("timezone", types).into()),
    }
}

/// `AT TIME ZONE`.
fn zoned(args: &[Datum], session: &SessionTime) -> Result<Datum> {
    let zone = zone_of(&args[0])?;
    Ok(match &args[1] {
        Datum::Timestamp(micros) => Datum::Timestamptz(zone.instant(*micros)),
        other => Datum::Timestamp(zone.local(instant(other, session)?)),
    })
}
