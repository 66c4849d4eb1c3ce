//! `substring` of a text by a pattern: a regular expression, or one of SIMILAR TO with its escape character.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use saki_catalog::SqlError;

use super::pattern::{Matches, Patterns};
use super::{Quantifiers, character, translated};

/// What a pattern matches of a text, or what its first group does. With three arguments the pattern is one of SIMILAR
/// TO, and the third is its escape character, which before a quote begins and ends what is wanted.
///
/// # Errors
/// 2201B for a pattern that cannot be read, 22025 for an escape of several characters, 2200C for more than two quotes.
pub fn substrings(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = arrays.iter().map(|array| Ok(cast(array, &DataType::Utf8)?)).collect::<Result<Vec<_>>>()?;
    let texts: Vec<&StringArray> = texts.iter().map(|array| array.as_string()).collect();
    let mut patterns = Patterns::default();
    let mut last: Option<[String; 3]> = None;
    let row = |row: usize| -> Result<Option<&str>> {
        if texts.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let (text, pattern) = (texts[0].value(row), texts[1].value(row));
        let pattern = match texts.get(2).map(|escapes| escapes.value(row)) {
            None => pattern,
            Some(escape) => {
                let known = last.take().filter(|[of, by, _]| of == pattern && by == escape);
                let known = match known {
                    Some(known) => known,
                    None => [pattern.to_owned(), escape.to_owned(), wanted(pattern, character(escape)?)?],
                };
                &last.insert(known)[2]
            }
        };
        let regex = &patterns.get(pattern, "")?.regex;
        let mut matches = Matches::new(regex, text, Some(0));
        let whole = matches.next();
        let found = whole.and_then(|whole| if regex.captures_len() > 1 { matches.group(1) } else { Some(whole) });
        Ok(found.map(|place| &text[place]))
    };
    Ok(Arc::new((0..arrays[0].len()).map(row).collect::<Result<StringArray>>()?))
}

/// A pattern as a regular expression whose group is what stands between two quotes that are escaped. What is before
/// them matches as little as it can.
fn wanted(pattern: &str, escape: Option<char>) -> Result<String> {
    let Some(escape) = escape else { return Ok(super::expression(pattern, None)) };
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter == escape => match letters.next() {
                Some('"') => parts.push(std::mem::take(&mut part)),
                next => part.extend([letter].into_iter().chain(next)),
            },
            letter => part.push(letter),
        }
    }
    parts.push(part);
    let greedy = |part: &str| translated(part, Some(escape), Quantifiers::Greedy);
    Ok(match &parts[..] {
        [all] => format!("(?s)^(?:{})$", greedy(all)),
        [before, rest @ ..] if rest.len() < 3 => {
            let before = translated(before, Some(escape), Quantifiers::Lazy);
            let behind = rest.get(1).map(|behind| greedy(behind)).unwrap_or_default();
            format!("(?s)^(?:{before})({})(?:{behind})$", greedy(&rest[0]))
        }
        _ => {
            let message = "SQL regular expression may not contain more than two escape-double-quote separators";
            return Err(SqlError::data(message).code("2200C").into());
        }
    })
}
