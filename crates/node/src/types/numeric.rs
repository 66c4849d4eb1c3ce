//! `numeric` in binary: digits to the base 10000, with the place of the first. Source: PostgreSQL's `numeric_send`.

use arrow_buffer::i256;
use bytes::{BufMut, BytesMut};

/// Decimal digits of one digit of the binary form.
const GROUP: usize = 4;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const POSITIVE_INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

/// Digits after the point at most, as `numeric` allows.
const SCALE_MAX: usize = 16_383;

/// An unscaled integer as decimal text with `scale` digits after the point.
pub fn decimal_text(unscaled: &str, scale: i8) -> String {
    let (sign, digits) = match unscaled.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", unscaled),
    };
    match usize::try_from(scale) {
        Ok(0) => unscaled.to_owned(),
        Ok(scale) => {
            let digits = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            format!("{sign}{whole}.{fraction}")
        }
        Err(_) if digits == "0" => "0".to_owned(),
        Err(_) => format!("{sign}{digits}{}", "0".repeat(usize::from(scale.unsigned_abs()))),
    }
}

/// Appends the binary form of a number in decimal text, `-12.50`.
pub fn encode(text: &str, out: &mut BytesMut) {
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let padding = (GROUP - whole.len() % GROUP) % GROUP;
    // Both parts filled up to whole groups, so that a group never spans the point.
    let digits = std::iter::repeat_n(b'0', padding).chain(whole.bytes()).chain(fraction.bytes());
    let mut groups: Vec<u16> = Vec::with_capacity(text.len() / GROUP + 2);
    let mut count = 0;
    for digit in digits {
        if count % GROUP == 0 {
            groups.push(0);
        }
        if let Some(last) = groups.last_mut() {
            *last = *last * 10 + u16::from(digit - b'0');
        }
        count += 1;
    }
    if let Some(last) = groups.last_mut() {
        *last *= 10_u16.pow(((GROUP - count % GROUP) % GROUP) as u32);
    }
    let before_point = (padding + whole.len()) / GROUP;
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let end = groups.iter().rposition(|group| *group != 0).map_or(leading, |last| last + 1);
    let significant = groups.get(leading..end).unwrap_or_default();
    out.put_u16(significant.len() as u16);
    let weight = before_point as i32 - leading as i32 - 1;
    out.put_i16(if significant.is_empty() { 0 } else { weight as i16 });
    out.put_u16(if negative && !significant.is_empty() { NEGATIVE } else { 0 });
    out.put_u16(fraction.len() as u16);
    significant.iter().for_each(|group| out.put_u16(*group));
}

/// Decimal text of the binary form; `None`: it is malformed, or no number.
pub fn decode(bytes: &[u8]) -> Option<String> {
    let word = |index: usize| Some(u16::from_be_bytes(bytes.get(index * 2..index * 2 + 2)?.try_into().ok()?));
    let (count, weight) = (usize::from(word(0)?), i32::from(word(1)? as i16));
    let (sign, scale) = (word(2)?, usize::from(word(3)?));
    if bytes.len() != 8 + count * 2 || scale > SCALE_MAX || matches!(sign, NAN | POSITIVE_INFINITY | NEGATIVE_INFINITY)
    {
        return None;
    }
    let group = |place: i32| -> Option<u16> {
        let index = usize::try_from(weight - place).ok().filter(|index| *index < count);
        index.map_or(Some(0), |index| word(4 + index).filter(|group| *group < 10_000))
    };
    let mut whole = String::new();
    for place in (0..=weight.max(0)).rev() {
        whole.push_str(&format!("{:04}", group(place)?));
    }
    let mut fraction = String::new();
    for place in 1..=scale.div_ceil(GROUP) {
        fraction.push_str(&format!("{:04}", group(-(place as i32))?));
    }
    fraction.truncate(scale);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = if sign == NEGATIVE { "-" } else { "" };
    Some(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

/// A decimal text as an unscaled integer and its scale: `-1.25e1` is (-125, 1). `None`: it is no number, or has more
/// than 76 digits.
pub fn parse(text: &str) -> Option<(i256, i8)> {
    let text = text.trim();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, digits) = match mantissa.as_bytes().first()? {
        b'-' => ("-", &mantissa[1..]),
        b'+' => ("", &mantissa[1..]),
        _ => ("", mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let zeros = usize::try_from(-scale.min(0)).ok().filter(|zeros| *zeros <= 76)?;
    let significant = all.trim_start_matches('0');
    let unscaled = format!("{significant}{}", "0".repeat(zeros));
    let scale = i8::try_from(scale.max(0)).ok()?;
    if unscaled.len() > 76 || scale > 76 {
        return None;
    }
    let unscaled = if unscaled.is_empty() { "0".to_owned() } else { unscaled };
    Some((i256::from_string(&format!("{sign}{unscaled}"))?, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in [
            "0",
            "0.00",
            "1",
            "-1",
            "9999",
            "10000",
            "12345678.9",
            "-0.0001",
            "0.00001",
            "100000000000000000000",
            "99999999999999999999999999999999999999.99999999999999999999999999999999999999",
            "10000.0001",
            "-123.4560",
        ] {
            let mut out = BytesMut::new();
            encode(text, &mut out);
            assert_eq!(decode(&out).unwrap(), text);
        }
    }

    #[test]
    fn bytes_are_postgresqls() {
        let mut out = BytesMut::new();
        // select encode(numeric_send(-12345.678), 'hex')
        encode("-12345.678", &mut out);
        assert_eq!(out[..], [0, 3, 0, 1, 0x40, 0, 0, 3, 0, 1, 0x09, 0x29, 0x1a, 0x7c]);
    }

    #[test]
    fn texts_become_scaled_integers() {
        assert_eq!(parse("-1.25e1"), Some((i256::from_i128(-125), 1)));
        assert_eq!(parse("1e3"), Some((i256::from_i128(1000), 0)));
        assert_eq!(parse(" 00.10 "), Some((i256::from_i128(10), 2)));
        assert!(parse("").is_none() && parse("-").is_none() && parse("1e99").is_none() && parse("1x").is_none());
        assert_eq!(decimal_text("-5", 2), "-0.05");
        assert_eq!(decimal_text("5", -2), "500");
    }
}
