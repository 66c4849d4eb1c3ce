//! Regular expressions with PostgreSQL's options, and the places where they match.

use std::ops::Range;

use datafusion::common::Result;
use regex::{CaptureLocations, Regex, RegexBuilder};
use saki_catalog::SqlError;

/// A pattern and its options, ready to be looked for.
pub struct Pattern {
    text: String,
    flags: String,
    pub regex: Regex,
    /// Whether it is to be found as often as it is there.
    pub is_global: bool,
}

impl Pattern {
    /// # Errors
    /// 2201B for a pattern that cannot be read, 22023 for an option that there is not.
    pub fn new(text: &str, flags: &str) -> Result<Self> {
        let mut builder = RegexBuilder::new(text);
        // A dot is any character, the end of a line too.
        builder.dot_matches_new_line(true);
        let mut is_global = false;
        for flag in flags.chars() {
            match flag {
                'g' => is_global = true,
                'i' => drop(builder.case_insensitive(true)),
                'c' => drop(builder.case_insensitive(false)),
                'n' | 'm' => drop(builder.dot_matches_new_line(false).multi_line(true)),
                's' => drop(builder.dot_matches_new_line(true).multi_line(false)),
                'w' => drop(builder.multi_line(true)),
                'p' => drop(builder.dot_matches_new_line(false)),
                'x' => drop(builder.ignore_whitespace(true)),
                't' => {}
                other => {
                    let message = format!("invalid regular expression option: \"{other}\"");
                    return Err(SqlError::data(message).code("22023").into());
                }
            }
        }
        let invalid = |error: regex::Error| {
            let message = error.to_string();
            let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            SqlError::data(format!("invalid regular expression: {reason}")).code("2201B")
        };
        let regex = builder.build().map_err(invalid)?;
        Ok(Self { text: text.to_owned(), flags: flags.to_owned(), regex, is_global })
    }
}

/// The pattern of a row, which is mostly that of the row before.
#[derive(Default)]
pub struct Patterns {
    last: Option<Pattern>,
}

impl Patterns {
    /// # Errors
    /// As [`Pattern::new`].
    pub fn get(&mut self, text: &str, flags: &str) -> Result<&Pattern> {
        let last = match self.last.take().filter(|last| last.text == text && last.flags == flags) {
            Some(last) => last,
            None => Pattern::new(text, flags)?,
        };
        Ok(self.last.insert(last))
    }
}

/// Matches one after the other as PostgreSQL finds them: the next is looked for where one ends, and behind one without
/// letters from the next letter on.
pub struct Matches<'p, 't> {
    regex: &'p Regex,
    text: &'t str,
    /// Where the next is looked for.
    at: Option<usize>,
    places: CaptureLocations,
}

impl<'p, 't> Matches<'p, 't> {
    /// From a byte of the text on.
    pub fn new(regex: &'p Regex, text: &'t str, at: Option<usize>) -> Self {
        Self { regex, text, at, places: regex.capture_locations() }
    }

    /// Where the match that was found last lies, or one of the groups of its pattern.
    pub fn group(&self, number: usize) -> Option<Range<usize>> {
        self.places.get(number).map(|(start, end)| start..end)
    }
}

impl Iterator for Matches<'_, '_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let found = self.regex.captures_read_at(&mut self.places, self.text, self.at.take()?)?.range();
        self.at = match found.is_empty() {
            true => self.text[found.end..].chars().next().map(|letter| found.end + letter.len_utf8()),
            false => Some(found.end),
        };
        Some(found)
    }
}

/// The byte at which a letter begins, counted from 1; `None` behind the end.
pub fn byte_of(text: &str, letter: i64) -> Option<usize> {
    let before = usize::try_from(letter.checked_sub(1)?).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_without_letters_are_found_at_each_letter_and_at_the_end() {
        let places = |pattern: &str, text: &str| {
            let regex = Regex::new(pattern).unwrap();
            Matches::new(&regex, text, Some(0)).map(|place| (place.start, place.end)).collect::<Vec<_>>()
        };
        assert_eq!(places("a*", "baaac"), [(0, 0), (1, 4), (4, 4), (5, 5)]);
        assert_eq!(places("", "äb"), [(0, 0), (2, 2), (3, 3)]);
        assert_eq!(places("x", ""), []);
    }

    #[test]
    fn letters_are_counted_from_one() {
        assert_eq!([1, 2, 3, 4].map(|letter| byte_of("äb", letter)), [Some(0), Some(2), Some(3), None]);
        assert_eq!(byte_of("a", i64::MIN), None);
    }
}
