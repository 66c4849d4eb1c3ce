//! Sizes as people write them: `4096`, `256MB`, `1 GiB`; units are powers of 1024.

/// Bytes of `text`.
pub fn parse(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let refused = || format!("{text:?} is not a size; write bytes or 4k, 256MB, 1GiB");
    let number: f64 = lower[..digits].parse().map_err(|_| refused())?;
    let unit = match lower[digits..].trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(refused()),
    };
    let bytes = number * f64::from(2_u32).powi(unit);
    if bytes.is_finite() && bytes <= 1e18 { Ok(bytes as u64) } else { Err(refused()) }
}

/// Bytes in two or three digits: `8 KiB`, `1.5 GiB`.
pub fn display(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in [("4096", 4096), ("8k", 8192), ("256MB", 256 << 20), ("1.5 GiB", 3 << 29), ("0", 0)] {
            assert_eq!(parse(text), Ok(bytes));
        }
        for text in ["", "k", "-1", "8 bananas", "1e3", "99999999999999999999GB", "1..2"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(
            (display(8192), display(1_610_612_736), display(5)),
            ("8 KiB".into(), "1.5 GiB".into(), "5 B".into())
        );
    }
}
