//! Strings with their quotes and escapes, and without.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::fault::JsonFault;

/// What a string says, of its text with quotes.
///
/// # Errors
/// [`JsonFault::Unicode`] for what no text holds.
pub fn unquoted(quoted: &str) -> Result<Cow<'_, str>, JsonFault> {
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(quoted);
    let Some(first) = inner.find('\\') else { return Ok(Cow::Borrowed(inner)) };
    let mut out = String::with_capacity(inner.len());
    out.push_str(&inner[..first]);
    let mut rest = &inner[first..];
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = escaped(&rest[at + 1..], &mut out)?;
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

/// Reads what stands behind a backslash, and gives what follows.
fn escaped<'t>(text: &'t str, out: &mut String) -> Result<&'t str, JsonFault> {
    let mut rest = text.chars();
    out.push(match rest.next().ok_or(JsonFault::Ended)? {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return unicode(rest.as_str(), out),
        other => other,
    });
    Ok(rest.as_str())
}

/// Four digits, or two times four for what is written as a surrogate pair.
fn unicode<'t>(text: &'t str, out: &mut String) -> Result<&'t str, JsonFault> {
    let unit = |text: &str| text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let high = unit(text).ok_or(JsonFault::Escape)?;
    let (code, used) = match high {
        0xd800..0xdc00 => {
            let low = text.get(4..).and_then(|rest| rest.strip_prefix("\\u")).and_then(unit);
            let low = low.filter(|low| (0xdc00..0xe000).contains(low)).ok_or(JsonFault::Unicode)?;
            (0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00), 10)
        }
        other => (other, 4),
    };
    out.push(char::from_u32(code).filter(|character| *character != '\0').ok_or(JsonFault::Unicode)?);
    Ok(&text[used..])
}

/// Writes a text as a string of JSON.
pub fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|character: char| character < ' ' || matches!(character, '"' | '\\')) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x8 => out.push_str("\\b"),
            0xc => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            // Into memory it never fails.
            other => drop(write!(out, "\\u{other:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}
