//! `date_trunc` and `date_bin`.

use arrow_schema::DataType;
use datafusion::common::Result;
use saki_base::civil::{MICROS_PER_DAY, MICROS_PER_SECOND, civil_from_days, days_from_civil};
use saki_catalog::SqlError;
use saki_parameters::{Interval, SessionTime, TimeZone};

use crate::conversion::{instant, out_of_range, timestamp, zone_of};
use crate::datum::{Datum, INTERVAL, TIMESTAMP, timestamptz};
use crate::fields;
use crate::function::{TimeFunction, no_function};

pub const FUNCTIONS: &[TimeFunction] =
    &[TimeFunction::new("date_trunc", (2, 3), trunc_type, trunc), TimeFunction::new("date_bin", (3, 3), bin_type, bin)];

fn trunc_type(types: &[DataType], _: Option<&str>) -> Result<DataType> {
    match (&types[1], types.len()) {
        (DataType::Timestamp(_, None), 2) => Ok(TIMESTAMP),
        (DataType::Interval(_) | DataType::Duration(_) | DataType::Time64(_), 2) => Ok(INTERVAL),
        // Dates and texts are moments with a zone, which PostgreSQL prefers.
        (DataType::Timestamp(..) | DataType::Date32 | DataType::Utf8 | DataType::Null, _) => Ok(timestamptz()),
        _ => Err(no_function("date_trunc", types).into()),
    }
}

fn trunc(args: &[Datum], session: &SessionTime) -> Result<Datum> {
    let unit = args[0].text().unwrap_or_default().to_ascii_lowercase();
    match &args[1] {
        Datum::Interval(interval) => Ok(Datum::Interval(trunc_interval(&unit, *interval)?)),
        Datum::Timestamp(local) if args.len() == 2 => {
            Ok(Datum::Timestamp(trunc_local(&unit, *local, "timestamp without time zone")?))
        }
        other => {
            let zone = args.get(2).map(zone_of).transpose()?;
            let zone = zone.as_ref().unwrap_or(&session.style.zone);
            Ok(Datum::Timestamptz(trunc_instant(&unit, instant(other, session)?, zone)?))
        }
    }
}

/// A moment cut by a zone's clocks.
fn trunc_instant(unit: &str, instant: i64, zone: &TimeZone) -> Result<i64> {
    let local = zone.local(instant);
    let cut = trunc_local(unit, local, "timestamp with time zone")?;
    // Within a day the offset stays, so that an hour that comes twice is cut to itself.
    let is_within_day = matches!(canonical(unit), "microsecond" | "millisecond" | "second" | "minute" | "hour");
    Ok(if is_within_day { instant - (local - cut) } else { zone.instant(cut) })
}

/// A unit's name among those that are cut to.
fn canonical(unit: &str) -> &str {
    match fields::canonical(unit) {
        "microseconds" => "microsecond",
        "milliseconds" => "millisecond",
        "millenniums" => "millennium",
        other => other,
    }
}

fn unknown<T>(unit: &str, type_name: &str) -> Result<T> {
    const OTHERS: &[&str] =
        &["dow", "doy", "isodow", "isoyear", "julian", "epoch", "timezone", "timezone_hour", "timezone_minute", "week"];
    Err(match OTHERS.contains(&canonical(unit)) {
        true => SqlError::unsupported(format!("unit \"{unit}\" not supported for type {type_name}")),
        false => SqlError::data(format!("unit \"{unit}\" not recognized for type {type_name}")).code("22023"),
    }
    .into())
}

/// Microseconds of what is always as long.
fn length(unit: &str) -> Option<i64> {
    Some(match unit {
        "microsecond" => 1,
        "millisecond" => 1_000,
        "second" => MICROS_PER_SECOND,
        "minute" => 60 * MICROS_PER_SECOND,
        "hour" => 3_600 * MICROS_PER_SECOND,
        "day" => MICROS_PER_DAY,
        _ => return None,
    })
}

fn trunc_local(unit: &str, local: i64, type_name: &str) -> Result<i64> {
    let known = canonical(unit);
    let is_infinite = matches!(local, i64::MAX | i64::MIN);
    if let Some(length) = length(known) {
        return Ok(if is_infinite { local } else { local - local.rem_euclid(length) });
    }
    let days = local.div_euclid(MICROS_PER_DAY);
    let date = civil_from_days(days);
    let year = date.year;
    let first = match known {
        // 1970-01-01 was a Thursday.
        "week" => days - (days + 3).rem_euclid(7),
        "month" => days_from_civil(year, date.month, 1),
        "quarter" => days_from_civil(year, (date.month - 1) / 3 * 3 + 1, 1),
        "year" => days_from_civil(year, 1, 1),
        "decade" => days_from_civil(if year > 0 { year / 10 * 10 } else { -((8 - (year - 1)) / 10) * 10 }, 1, 1),
        "century" => days_from_civil(
            if year > 0 { (year + 99) / 100 * 100 - 99 } else { -((99 - (year - 1)) / 100) * 100 + 1 },
            1,
            1,
        ),
        "millennium" => {
            let years =
                if year > 0 { (year + 999) / 1_000 * 1_000 - 999 } else { -((999 - (year - 1)) / 1_000) * 1_000 + 1 };
            days_from_civil(years, 1, 1)
        }
        _ => return unknown(unit, type_name),
    };
    if is_infinite {
        return Ok(local);
    }
    first.checked_mul(MICROS_PER_DAY).ok_or_else(|| out_of_range("timestamp out of range"))
}

fn trunc_interval(unit: &str, interval: Interval) -> Result<Interval> {
    let Interval { months, days, micros } = interval;
    let of_months = |count: i32| Interval { months: months / count * count, ..Interval::default() };
    Ok(match canonical(unit) {
        "month" => of_months(1),
        "quarter" => of_months(3),
        "year" => of_months(12),
        "decade" => of_months(120),
        "century" => of_months(1_200),
        "millennium" => of_months(12_000),
        "day" => Interval { months, days, micros: 0 },
        known => match length(known) {
            Some(length) => Interval { months, days, micros: micros / length * length },
            None => return unknown(unit, "interval"),
        },
    })
}

fn bin_type(types: &[DataType], _: Option<&str>) -> Result<DataType> {
    match (&types[1], &types[2]) {
        (DataType::Timestamp(_, Some(_)), _) | (_, DataType::Timestamp(_, Some(_))) => Ok(timestamptz()),
        (DataType::Timestamp(..), _) | (_, DataType::Timestamp(..)) => Ok(TIMESTAMP),
        (DataType::Date32 | DataType::Utf8, DataType::Date32 | DataType::Utf8) => Ok(timestamptz()),
        _ => Err(no_function("date_bin", types).into()),
    }
}

/// The beginning of the stride that a moment is in, counted from another.
fn bin(args: &[Datum], session: &SessionTime) -> Result<Datum> {
    let stride = match &args[0] {
        Datum::Interval(stride) => *stride,
        Datum::Text(text) => session.style.read_interval(text, saki_parameters::Unit::Second)?,
        _ => Interval::default(),
    };
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::unsupported(message).into());
    }
    let length = i64::from(stride.days).checked_mul(MICROS_PER_DAY).and_then(|days| days.checked_add(stride.micros));
    let Some(length) = length.filter(|length| *length > 0) else {
        return Err(out_of_range("stride must be greater than zero"));
    };
    let is_local = |value: &Datum| matches!(value, Datum::Timestamp(_));
    let local = is_local(&args[1]) || is_local(&args[2]);
    let read = |value: &Datum| if local { timestamp(value, session) } else { instant(value, session) };
    let (source, origin) = (read(&args[1])?, read(&args[2])?);
    let cut = match source {
        i64::MAX | i64::MIN => source,
        _ => {
            let since = source.checked_sub(origin).ok_or_else(|| out_of_range("interval out of range"))?;
            source - since.rem_euclid(length)
        }
    };
    Ok(if local { Datum::Timestamp(cut) } else { Datum::Timestamptz(cut) })
}
