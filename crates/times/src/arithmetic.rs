//! Moments and intervals added and subtracted, `age`, and intervals brought into order.

use std::sync::LazyLock;

use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ScalarUDF, lit};
use saki_base::civil::{MICROS_PER_DAY, civil_from_days, days_from_civil, days_in_month};
use saki_catalog::SqlError;
use saki_parameters::{Interval, SessionTime, TimeZone};

use crate::conversion::{instant, out_of_range, timestamp};
use crate::datum::{Datum, INTERVAL};
use crate::function::{TimeFunction, no_function};

const DAYS_OF_MONTH: i64 = 30;

pub const FUNCTIONS: &[TimeFunction] = &[
    TimeFunction::new("age", (1, 2), |types, _| age_type(types), age),
    TimeFunction::new("justify_hours", (1, 1), interval_type, |args, _| justified(&args[0], justify_hours)),
    TimeFunction::new("justify_days", (1, 1), interval_type, |args, _| justified(&args[0], justify_days)),
    TimeFunction::new("justify_interval", (1, 1), interval_type, |args, _| justified(&args[0], justify_all)),
    TimeFunction { is_strict: false, ..TimeFunction::new(OVERLAPS, (4, 4), |types, _| overlap_type(types), overlap) },
];

/// What `(start, end) OVERLAPS (start, end)` calls.
pub const OVERLAPS: &str = "overlaps";

/// `moment + interval`, or `moment - interval`.
pub fn moved(moment: Expr, interval: Expr, back: bool) -> Expr {
    const MOVED: TimeFunction = TimeFunction::new("moment_plus", (3, 3), |types, _| Ok(types[0].clone()), move_by);
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| MOVED.of());
    FUNCTION.call(vec![moment, interval, lit(back)])
}

/// `moment - moment`, of one type: days and time.
pub fn difference(left: Expr, right: Expr) -> Expr {
    const DIFFERENCE: TimeFunction = TimeFunction::new("moment_minus", (2, 2), |_, _| Ok(INTERVAL), subtract);
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| DIFFERENCE.of());
    FUNCTION.call(vec![left, right])
}

fn interval_type(types: &[DataType], _: Option<&str>) -> Result<DataType> {
    match types {
        [DataType::Interval(_) | DataType::Duration(_) | DataType::Utf8 | DataType::Null] => Ok(INTERVAL),
        _ => Err(no_function("justify_interval", types).into()),
    }
}

fn is_infinite(micros: i64) -> bool {
    matches!(micros, i64::MAX | i64::MIN)
}

fn move_by(args: &[Datum], session: &SessionTime) -> Result<Datum> {
    let Datum::Interval(interval) = &args[1] else { return Ok(Datum::Null) };
    let interval = if args[2] == Datum::Bool(true) { negative(*interval)? } else { *interval };
    Ok(match &args[0] {
        Datum::Timestamptz(micros) => Datum::Timestamptz(plus_in_zone(*micros, interval, &session.style.zone)?),
        // Over midnight, to the next day or the one before.
        Datum::Time(micros) => Datum::Time((micros + interval.micros % MICROS_PER_DAY).rem_euclid(MICROS_PER_DAY)),
        other => Datum::Timestamp(plus(timestamp(other, session)?, interval)?),
    })
}

fn negative(interval: Interval) -> Result<Interval> {
    let Interval { months, days, micros } = interval;
    let turned = months.checked_neg().zip(days.checked_neg()).zip(micros.checked_neg());
    let ((months, days), micros) = turned.ok_or_else(|| out_of_range("interval out of range"))?;
    Ok(Interval { months, days, micros })
}

/// A moment of clocks moved: by months first, to the last day of one that is too short, then by days, then by time.
pub fn plus(local: i64, interval: Interval) -> Result<i64> {
    if is_infinite(local) {
        return Ok(local);
    }
    let by_days = plus_days(local, interval).ok_or_else(too_far)?;
    in_range(by_days.checked_add(interval.micros))
}

/// The same of an instant: months and days by the zone's clocks.
fn plus_in_zone(instant: i64, interval: Interval, zone: &TimeZone) -> Result<i64> {
    if is_infinite(instant) {
        return Ok(instant);
    }
    let by_days = match (interval.months, interval.days) {
        (0, 0) => instant,
        _ => zone.instant(plus_days(zone.local(instant), interval).ok_or_else(too_far)?),
    };
    in_range(by_days.checked_add(interval.micros))
}

fn plus_days(local: i64, interval: Interval) -> Option<i64> {
    let (mut days, of_day) = (local.div_euclid(MICROS_PER_DAY), local.rem_euclid(MICROS_PER_DAY));
    if interval.months != 0 {
        let date = civil_from_days(days);
        let months = date.year * 12 + i64::from(date.month) - 1 + i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u8 + 1);
        days = days_from_civil(year, month, date.day.min(days_in_month(year, month)));
    }
    (days + i64::from(interval.days)).checked_mul(MICROS_PER_DAY)?.checked_add(of_day)
}

fn too_far() -> datafusion::common::DataFusionError {
    out_of_range("timestamp out of range")
}

/// # Errors
/// 22008 before 4714 BC, and for what only infinity is.
fn in_range(micros: Option<i64>) -> Result<i64> {
    const LEAST: i64 = days_from_civil(-4713, 11, 24) * MICROS_PER_DAY;
    micros.filter(|micros| (LEAST..i64::MAX).contains(micros)).ok_or_else(too_far)
}

fn subtract(args: &[Datum], session: &SessionTime) -> Result<Datum> {
    if let (Datum::Time(left), Datum::Time(right)) = (&args[0], &args[1]) {
        return Ok(Datum::Interval(Interval { micros: left - right, ..Interval::default() }));
    }
    let of = |value: &Datum| match value {
        Datum::Timestamptz(_) => instant(value, session),
        other => timestamp(other, session),
    };
    let (left, right) = (of(&args[0])?, of(&args[1])?);
    if is_infinite(left) || is_infinite(right) {
        return Err(out_of_range("cannot subtract infinite timestamps"));
    }
    let micros = left.checked_sub(right).ok_or_else(|| out_of_range("interval out of range"))?;
    let days = micros / MICROS_PER_DAY;
    Ok(Datum::Interval(Interval { months: 0, days: days as i32, micros: micros % MICROS_PER_DAY }))
}

/// Two spans by their ends, or by where they begin and how long they are.
fn overlap_type(types: &[DataType]) -> Result<DataType> {
    let is_unknown = |of: &DataType| matches!(of, DataType::Utf8 | DataType::Null);
    let is_moment = |of: &DataType| matches!(of, DataType::Timestamp(..) | DataType::Date32);
    let is_length = |of: &DataType| matches!(of, DataType::Interval(_) | DataType::Duration(_));
    let fits = |is_start: fn(&DataType) -> bool| {
        let begin = |of: &DataType| is_start(of) || is_unknown(of);
        types.chunks(2).all(|span| begin(&span[0]) && (begin(&span[1]) || is_length(&span[1])))
    };
    if types.iter().all(is_unknown) {
        let message = "function pg_catalog.overlaps(unknown, unknown, unknown, unknown) is not unique";
        return Err(SqlError::invalid(message)
            .code("42725")
            .hint("Could not choose a best candidate function.")
            .into());
    }
    match fits(is_moment) || fits(|of| matches!(of, DataType::Time64(_))) {
        true => Ok(DataType::Boolean),
        false => Err(no_function(OVERLAPS, types).into()),
    }
}

fn overlap(args: &[Datum], session: &SessionTime) -> Result<Datum> {
    let has_zone = args.iter().any(|arg| matches!(arg, Datum::Timestamptz(_)));
    let of_day = args.iter().any(|arg| matches!(arg, Datum::Time(_)));
    let moment = |value: &Datum| -> Result<Option<i64>> {
        Ok(match value {
            Datum::Null => None,
            Datum::Time(micros) => Some(*micros),
            Datum::Text(text) if of_day => Some(session.style.read_time(text, session.now())?),
            other if has_zone => Some(instant(other, session)?),
            other => Some(timestamp(other, session)?),
        })
    };
    let span = |start: &Datum, end: &Datum| -> Result<(Option<i64>, Option<i64>)> {
        let start = moment(start)?;
        let end = match (start, end) {
            (None, Datum::Interval(_)) => None,
            (Some(start), Datum::Interval(length)) if of_day => {
                Some((start + length.micros % MICROS_PER_DAY).rem_euclid(MICROS_PER_DAY))
            }
            (Some(start), Datum::Interval(length)) if has_zone => {
                Some(plus_in_zone(start, *length, &session.style.zone)?)
            }
            (Some(start), Datum::Interval(length)) => Some(plus(start, *length)?),
            (_, end) => moment(end)?,
        };
        // The lesser is the start; what is not known comes last.
        Ok(match (start, end) {
            (None, end) => (end, None),
            (Some(start), Some(end)) if start > end => (Some(end), Some(start)),
            known => known,
        })
    };
    let (one, other) = (span(&args[0], &args[1])?, span(&args[2], &args[3])?);
    let (Some(one_start), Some(other_start)) = (one.0, other.0) else { return Ok(Datum::Null) };
    let ((earlier, later), later_end) =
        if one_start > other_start { ((other.1, one_start), one.1) } else { ((one.1, other_start), other.1) };
    Ok(match (earlier, later_end) {
        (Some(_), Some(_)) if one_start == other_start => Datum::Bool(true),
        _ if one_start == other_start => Datum::Null,
        (None, _) => Datum::Null,
        (Some(end), _) if later < end => Datum::Bool(true),
        (_, None) => Datum::Null,
        _ => Datum::Bool(false),
    })
}

/// The moments of a series, at most `most`.
///
/// # Errors
/// 22023 for a step of no length, 54000 for more moments, 22008 for one out of range.
pub fn series(
    first: i64,
    last: i64,
    step: Interval,
    has_zone: bool,
    session: &SessionTime,
    most: usize,
) -> Result<Vec<i64>> {
    let length = step.length();
    if length == 0 {
        return Err(SqlError::data("step size cannot equal zero").code("22023").into());
    }
    let (mut moments, mut moment) = (Vec::new(), first);
    while if length > 0 { moment <= last } else { moment >= last } {
        if moments.len() == most {
            let message = format!("generate_series gives more than {most} values here");
            return Err(SqlError::data(message).code("54000").into());
        }
        moments.push(moment);
        moment = match has_zone {
            true => plus_in_zone(moment, step, &session.style.zone)?,
            false => plus(moment, step)?,
        };
    }
    Ok(moments)
}

fn age_type(types: &[DataType]) -> Result<DataType> {
    let is_moment =
        |of: &DataType| matches!(of, DataType::Timestamp(..) | DataType::Date32 | DataType::Utf8 | DataType::Null);
    if types.iter().all(is_moment) { Ok(INTERVAL) } else { Err(no_function("age", types).into()) }
}

fn age(args: &[Datum], session: &SessionTime) -> Result<Datum> {
    let is_local = args.iter().any(|arg| matches!(arg, Datum::Timestamp(_)))
        && !args.iter().any(|arg| matches!(arg, Datum::Timestamptz(_)));
    // By the zone's clocks in either case.
    let local = |value: &Datum| match value {
        _ if is_local => timestamp(value, session),
        other => Ok(session.style.zone.local(instant(other, session)?)),
    };
    let (later, earlier) = match args {
        [one] => {
            let today = session.style.zone.local(session.now());
            (today - today.rem_euclid(MICROS_PER_DAY), local(one)?)
        }
        [one, other, ..] => (local(one)?, local(other)?),
        [] => return Ok(Datum::Null),
    };
    if is_infinite(later) || is_infinite(earlier) {
        return Err(out_of_range("timestamp out of range"));
    }
    Ok(Datum::Interval(if later >= earlier { between(earlier, later) } else { negative(between(later, earlier))? }))
}

/// Years, months and days from one moment to a later one. Days that are borrowed are those of the earlier one's month.
fn between(earlier: i64, later: i64) -> Interval {
    let take_apart = |local: i64| (civil_from_days(local.div_euclid(MICROS_PER_DAY)), local.rem_euclid(MICROS_PER_DAY));
    let ((from, from_micros), (to, to_micros)) = (take_apart(earlier), take_apart(later));
    let mut months = (to.year - from.year) * 12 + i64::from(to.month) - i64::from(from.month);
    let mut days = i64::from(to.day) - i64::from(from.day);
    let mut micros = to_micros - from_micros;
    if micros < 0 {
        micros += MICROS_PER_DAY;
        days -= 1;
    }
    while days < 0 {
        days += i64::from(days_in_month(from.year, from.month));
        months -= 1;
    }
    Interval { months: months as i32, days: days as i32, micros }
}

fn justified(value: &Datum, justify: fn(Parts) -> Parts) -> Result<Datum> {
    let interval = match value {
        Datum::Interval(interval) => *interval,
        Datum::Text(text) => {
            saki_parameters::TimeStyle::default().read_interval(text, saki_parameters::Unit::Second)?
        }
        _ => return Ok(Datum::Null),
    };
    let Parts { months, days, micros } =
        justify(Parts { months: interval.months.into(), days: interval.days.into(), micros: interval.micros });
    let fits = |part: i64| i32::try_from(part).map_err(|_| out_of_range("interval out of range"));
    Ok(Datum::Interval(Interval { months: fits(months)?, days: fits(days)?, micros }))
}

/// An interval's parts, with room.
struct Parts {
    months: i64,
    days: i64,
    micros: i64,
}

/// Whole days of time become days, all of one sign.
fn justify_hours(mut parts: Parts) -> Parts {
    parts.days += parts.micros / MICROS_PER_DAY;
    parts.micros %= MICROS_PER_DAY;
    align_days(parts)
}

fn align_days(mut parts: Parts) -> Parts {
    if parts.days > 0 && parts.micros < 0 {
        parts.micros += MICROS_PER_DAY;
        parts.days -= 1;
    } else if parts.days < 0 && parts.micros > 0 {
        parts.micros -= MICROS_PER_DAY;
        parts.days += 1;
    }
    parts
}

/// Thirty days become a month.
fn justify_days(mut parts: Parts) -> Parts {
    parts.months += parts.days / DAYS_OF_MONTH;
    parts.days %= DAYS_OF_MONTH;
    align_months(parts)
}

fn align_months(mut parts: Parts) -> Parts {
    if parts.months > 0 && parts.days < 0 {
        parts.days += DAYS_OF_MONTH;
        parts.months -= 1;
    } else if parts.months < 0 && parts.days > 0 {
        parts.days -= DAYS_OF_MONTH;
        parts.months += 1;
    }
    parts
}

fn justify_all(mut parts: Parts) -> Parts {
    parts.days += parts.micros / MICROS_PER_DAY;
    parts.micros %= MICROS_PER_DAY;
    parts.months += parts.days / DAYS_OF_MONTH;
    parts.days %= DAYS_OF_MONTH;
    let is_negative = |parts: &Parts| parts.days < 0 || parts.days == 0 && parts.micros < 0;
    let is_positive = |parts: &Parts| parts.days > 0 || parts.days == 0 && parts.micros > 0;
    if parts.months > 0 && is_negative(&parts) {
        parts.days += DAYS_OF_MONTH;
        parts.months -= 1;
    } else if parts.months < 0 && is_positive(&parts) {
        parts.days -= DAYS_OF_MONTH;
        parts.months += 1;
    }
    align_days(parts)
}
