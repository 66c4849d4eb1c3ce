//! Arrays of one dimension as text.

use super::error::ParseReason;
use crate::value::array::is_blank;

/// The elements of `{1,"a b",NULL}`.
///
/// # Errors
/// `Array` if it is none, `Dimensions` if its elements are arrays.
pub fn elements(text: &str) -> Result<Vec<Option<String>>, ParseReason> {
    match simple(text) {
        Some(elements) => Ok(elements),
        None if is_deep(text.trim_matches(is_blank)) => Err(ParseReason::Dimensions),
        None => Err(ParseReason::Array),
    }
}

/// Whether a text begins as an array of arrays does, or one whose subscripts do not begin at 1.
fn is_deep(text: &str) -> bool {
    let inner = text.strip_prefix('{').map(|inner| inner.trim_start_matches(is_blank));
    inner.is_some_and(|inner| inner.starts_with('{')) || text.starts_with('[')
}

/// The elements of an array of one dimension (PostgreSQL's `array_in`).
fn simple(text: &str) -> Option<Vec<Option<String>>> {
    let mut rest = text.trim_matches(is_blank).strip_prefix('{')?.trim_start_matches(is_blank);
    let mut elements = Vec::new();
    if rest == "}" {
        return Some(elements);
    }
    loop {
        let (element, after) = element(rest.trim_start_matches(is_blank))?;
        elements.push(element);
        let mut after = after.chars();
        match after.next()? {
            ',' => rest = after.as_str(),
            '}' if after.as_str().is_empty() => return Some(elements),
            _ => return None,
        }
    }
}

/// An element at the beginning of a text, NULL or not, and what is behind it.
fn element(text: &str) -> Option<(Option<String>, &str)> {
    match text.strip_prefix('"') {
        Some(text) => quoted(text),
        None => bare(text),
    }
}

fn quoted(text: &str) -> Option<(Option<String>, &str)> {
    let (mut element, mut chars) = (String::new(), text.chars());
    loop {
        match chars.next()? {
            '"' => return Some((Some(element), chars.as_str().trim_start_matches(is_blank))),
            '\\' => element.push(chars.next()?),
            c => element.push(c),
        }
    }
}

fn bare(text: &str) -> Option<(Option<String>, &str)> {
    let (mut element, mut chars) = (String::new(), text.chars());
    // Bytes that blanks at the end are not taken from.
    let mut kept = 0;
    let rest = loop {
        let rest = chars.as_str();
        match chars.next()? {
            ',' | '}' => break rest,
            '{' | '"' => return None,
            '\\' => {
                element.push(chars.next()?);
                kept = element.len();
            }
            c => element.push(c),
        }
    };
    element.truncate(element.trim_end_matches(is_blank).len().max(kept));
    if element.is_empty() {
        return None;
    }
    let is_null = kept == 0 && element.eq_ignore_ascii_case("null");
    Some(((!is_null).then_some(element), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(elements("{}"), Ok(vec![]));
        assert_eq!(elements("{1, 2,NULL}"), Ok(vec![some("1"), some("2"), None]));
        assert_eq!(elements(r#"{"a,\"b",c\\d,"null"}"#), Ok(vec![some("a,\"b"), some("c\\d"), some("null")]));
        assert_eq!(elements(" { \"a\" , \" b\",c d ,\\n\\ } "), Ok(["a", " b", "c d", "n "].map(some).to_vec()));
        for deep in ["{{1}}", "{ {1},{2}}", "[0:1]={1,2}"] {
            assert_eq!(elements(deep), Err(ParseReason::Dimensions), "{deep}");
        }
        for none in ["1,2", "{\"a}", "{a{b}", "{1,}", "{,}", "{a\"b\"}"] {
            assert_eq!(elements(none), Err(ParseReason::Array), "{none}");
        }
    }
}
