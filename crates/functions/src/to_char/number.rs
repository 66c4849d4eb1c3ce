//! Numbers as digits.

/// Significant digits of a float.
const FLOAT_DIGITS: usize = 15;

/// A number that is written.
pub enum Number {
    Float(f64),
    /// Digits, and how many of them are behind the point.
    Decimal(i128, i8),
}

impl Number {
    pub fn is_negative(&self) -> bool {
        match self {
            Self::Float(float) => *float < 0.0,
            Self::Decimal(digits, _) => *digits < 0,
        }
    }

    /// Its digits without a sign, times a power of ten, rounded to some behind the point; halves go away from zero.
    pub fn digits(&self, shift: usize, behind: usize) -> String {
        match self {
            Self::Float(float) => {
                let value = float.abs() * 10f64.powi(shift as i32);
                let whole = if value >= 1.0 { value.log10().floor() as usize + 1 } else { 1 };
                let kept = behind.min(FLOAT_DIGITS.saturating_sub(whole));
                format!("{value:.kept$}")
            }
            Self::Decimal(digits, scale) => {
                let mut text = digits.unsigned_abs().to_string();
                text.push_str(&"0".repeat(shift));
                let scale = usize::try_from(*scale).unwrap_or(0);
                pointed(&rounded(&text, scale, behind), behind)
            }
        }
    }

    /// As `d.ddde+dd`.
    pub fn scientific(&self, behind: usize) -> String {
        let (mantissa, exponent) = match self {
            Self::Float(float) => {
                let text = format!("{:.behind$e}", float.abs());
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                (mantissa.to_owned(), exponent.parse().unwrap_or(0))
            }
            Self::Decimal(digits, scale) => {
                let text = digits.unsigned_abs().to_string();
                let exponent = if *digits == 0 { 0 } else { text.len() as i64 - 1 - i64::from(*scale) };
                (pointed(&rounded(&text, text.len() - 1, behind), behind), exponent)
            }
        };
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    }
}

/// Digits of which `scale` are behind the point, with `behind` there.
fn rounded(digits: &str, scale: usize, behind: usize) -> String {
    let padded = format!("{digits:0>width$}", width = scale + 1);
    if behind >= scale {
        return format!("{padded}{}", "0".repeat(behind - scale));
    }
    let (kept, cut) = padded.split_at(padded.len() - (scale - behind));
    let mut kept: Vec<u8> = kept.bytes().collect();
    if cut.as_bytes().first().is_some_and(|digit| *digit >= b'5') {
        for digit in kept.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return String::from_utf8_lossy(&kept).into_owned();
            }
            *digit = b'0';
        }
        kept.insert(0, b'1');
    }
    String::from_utf8_lossy(&kept).into_owned()
}

fn pointed(digits: &str, behind: usize) -> String {
    let padded = format!("{digits:0>width$}", width = behind + 1);
    let (whole, fraction) = padded.split_at(padded.len() - behind);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    if behind == 0 { whole.to_owned() } else { format!("{whole}.{fraction}") }
}
