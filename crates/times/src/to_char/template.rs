//! Templates: their patterns, and what is between them.

use saki_catalog::SqlError;

/// Patterns, each before those that are its beginning. A pattern of letters matches in any case; for names the case
/// says how they are written.
const PATTERNS: [&str; 53] = [
    "HH24", "HH12", "HH", "MI", "SSSSS", "SSSS", "SS", "MS", "US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "Y,YYY",
    "YYYY", "YYY", "YY", "IYYY", "IYY", "IY", "IW", "IDDD", "ID", "MONTH", "MON", "MM", "RM", "DAY", "DY", "DDD", "DD",
    "WW", "CC", "Y", "I", "W", "D", "Q", "J", "A.M.", "P.M.", "AM", "PM", "A.D.", "B.C.", "AD", "BC", "TZH", "TZM",
    "TZ", "OF",
];
pub const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// A template with the values of its patterns: of each it is told how it is spelled, and whether it is filled up.
pub fn written(
    template: &str,
    value: impl Fn(&str, &str, bool) -> Result<String, SqlError>,
) -> Result<String, SqlError> {
    let mut out = String::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let inner = &rest[1..];
            let end = inner.find('"').unwrap_or(inner.len());
            out.push_str(&inner[..end]);
            rest = inner.get(end + 1..).unwrap_or_default();
            continue;
        }
        if let Some(escaped) = rest.strip_prefix("\\\"") {
            out.push('"');
            rest = escaped;
            continue;
        }
        let (bare, fill) = match strip(rest, "FM") {
            Some(after) => (after, false),
            None => (rest, true),
        };
        match PATTERNS.iter().find(|pattern| strip(bare, pattern).is_some()) {
            Some(pattern) => {
                let spelled = &bare[..pattern.len()];
                let value = value(pattern, spelled, fill)?;
                out.push_str(&value);
                rest = &bare[pattern.len()..];
                if let Some(after) = strip(rest, "TH") {
                    out.push_str(ordinal(&value, rest.starts_with('T')));
                    rest = after;
                }
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Ok(out)
}

/// What follows a prefix that is compared without regard to case.
fn strip<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// A word in capitals, or in small letters if its pattern begins with one.
pub fn cased(word: &str, spelled: &str) -> String {
    if spelled.starts_with(|first: char| first.is_ascii_lowercase()) { word.to_lowercase() } else { word.to_owned() }
}

fn ordinal(number: &str, upper: bool) -> &'static str {
    let digits = number.as_bytes();
    let teens = digits.len() > 1 && digits[digits.len() - 2] == b'1';
    match (digits.last(), teens, upper) {
        (Some(b'1'), false, true) => "ST",
        (Some(b'2'), false, true) => "ND",
        (Some(b'3'), false, true) => "RD",
        (_, _, true) => "TH",
        (Some(b'1'), false, false) => "st",
        (Some(b'2'), false, false) => "nd",
        (Some(b'3'), false, false) => "rd",
        _ => "th",
    }
}
