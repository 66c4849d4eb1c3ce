//! `EXTRACT` and `date_part`: parts of moments and intervals, as numbers and as doubles.

use std::sync::LazyLock;

use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ScalarUDF, lit};
use saki_base::civil::{JULIAN_EPOCH, MICROS_PER_DAY, MICROS_PER_SECOND, civil_from_days, days_from_civil};
use saki_catalog::SqlError;
use saki_parameters::{Interval, SessionTime};

use crate::conversion::{instant, timestamp};
use crate::datum::Datum;
use crate::function::{TimeFunction, no_function};

/// The function that EXTRACT calls: a number.
pub const EXTRACT: &str = "extract";
/// The same as a double, of what is no date.
pub const PART: &str = "date_part_of";

/// Digits of a number, and those behind its point.
const DIGITS: u8 = 38;
const JULIAN_SCALE: i8 = 20;

const NUMBER: TimeFunction = TimeFunction::new(EXTRACT, (2, 2), number_type, |args, session| {
    let (field, of) = (named(&args[0])?, &args[1]);
    let (value, scale) = match part(&field, of, session)? {
        Part::Number(value, scale) => (value, scale),
        Part::Nothing => return Ok(Datum::Null),
        Part::Infinity(_) => {
            let message = format!("extract of {field} from infinity is infinite, which numbers are not here");
            return Err(SqlError::unsupported(message).hint("date_part gives a double").into());
        }
    };
    let wanted = scale_of(&field, matches!(of, Datum::Date(_)));
    Ok(Datum::Number(value * 10_i128.pow((wanted - scale).max(0) as u32), wanted))
});

const DOUBLE: TimeFunction = TimeFunction::new(
    PART,
    (2, 2),
    |_, _| Ok(DataType::Float64),
    |args, session| {
        let of = match &args[1] {
            // As PostgreSQL: a date is a timestamp to it.
            date @ Datum::Date(_) => Datum::Timestamp(timestamp(date, session)?),
            Datum::Text(_) => Datum::Timestamptz(instant(&args[1], session)?),
            other => other.clone(),
        };
        Ok(match part(&named(&args[0])?, &of, session)? {
            Part::Number(value, scale) => Datum::Float(value as f64 / 10_f64.powi(scale.into())),
            Part::Infinity(positive) => Datum::Float(if positive { f64::INFINITY } else { f64::NEG_INFINITY }),
            Part::Nothing => Datum::Null,
        })
    },
);

pub const FUNCTIONS: &[TimeFunction] = &[
    NUMBER,
    DOUBLE,
    TimeFunction::new(
        "isfinite",
        (1, 1),
        |_, _| Ok(DataType::Boolean),
        |args, _| {
            Ok(Datum::Bool(match &args[0] {
                Datum::Date(days) => !matches!(*days, i32::MAX | i32::MIN),
                Datum::Timestamp(micros) | Datum::Timestamptz(micros) => !matches!(*micros, i64::MAX | i64::MIN),
                _ => true,
            }))
        },
    ),
];

/// EXTRACT of a field.
pub fn extract(field: &str, time: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| NUMBER.of());
    FUNCTION.call(vec![lit(field), time])
}

/// Whether the planner's own function takes a field from a type, as a whole number.
pub fn of_calendar(field: &str, data_type: &DataType) -> bool {
    match data_type {
        DataType::Date32 => matches!(field, "year" | "month" | "day" | "dow" | "doy" | "week" | "quarter"),
        DataType::Timestamp(_, None) => {
            matches!(field, "year" | "month" | "day" | "dow" | "doy" | "week" | "quarter" | "hour" | "minute")
        }
        _ => false,
    }
}

fn number_type(types: &[DataType], field: Option<&str>) -> Result<DataType> {
    match &types[1] {
        DataType::Date32
        | DataType::Timestamp(..)
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Interval(_)
        | DataType::Duration(_)
        | DataType::Null
        | DataType::Utf8 => {
            let scale = scale_of(&field.unwrap_or_default().to_ascii_lowercase(), types[1] == DataType::Date32);
            Ok(DataType::Decimal128(DIGITS, scale))
        }
        _ => Err(no_function(EXTRACT, types).into()),
    }
}

/// Digits behind the point of a field.
fn scale_of(field: &str, is_date: bool) -> i8 {
    match field {
        _ if is_date => 0,
        "second" | "seconds" | "sec" | "secs" | "s" | "epoch" => 6,
        "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => 3,
        "julian" => JULIAN_SCALE,
        _ => 0,
    }
}

fn named(field: &Datum) -> Result<String> {
    let name = field.text().ok_or_else(|| SqlError::invalid("a field of a time is named by a text").code("42883"))?;
    Ok(name.trim_matches('\'').to_ascii_lowercase())
}

/// A field's value.
enum Part {
    /// With digits behind the point.
    Number(i128, i8),
    Infinity(bool),
    /// Of an infinite moment.
    Nothing,
}

fn whole(value: i64) -> Result<Part> {
    Ok(Part::Number(value.into(), 0))
}

fn part(field: &str, of: &Datum, session: &SessionTime) -> Result<Part> {
    match of {
        Datum::Interval(interval) => of_interval(field, *interval),
        Datum::Time(micros) => of_time(field, *micros),
        Datum::Date(i32::MAX | i32::MIN) => of_infinity(field, matches!(of, Datum::Date(i32::MAX)), "date"),
        Datum::Date(days) => of_date(field, (*days).into()),
        Datum::Timestamp(i64::MAX | i64::MIN) | Datum::Timestamptz(i64::MAX | i64::MIN) => {
            let positive = matches!(of, Datum::Timestamp(i64::MAX) | Datum::Timestamptz(i64::MAX));
            of_infinity(field, positive, "timestamp")
        }
        Datum::Timestamp(local) => of_moment(field, *local, *local, None),
        other => {
            let instant = instant(other, session)?;
            let offset = session.style.zone.seconds_at(instant);
            of_moment(field, session.style.zone.local(instant), instant, Some(offset))
        }
    }
}

fn unknown<T>(field: &str, type_name: &str) -> Result<T> {
    const FIELDS: &[&str] = &[
        "microseconds",
        "milliseconds",
        "second",
        "minute",
        "hour",
        "day",
        "week",
        "month",
        "quarter",
        "year",
        "decade",
        "century",
        "millennium",
        "timezone",
        "timezone_hour",
        "timezone_minute",
        "dow",
        "doy",
        "isodow",
        "isoyear",
        "julian",
        "epoch",
    ];
    Err(if FIELDS.contains(&canonical(field)) {
        let message = format!("unit \"{field}\" not supported for type {type_name}");
        SqlError::unsupported(message)
    } else {
        SqlError::data(format!("unit \"{field}\" not recognized for type {type_name}")).code("22023")
    }
    .into())
}

/// A field's name among those that it has.
pub fn canonical(field: &str) -> &str {
    match field {
        "microsecond" | "usec" | "usecs" | "us" => "microseconds",
        "millisecond" | "msec" | "msecs" | "ms" => "milliseconds",
        "seconds" | "sec" | "secs" | "s" => "second",
        "minutes" | "min" | "mins" | "m" => "minute",
        "hours" | "hr" | "hrs" | "h" => "hour",
        "days" | "d" => "day",
        "weeks" | "w" => "week",
        "months" | "mon" | "mons" => "month",
        "qtr" => "quarter",
        "years" | "yr" | "yrs" | "y" => "year",
        "decades" | "dec" | "decs" => "decade",
        "centuries" | "cent" | "c" => "century",
        "millennia" | "mil" | "mils" => "millennium",
        "timezone_h" => "timezone_hour",
        "timezone_m" => "timezone_minute",
        other => other,
    }
}

fn of_infinity(field: &str, positive: bool, of: &str) -> Result<Part> {
    match canonical(field) {
        "year" | "isoyear" | "decade" | "century" | "millennium" | "julian" | "epoch" => Ok(Part::Infinity(positive)),
        "microseconds" | "milliseconds" | "second" | "minute" | "hour" | "day" | "week" | "month" | "quarter"
        | "dow" | "doy" | "isodow" | "timezone" | "timezone_hour" | "timezone_minute" => Ok(Part::Nothing),
        _ => unknown(field, of),
    }
}

/// Fields of a day.
fn of_day(field: &str, days: i64) -> Option<i64> {
    let date = civil_from_days(days);
    let (year, month) = (date.year, i64::from(date.month));
    let weekday = (days + 3).rem_euclid(7) + 1;
    let of_year = |year: i64| if year > 0 { year } else { year - 1 };
    // The week belongs to the year that has its Thursday.
    let thursday = days - weekday + 4;
    let iso = civil_from_days(thursday).year;
    Some(match field {
        "day" => date.day.into(),
        "month" => month,
        "quarter" => (month - 1) / 3 + 1,
        "year" => of_year(year),
        "decade" => year.div_euclid(10),
        "century" => {
            if year > 0 {
                (year + 99) / 100
            } else {
                -((99 - (year - 1)) / 100)
            }
        }
        "millennium" => {
            if year > 0 {
                (year + 999) / 1_000
            } else {
                -((999 - (year - 1)) / 1_000)
            }
        }
        "dow" => weekday % 7,
        "isodow" => weekday,
        "doy" => days - days_from_civil(year, 1, 1) + 1,
        "week" => (thursday - days_from_civil(iso, 1, 1)) / 7 + 1,
        "isoyear" => of_year(iso),
        _ => return None,
    })
}

fn of_date(field: &str, days: i64) -> Result<Part> {
    match canonical(field) {
        "julian" => whole(days + JULIAN_EPOCH),
        "epoch" => whole(days * 86_400),
        known => match of_day(known, days) {
            Some(value) => whole(value),
            None => unknown(field, "date"),
        },
    }
}

/// Fields of a time of day.
fn of_clock(field: &str, micros: i64) -> Option<Part> {
    let second = i128::from(micros % (60 * MICROS_PER_SECOND));
    Some(match field {
        "hour" => Part::Number((micros / (3_600 * MICROS_PER_SECOND)).into(), 0),
        "minute" => Part::Number((micros / (60 * MICROS_PER_SECOND) % 60).into(), 0),
        "second" => Part::Number(second, 6),
        "milliseconds" => Part::Number(second, 3),
        "microseconds" => Part::Number(second, 0),
        _ => return None,
    })
}

fn of_time(field: &str, micros: i64) -> Result<Part> {
    match canonical(field) {
        "epoch" => Ok(Part::Number(micros.into(), 6)),
        known => match of_clock(known, micros) {
            Some(value) => Ok(value),
            None => unknown(field, "time without time zone"),
        },
    }
}

/// Of a moment that clocks show as `local`; `offset`: seconds of its zone east of Greenwich, if it has one.
fn of_moment(field: &str, local: i64, instant: i64, offset: Option<i32>) -> Result<Part> {
    let (days, micros) = (local.div_euclid(MICROS_PER_DAY), local.rem_euclid(MICROS_PER_DAY));
    let offset_of = |value: fn(i64) -> i64| offset.map(|offset| value(offset.into()));
    let known = canonical(field);
    if let Some(value) = of_clock(known, micros) {
        return Ok(value);
    }
    let zone = match known {
        "timezone" => offset_of(|offset| offset),
        "timezone_hour" => offset_of(|offset| offset / 3_600),
        "timezone_minute" => offset_of(|offset| offset / 60 % 60),
        _ => None,
    };
    match known {
        "epoch" => Ok(Part::Number(instant.into(), 6)),
        "julian" => {
            let scale = 10_i128.pow(JULIAN_SCALE as u32);
            let part = i128::from(micros) * scale / i128::from(MICROS_PER_DAY);
            Ok(Part::Number(i128::from(days + JULIAN_EPOCH) * scale + part, JULIAN_SCALE))
        }
        _ => match zone.or_else(|| of_day(known, days)) {
            Some(value) => whole(value),
            None if offset.is_some() => unknown(field, "timestamp with time zone"),
            None => unknown(field, "timestamp without time zone"),
        },
    }
}

fn of_interval(field: &str, interval: Interval) -> Result<Part> {
    let Interval { months, days, micros } = interval;
    let months = i64::from(months);
    match canonical(field) {
        "day" => whole(days.into()),
        "month" => whole(months % 12),
        "quarter" => whole(months % 12 / 3 + 1),
        "year" => whole(months / 12),
        "decade" => whole(months / 120),
        "century" => whole(months / 1_200),
        "millennium" => whole(months / 12_000),
        "epoch" => {
            // A year of 365.25 days.
            let of_days = i128::from(months / 12) * 31_557_600 + i128::from(months % 12) * 2_592_000;
            let seconds = of_days + i128::from(days) * 86_400;
            Ok(Part::Number(seconds * i128::from(MICROS_PER_SECOND) + i128::from(micros), 6))
        }
        known => match of_clock(known, micros) {
            Some(value) => Ok(value),
            None => unknown(field, "interval"),
        },
    }
}
