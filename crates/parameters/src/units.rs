//! Numbers with units, as PostgreSQL reads and shows them.

use std::time::Duration;

const MEMORY: [(&str, f64); 5] =
    [("TB", 1_099_511_627_776.0), ("GB", 1_073_741_824.0), ("MB", 1_048_576.0), ("kB", 1024.0), ("B", 1.0)];
const TIME: [(&str, f64); 6] = [
    ("d", 86_400_000_000.0),
    ("h", 3_600_000_000.0),
    ("min", 60_000_000.0),
    ("s", 1_000_000.0),
    ("ms", 1_000.0),
    ("us", 1.0),
];

/// The units of a parameter's family, greatest first, and how much of the smallest its own unit is.
fn family(unit: &str) -> Option<(&'static [(&'static str, f64)], f64)> {
    let digits = unit.len() - unit.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let many: f64 = if digits == 0 { 1.0 } else { unit[..digits].parse().ok()? };
    for units in [&MEMORY[..], &TIME[..]] {
        if let Some((_, size)) = units.iter().find(|(name, _)| *name == &unit[digits..]) {
            return Some((units, many * size));
        }
    }
    None
}

/// The units that a value may have, for a hint.
pub fn names(unit: &str) -> Option<&'static str> {
    family(unit).map(|(units, _)| match units.len() {
        5 => "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".",
        _ => "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".",
    })
}

/// A number such as `250`, `0x10`, `1.5h` or `64 MB`, in a parameter's unit.
pub fn read(text: &str, unit: &str) -> Option<f64> {
    let text = text.trim();
    let (number, rest) = split_number(text)?;
    let rest = rest.trim();
    if rest.is_empty() {
        return Some(number);
    }
    let (units, own) = family(unit)?;
    let (_, size) = units.iter().find(|(name, _)| *name == rest)?;
    Some(number * size / own)
}

fn split_number(text: &str) -> Option<(f64, &str)> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hexadecimal) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let end = hexadecimal.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hexadecimal.len());
        let number = u64::from_str_radix(&hexadecimal[..end], 16).ok()?;
        return Some((sign * number as f64, &hexadecimal[end..]));
    }
    let plain = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let mut end = plain;
    // An exponent, unless it is the beginning of a unit.
    if let Some(exponent) = digits[plain..].strip_prefix(['e', 'E']) {
        let signed = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let count = signed.len() - signed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if count > 0 {
            end = digits.len() - signed.len() + count;
        }
    }
    let number: f64 = digits[..end].parse().ok()?;
    Some((sign * number, &digits[end..]))
}

/// A number in its parameter's unit as SHOW shows it: in the largest unit that divides it.
pub fn show_with_unit(number: &str, unit: &str) -> String {
    let Some((units, own)) = family(unit) else { return number.to_owned() };
    let Ok(value) = number.parse::<f64>() else { return number.to_owned() };
    if value <= 0.0 {
        return number.to_owned();
    }
    let total = value * own;
    let whole = units.iter().find(|(_, size)| (total / size).fract() == 0.0);
    whole.map_or_else(|| number.to_owned(), |(name, size)| format!("{}{name}", total / size))
}

/// A time such as `250`, `250ms`, `30s`, `5 min`: milliseconds if there is no unit.
pub fn duration(text: &str) -> Option<Duration> {
    let millis = read(text, "ms").filter(|millis| *millis >= 0.0 && millis.is_finite())?;
    Some(Duration::from_millis(millis.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_any_unit_of_their_family() {
        assert_eq!(read("1.5h", "ms"), Some(5_400_000.0));
        assert_eq!(read("64MB", "kB"), Some(65_536.0));
        assert_eq!(read("64MB", "8kB"), Some(8_192.0));
        assert_eq!(read("0x10", ""), Some(16.0));
        assert_eq!(read("1e3", ""), Some(1_000.0));
        assert_eq!(read("-1", "ms"), Some(-1.0));
        assert_eq!(read("5 min", "s"), Some(300.0));
        for wrong in ["", "x", "1TBx", "1 mb", "1.2.3"] {
            assert_eq!(read(wrong, "kB"), None, "{wrong}");
        }
        assert_eq!(read("1s", "kB"), None);
        assert_eq!(read("1s", ""), None);
    }

    #[test]
    fn they_are_shown_in_the_largest_unit_that_divides_them() {
        assert_eq!(show_with_unit("5400000", "ms"), "90min");
        assert_eq!(show_with_unit("4096", "kB"), "4MB");
        assert_eq!(show_with_unit("524288", "8kB"), "4GB");
        assert_eq!(show_with_unit("0", "ms"), "0");
        assert_eq!(show_with_unit("-1", "kB"), "-1");
        assert_eq!(show_with_unit("0.5", "ms"), "500us");
        assert_eq!(show_with_unit("7", ""), "7");
    }
}
