//! Texts that are checked, and those brought into one form.

use std::borrow::Cow;

use super::fault::{DEPTH_MAX, JsonFault};
use super::number::write_canonical;
use super::reader::{Reader, Token};
use super::string::{unquoted, write_quoted};

/// Bytes that the numbers of a text may become beyond its own: `1e100000` is a long one.
const NUMBER_BYTES_MAX: usize = 16 << 20;

/// The pairs of an object under way, each with the text of its value.
#[derive(Default, Debug)]
pub struct Pairs<'t>(Vec<(Cow<'t, str>, Cow<'t, str>)>);

impl<'t> Pairs<'t> {
    /// Adds a pair; of those with one key the last one added stays.
    pub fn push(&mut self, key: impl Into<Cow<'t, str>>, value: impl Into<Cow<'t, str>>) {
        self.0.push((key.into(), value.into()));
    }

    /// The object in the one form, if its values are in it.
    pub fn write(mut self, out: &mut String) {
        // Stable: of equal keys the last one is the last.
        self.0.sort_by(|(left, _), (right, _)| (left.len(), left).cmp(&(right.len(), right)));
        out.push('{');
        let start = out.len();
        for (at, (key, value)) in self.0.iter().enumerate() {
            if self.0.get(at + 1).is_some_and(|(next, _)| next == key) {
                continue;
            }
            if out.len() > start {
                out.push_str(", ");
            }
            write_quoted(key, out);
            out.push_str(": ");
            out.push_str(value);
        }
        out.push('}');
    }
}

/// An array or object that is not complete yet.
enum Open<'t> {
    Array(Vec<String>),
    Object(Pairs<'t>, Option<Cow<'t, str>>),
    /// Of texts that are only checked.
    Checked {
        is_object: bool,
        is_empty: bool,
    },
}

/// Checks that a text is one value of JSON.
///
/// # Errors
/// What is wrong with it.
pub fn checked(text: &str) -> Result<(), JsonFault> {
    read(text, false).map(|_| ())
}

/// The one form of a text.
///
/// # Errors
/// What is wrong with it.
pub fn canonical(text: &str) -> Result<String, JsonFault> {
    read(text, true)
}

/// Reads one value, level by level; its form if it is kept.
fn read(text: &str, kept: bool) -> Result<String, JsonFault> {
    let mut room = NUMBER_BYTES_MAX.saturating_add(text.len());
    let mut reader = Reader::new(text);
    let mut levels: Vec<Open<'_>> = Vec::new();
    loop {
        // A value is due, or the end of what has none yet.
        let token = reader.token()?;
        let mut done = match token {
            Some(Token::Open(bracket)) => {
                if levels.len() == DEPTH_MAX {
                    return Err(JsonFault::TooDeep);
                }
                levels.push(opened(bracket, kept));
                if bracket == b'{' && !key(&mut reader, &mut levels)? {
                    closed(&mut levels)
                } else {
                    continue;
                }
            }
            Some(Token::Close(b']')) if is_empty_array(levels.last()) => closed(&mut levels),
            Some(token @ Token::Number(_)) => {
                let number = scalar(token, kept)?;
                room = room.checked_sub(number.len()).ok_or(JsonFault::OutOfRange)?;
                number
            }
            Some(token @ (Token::String(_) | Token::Word(_))) => scalar(token, kept)?,
            other => return Err(reader.unexpected(other)),
        };
        // A value is complete, and so may be what it is in.
        loop {
            let Some(level) = levels.last_mut() else {
                return match reader.token()? {
                    None => Ok(done),
                    other => Err(reader.unexpected(other)),
                };
            };
            let is_object = take(level, done);
            match reader.token()? {
                Some(Token::Comma) => {
                    if is_object && !key(&mut reader, &mut levels)? {
                        return Err(reader.unexpected(Some(Token::Close(b'}'))));
                    }
                    break;
                }
                Some(Token::Close(bracket)) if (bracket == b'}') == is_object => done = closed(&mut levels),
                other => return Err(reader.unexpected(other)),
            }
        }
    }
}

fn opened<'t>(bracket: u8, kept: bool) -> Open<'t> {
    match (kept, bracket) {
        (false, _) => Open::Checked { is_object: bracket == b'{', is_empty: true },
        (true, b'{') => Open::Object(Pairs::default(), None),
        (true, _) => Open::Array(Vec::new()),
    }
}

/// Whether an array has just been opened: behind a comma a value has to come.
fn is_empty_array(level: Option<&Open<'_>>) -> bool {
    match level {
        Some(Open::Array(elements)) => elements.is_empty(),
        Some(Open::Checked { is_object, is_empty }) => !is_object && *is_empty,
        _ => false,
    }
}

/// Reads a key and its colon; `false` if the object ends instead.
fn key<'t>(reader: &mut Reader<'t>, levels: &mut [Open<'t>]) -> Result<bool, JsonFault> {
    let quoted = match reader.token()? {
        Some(Token::String(quoted)) => quoted,
        Some(Token::Close(b'}')) => return Ok(false),
        other => return Err(reader.unexpected(other)),
    };
    if let Some(Open::Object(_, due)) = levels.last_mut() {
        *due = Some(unquoted(quoted)?);
    }
    match reader.token()? {
        Some(Token::Colon) => Ok(true),
        other => Err(reader.unexpected(other)),
    }
}

fn scalar(token: Token<'_>, kept: bool) -> Result<String, JsonFault> {
    let mut out = String::new();
    match token {
        _ if !kept => {}
        Token::String(quoted) => write_quoted(&unquoted(quoted)?, &mut out),
        Token::Number(number) => write_canonical(number, &mut out)?,
        Token::Word(word) => out.push_str(word),
        _ => {}
    }
    Ok(out)
}

/// Puts a value where it belongs; whether that is an object.
fn take(level: &mut Open<'_>, value: String) -> bool {
    match level {
        Open::Array(elements) => {
            elements.push(value);
            false
        }
        Open::Object(pairs, due) => {
            if let Some(key) = due.take() {
                pairs.push(key, value);
            }
            true
        }
        Open::Checked { is_object, is_empty } => {
            *is_empty = false;
            *is_object
        }
    }
}

fn closed(levels: &mut Vec<Open<'_>>) -> String {
    let mut out = String::new();
    match levels.pop() {
        Some(Open::Array(elements)) => {
            out.push('[');
            out.push_str(&elements.join(", "));
            out.push(']');
        }
        Some(Open::Object(pairs, _)) => pairs.write(&mut out),
        _ => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 prints them.
    #[test]
    fn texts_have_one_form() {
        for (text, expected) in [
            (" 1 ", "1"),
            ("null", "null"),
            ("[]", "[]"),
            ("{ }", "{}"),
            ("[1,[2,{\"a\":[]}]]", "[1, [2, {\"a\": []}]]"),
            ("{\"bb\":1,\"a\":2,\"c\":3,\"a\":4}", "{\"a\": 4, \"c\": 3, \"bb\": 1}"),
            (
                "[1e5,1.50,1E-3,-0,-0.0,1.0e1,1.50e1,0e7,12e-1,100e-2]",
                "[100000, 1.50, 0.001, 0, 0.0, 10, 15.0, 0, 1.2, 1.00]",
            ),
            ("\"\\u00e4\\/\\\"\\n\\u0007\\ud83d\\ude00\"", "\"ä/\\\"\\n\\u0007😀\""),
            ("123456789012345678901234567890.123456789", "123456789012345678901234567890.123456789"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
            assert_eq!(canonical(expected).as_deref(), Ok(expected), "{text} again");
            assert_eq!(checked(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{1:2}",
            "1 2",
            "tru",
            "truex",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "+1",
            "\"a",
            "\"\\x\"",
            "\"\\u12g4\"",
            "'a'",
            "[1}",
            "{\"a\":1]",
            "]",
            "\"\n\"",
            "nul",
            "NaN",
            "1a",
            "{\"a\":1 \"b\":2}",
        ] {
            assert_eq!(checked(text).map_err(JsonFault::sqlstate), Err("22P02"), "{text}");
            assert_eq!(canonical(text).map_err(JsonFault::sqlstate), Err("22P02"), "{text}");
        }
        for (text, code) in
            [("\"\\u0000\"", "22P05"), ("\"\\ud800\"", "22P05"), ("1e999999", "22003"), ("1e-20000", "22003")]
        {
            assert_eq!(checked(text), Ok(()), "{text}");
            assert_eq!(canonical(text).map_err(JsonFault::sqlstate), Err(code), "{text}");
        }
        let long = |count: usize| format!("[{}]", vec!["1e131000"; count].join(","));
        assert!(canonical(&long(100)).is_ok());
        assert_eq!(canonical(&long(200)), Err(JsonFault::OutOfRange));
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(checked(&deep(DEPTH_MAX)), Ok(()));
        assert_eq!(checked(&deep(DEPTH_MAX + 1)), Err(JsonFault::TooDeep));
        assert_eq!(canonical(&deep(DEPTH_MAX + 1)), Err(JsonFault::TooDeep));
    }
}
