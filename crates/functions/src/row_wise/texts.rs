//! Texts as bytes of an encoding and back, escapes of Unicode, and sizes as people write them.

use datafusion::common::{Result, ScalarValue};
use saki_catalog::SqlError;

use super::definition::Takes::{Bytes, Text};
use super::definition::{Definition, Gives, bytes, define, text};

pub const FUNCTIONS: &[Definition] = &[
    define("convert_from", &[Bytes, Text], Gives::Text, |values| {
        utf8(text(values, 1), "source")?;
        match std::str::from_utf8(bytes(values, 0)) {
            Ok(text) if !text.contains('\0') => Ok(ScalarValue::Utf8(Some(text.to_owned()))),
            _ => Err(SqlError::data("invalid byte sequence for encoding \"UTF8\"").code("22021").into()),
        }
    }),
    define("convert_to", &[Text, Text], Gives::Bytes, |values| {
        utf8(text(values, 1), "destination")?;
        Ok(ScalarValue::Binary(Some(text(values, 0).as_bytes().to_vec())))
    }),
    define("pg_size_bytes", &[Text], Gives::Bigint, |values| {
        let written = text(values, 0);
        let size = size_of(written).ok_or_else(|| {
            let hint = "valid units are \"bytes\", \"B\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\"";
            SqlError::data(format!("invalid size: \"{written}\"")).code("22023").hint(hint)
        })?;
        match size.is_finite() && size.abs() < 2_f64.powi(63) {
            true => Ok(ScalarValue::Int64(Some(size as i64))),
            false => Err(SqlError::data("bigint out of range").code("22003").into()),
        }
    }),
    define("unistr", &[Text], Gives::Text, |values| Ok(ScalarValue::Utf8(Some(unescaped(text(values, 0))?)))),
];

/// Texts are kept in UTF-8, and nothing else is converted.
fn utf8(encoding: &str, side: &str) -> Result<()> {
    let plain: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(SqlError::unsupported(format!("{side} encoding \"{encoding}\": only UTF8 is converted")).into()),
    }
}

/// Bytes of a size such as `1.5 GB`.
fn size_of(written: &str) -> Option<f64> {
    let written = written.trim();
    let is_of_number = |(at, letter): &(usize, char)| {
        let before = written[..*at].chars().next_back();
        letter.is_ascii_digit()
            || matches!(letter, '.')
            || matches!(letter, '+' | '-') && before.is_none_or(|before| matches!(before, 'e' | 'E'))
            || matches!(letter, 'e' | 'E')
                && before.is_some_and(|before| before.is_ascii_digit() || before == '.')
                && written[at + 1..].starts_with(|next: char| next.is_ascii_digit() || matches!(next, '+' | '-'))
    };
    let end = written.char_indices().find(|at| !is_of_number(at)).map_or(written.len(), |(at, _)| at);
    let (number, unit) = written.split_at(end);
    let power = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "bytes" | "b" => 0,
        "kb" => 1,
        "mb" => 2,
        "gb" => 3,
        "tb" => 4,
        "pb" => 5,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * 1024_f64.powi(power))
}

/// `\XXXX`, `\+XXXXXX`, `\uXXXX` and `\UXXXXXXXX` are characters by their numbers; two backslashes are one.
fn unescaped(escaped: &str) -> Result<String> {
    let mut text = String::with_capacity(escaped.len());
    let mut units: Vec<u16> = Vec::new();
    let mut rest = escaped;
    let lone = || SqlError::data("invalid Unicode surrogate pair").code("42601");
    while let Some(letter) = rest.chars().next() {
        let (number, length) = match (letter, rest.as_bytes().get(1)) {
            ('\\', Some(b'\\')) => (u32::from('\\'), 2),
            ('\\', next) => {
                let (from, digits) = match next {
                    Some(b'+') => (2, 6),
                    Some(b'u') => (2, 4),
                    Some(b'U') => (2, 8),
                    _ => (1, 4),
                };
                let number =
                    rest.get(from..from + digits).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
                let number = number.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let invalid = || {
                    let hint = "Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX";
                    SqlError::data("invalid Unicode escape").code("42601").hint(hint)
                };
                (number.ok_or_else(invalid)?, from + digits)
            }
            (letter, _) => (u32::from(letter), letter.len_utf8()),
        };
        match (u16::try_from(number), units.first()) {
            (Ok(unit @ 0xd800..=0xdbff), None) => units.push(unit),
            (Ok(unit @ 0xdc00..=0xdfff), Some(first)) => {
                let pair = char::decode_utf16([*first, unit]).next().and_then(std::result::Result::ok);
                text.push(pair.ok_or_else(lone)?);
                units.clear();
            }
            (_, None) => {
                let letter = char::from_u32(number).filter(|letter| *letter != '\0');
                text.push(letter.ok_or_else(|| SqlError::data("invalid Unicode code point").code("22023"))?);
            }
            _ => return Err(lone().into()),
        }
        rest = &rest[length..];
    }
    match units.is_empty() {
        true => Ok(text),
        false => Err(lone().into()),
    }
}
