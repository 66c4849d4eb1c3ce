//! Texts of times cut into fields, as PostgreSQL cuts them: what a field is shows by how it begins.

use super::words;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Digits, perhaps with a point.
    Number,
    /// Letters alone.
    Word,
    /// Digits and letters with `-`, `/` or `.` between them; also names of zones.
    Date,
    /// `10:20:30.5`
    Time,
    /// A sign and digits: `+02:30`, `-5`.
    Signed,
    /// A sign and letters: `-infinity`.
    Special,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    pub kind: Kind,
    /// In small letters.
    pub text: String,
}

/// Fields of a text at most.
const FIELDS_MAX: usize = 25;

/// The fields of a text; `None`: it has a character that no time has, or too many fields.
pub fn fields(text: &str) -> Option<Vec<Field>> {
    let lower = text.to_ascii_lowercase();
    let mut rest = lower.as_bytes();
    let mut fields = Vec::new();
    while let Some(first) = rest.first() {
        if first.is_ascii_whitespace() {
            rest = &rest[1..];
            continue;
        }
        let (kind, length) = match first {
            b'0'..=b'9' => of_digits(rest),
            b'.' => (Kind::Number, 1 + count(&rest[1..], |byte| byte.is_ascii_digit())),
            b'a'..=b'z' => of_letters(rest),
            b'+' | b'-' => {
                let blanks = count(&rest[1..], |byte| byte.is_ascii_whitespace());
                let (sign, after) = (*first, &rest[1 + blanks..]);
                let (kind, length) = match after.first() {
                    Some(b'0'..=b'9') => {
                        (Kind::Signed, count(after, |byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'-')))
                    }
                    Some(b'a'..=b'z') => (Kind::Special, count(after, |byte| byte.is_ascii_alphabetic())),
                    _ => return None,
                };
                fields.push(Field { kind, text: format!("{}{}", char::from(sign), string(&after[..length])) });
                rest = &after[length..];
                continue;
            }
            byte if byte.is_ascii_punctuation() => {
                rest = &rest[1..];
                continue;
            }
            _ => return None,
        };
        fields.push(Field { kind, text: string(&rest[..length]) });
        rest = &rest[length..];
    }
    (fields.len() <= FIELDS_MAX).then_some(fields)
}

fn of_digits(rest: &[u8]) -> (Kind, usize) {
    let digit = |byte: u8| byte.is_ascii_digit();
    let length = count(rest, digit);
    match rest.get(length) {
        Some(b':') => (Kind::Time, count(rest, |byte| digit(byte) || matches!(byte, b':' | b'.'))),
        Some(delimiter @ (b'-' | b'/' | b'.')) => {
            let delimiter = *delimiter;
            let after = &rest[length + 1..];
            if !after.first().is_some_and(u8::is_ascii_digit) {
                let more = count(after, |byte| byte.is_ascii_alphanumeric() || byte == delimiter);
                return (Kind::Date, length + 1 + more);
            }
            let second = count(after, digit);
            let ends = length + 1 + second;
            // With a third part of the same kind it is a date; else `20.5` is a number.
            if rest.get(ends) == Some(&delimiter) {
                return (Kind::Date, ends + count(&rest[ends..], |byte| digit(byte) || byte == delimiter));
            }
            (if delimiter == b'.' { Kind::Number } else { Kind::Date }, ends)
        }
        _ => (Kind::Number, length),
    }
}

fn of_letters(rest: &[u8]) -> (Kind, usize) {
    let length = count(rest, |byte| byte.is_ascii_alphabetic());
    let goes_on = match rest.get(length) {
        Some(b'-' | b'/' | b'.') => true,
        Some(byte) if *byte == b'+' || byte.is_ascii_digit() => !words::is_known(&string(&rest[..length])),
        _ => false,
    };
    if !goes_on {
        return (Kind::Word, length);
    }
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'/' | b'_' | b'.' | b':');
    (Kind::Date, count(rest, of_name))
}

fn count(bytes: &[u8], is_part: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is_part(**byte)).count()
}

/// Of bytes that are ASCII.
fn string(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_as_postgresql_cuts_them() {
        let shown = |text: &str| match fields(text) {
            None => "none".to_owned(),
            Some(fields) => fields.iter().map(|f| format!("{:?} {}", f.kind, f.text)).collect::<Vec<_>>().join("; "),
        };
        assert_eq!(shown("2024-01-31 10:00:00.5 +02"), "Date 2024-01-31; Time 10:00:00.5; Signed +02");
        assert_eq!(shown("2024-01-31T10:00Z"), "Date 2024-01-31; Word t; Time 10:00; Word z");
        assert_eq!(shown("Jan 5, 2024"), "Word jan; Number 5; Number 2024");
        assert_eq!(shown("5-Jan-2024 America/New_York"), "Date 5-jan-2024; Date america/new_york");
        assert_eq!(shown("20240131 - infinity"), "Number 20240131; Special -infinity");
        assert_eq!(shown("1.5 days ago"), "Number 1.5; Word days; Word ago");
        assert_eq!(shown("J2451187"), "Word j; Number 2451187");
        assert_eq!(shown("2024\u{e9}"), "none");
        assert_eq!(shown("- "), "none");
    }
}
