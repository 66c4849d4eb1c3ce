//! Numbers as numerics.

use super::fault::JsonFault;

/// Digits of a numeric before the point, and behind it (PostgreSQL, table 8.2).
const WHOLE_MAX: i64 = 131_072;
const FRACTION_MAX: i64 = 16_383;

/// A number in parts: `digits`, of which `whole` (or less than none) stand before the point.
struct Parts {
    negative: bool,
    digits: Vec<u8>,
    whole: i64,
}

fn parts(text: &str) -> Result<Parts, JsonFault> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| JsonFault::OutOfRange)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.bytes().chain(fraction.bytes()).collect();
    let whole = exponent.checked_add(whole.len() as i64).ok_or(JsonFault::OutOfRange)?;
    Ok(Parts { negative, digits, whole })
}

/// Writes a number of JSON as a numeric prints it: without an exponent, with the digits behind the point that it was
/// written with.
///
/// # Errors
/// [`JsonFault::OutOfRange`].
pub fn write_canonical(text: &str, out: &mut String) -> Result<(), JsonFault> {
    let Parts { negative, digits, whole } = parts(text)?;
    let is_zero = digits.iter().all(|digit| *digit == b'0');
    let fraction = (digits.len() as i64 - whole).max(0);
    let leading = digits.iter().take_while(|digit| **digit == b'0').count() as i64;
    if fraction > FRACTION_MAX || !is_zero && whole - leading > WHOLE_MAX {
        return Err(JsonFault::OutOfRange);
    }
    if negative && !is_zero {
        out.push('-');
    }
    let digit = |place: i64| {
        let digit = usize::try_from(place).ok().and_then(|place| digits.get(place));
        digit.map_or('0', |digit| char::from(*digit))
    };
    if whole <= leading || is_zero {
        out.push('0');
    } else {
        out.extend((leading..whole).map(digit));
    }
    if fraction > 0 {
        out.push('.');
        let first = digits.len() as i64 - fraction;
        out.extend((first..digits.len() as i64).map(digit));
    }
    Ok(())
}

/// Appends bytes that are in the order of the numbers, and equal for those that are.
pub fn write_key(text: &str, out: &mut Vec<u8>) -> Result<(), JsonFault> {
    let Parts { negative, digits, whole } = parts(text)?;
    let leading = digits.iter().take_while(|digit| **digit == b'0').count();
    let significant = &digits[leading..];
    let end = significant.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    if end == 0 {
        out.push(1);
        return Ok(());
    }
    let start = out.len();
    out.push(2);
    let exponent = i32::try_from(whole - leading as i64).map_err(|_| JsonFault::OutOfRange)?;
    out.extend_from_slice(&(exponent as u32 ^ (1 << 31)).to_be_bytes());
    out.extend_from_slice(&significant[..end]);
    out.push(0);
    if negative {
        out[start] = 0;
        out[start + 1..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}
