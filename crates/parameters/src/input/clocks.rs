//! Times of day, and offsets from Greenwich, as digits spell them.

use saki_base::civil::{MICROS_PER_DAY, MICROS_PER_SECOND};

use super::error::Bad;

pub const HOUR: i64 = 3_600 * MICROS_PER_SECOND;
const MINUTE: i64 = 60 * MICROS_PER_SECOND;

/// Microseconds of a fraction's digits, rounded.
pub fn micros_of(digits: &str) -> Result<i64, Bad> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Bad::Form);
    }
    let fraction: f64 = if digits.is_empty() { 0.0 } else { format!("0.{digits}").parse().map_err(|_| Bad::Form)? };
    Ok((fraction * 1e6).round_ties_even() as i64)
}

/// Hours, minutes, seconds and microseconds of `10:20:30.5`, `10:20` or `20:30.5`.
pub fn clock_parts(text: &str) -> Result<(i64, i64, i64, i64), Bad> {
    let mut parts = text.split(':');
    let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty() {
        true => digits.parse::<i64>().map_err(|_| Bad::Field),
        false => Err(Bad::Form),
    };
    let (first, second, third) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next());
    if parts.next().is_some() {
        return Err(Bad::Form);
    }
    let (hour, minute, second, fraction) = match (third, second.split_once('.')) {
        (None, None) => (number(first)?, number(second)?, 0, ""),
        // Minutes and seconds.
        (None, Some((second, fraction))) => (0, number(first)?, number(second)?, fraction),
        (Some(third), None) => {
            let (third, fraction) = third.split_once('.').unwrap_or((third, ""));
            (number(first)?, number(second)?, number(third)?, fraction)
        }
        (Some(_), Some(_)) => return Err(Bad::Form),
    };
    if minute > 59 || second > 60 {
        return Err(Bad::Field);
    }
    Ok((hour, minute, second, micros_of(fraction)?))
}

/// Microseconds of the day.
pub fn clock(text: &str) -> Result<i64, Bad> {
    let (hour, minute, second, micros) = clock_parts(text)?;
    of_day(hour, minute, second, micros)
}

pub fn of_day(hour: i64, minute: i64, second: i64, micros: i64) -> Result<i64, Bad> {
    let whole = hour.checked_mul(HOUR).ok_or(Bad::Field)? + minute * MINUTE + second * MICROS_PER_SECOND + micros;
    if minute > 59 || second > 60 || whole > MICROS_PER_DAY { Err(Bad::Field) } else { Ok(whole) }
}

/// Seconds east of Greenwich of `+02`, `-0330`, `+05:30:15`.
pub fn offset(text: &str) -> Result<i32, Bad> {
    const HOURS_MAX: i32 = 15;
    let sign = match text.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(Bad::Form),
    };
    let mut parts = text[1..].split(':');
    let number = |part: Option<&str>| match part {
        None => Ok(0),
        // As in `+1:`.
        Some("") => Ok(0),
        Some(digits) if !digits.bytes().all(|byte| byte.is_ascii_digit()) => Err(Bad::Form),
        Some(digits) => digits.parse::<i32>().map_err(|_| Bad::Offset),
    };
    let (mut hours, mut minutes) = match parts.next() {
        Some("") => return Err(Bad::Form),
        hours => (number(hours)?, 0),
    };
    let rest = (parts.next(), parts.next());
    if parts.next().is_some() {
        return Err(Bad::Form);
    }
    match rest.0 {
        None if text.len() > 3 => (hours, minutes) = (hours / 100, hours % 100),
        None => {}
        some => minutes = number(some)?,
    }
    let seconds = number(rest.1)?;
    if hours > HOURS_MAX || minutes > 59 || seconds > 59 {
        return Err(Bad::Offset);
    }
    Ok(sign * ((hours * 60 + minutes) * 60 + seconds))
}
