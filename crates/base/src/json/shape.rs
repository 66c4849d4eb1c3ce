//! One level of a text that has been checked: its parts, as they were written.

use std::borrow::Cow;

use super::fault::JsonFault;
use super::string::unquoted;

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// As `json_typeof` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    pub const fn is_scalar(self) -> bool {
        !matches!(self, Self::Array | Self::Object)
    }
}

/// A value and the values in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape<'t> {
    /// A scalar, as it was written.
    Scalar(&'t str),
    Array(Vec<&'t str>),
    /// Pairs in their order; keys without quotes and escapes.
    Object(Vec<(Cow<'t, str>, &'t str)>),
}

/// What a text that has been checked is.
pub fn kind(text: &str) -> Kind {
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'n') => Kind::Null,
        _ => Kind::Number,
    }
}

/// The parts of a text that has been checked; of any other text, some parts of it.
///
/// # Errors
/// [`JsonFault::Unicode`] for keys that no text holds.
pub fn shape(text: &str) -> Result<Shape<'_>, JsonFault> {
    let text = text.trim_ascii();
    let kind = kind(text);
    if kind.is_scalar() {
        return Ok(Shape::Scalar(text));
    }
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or("");
    let parts = split(inner, b',');
    if kind == Kind::Array {
        return Ok(Shape::Array(parts));
    }
    let pairs = parts.into_iter().map(|pair| {
        let (key, value) = cut(pair, b':').unwrap_or((pair, ""));
        Ok((unquoted(key.trim_ascii())?, value.trim_ascii()))
    });
    Ok(Shape::Object(pairs.collect::<Result<_, _>>()?))
}

/// The parts between separators that are in no string and in no brackets.
fn split(text: &str, separator: u8) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((part, after)) = cut(rest, separator) {
        parts.push(part.trim_ascii());
        rest = after;
    }
    if !parts.is_empty() || !rest.trim_ascii().is_empty() {
        parts.push(rest.trim_ascii());
    }
    parts
}

fn cut(text: &str, separator: u8) -> Option<(&str, &str)> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ if byte == separator && depth == 0 => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_they_were_written() {
        let text = " { \"a,\\\"b\" : [1, {\"x\":2}] ,\"c\":\"}\" } ";
        let pairs = vec![("a,\"b".into(), "[1, {\"x\":2}]"), ("c".into(), "\"}\"")];
        assert_eq!(shape(text), Ok(Shape::Object(pairs)));
        assert_eq!(shape("[1 , [2,3],\"4\"]"), Ok(Shape::Array(vec!["1", "[2,3]", "\"4\""])));
        assert_eq!(shape("[ ]"), Ok(Shape::Array(Vec::new())));
        assert_eq!(shape(" 1.50 "), Ok(Shape::Scalar("1.50")));
        assert_eq!(
            [" {}", "[]", "\"\"", "true", "null", "-1"].map(|text| kind(text).name()),
            ["object", "array", "string", "boolean", "null", "number"]
        );
        // No text at all makes it panic.
        for text in ["", "{", "[", "{:", "]", "{\"", "[ä", "{ä"] {
            let _ = shape(text);
        }
    }
}
