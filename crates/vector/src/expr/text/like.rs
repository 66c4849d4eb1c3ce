//! SQL LIKE: `%` stands for any text, `_` for any character, `\` takes the next character as it is.

use std::fmt;

use arrow_array::StringViewArray;
use memchr::memmem::Finder;

use super::contain;
use crate::Result;
use crate::expr::mask::Mask;
use crate::expr::text;

/// A pattern, prepared to be looked for.
pub struct LikePattern {
    pattern: String,
    case_insensitive: bool,
    shape: Shape,
}

enum Shape {
    /// No wildcard: the text itself.
    Exact(Vec<u8>),
    /// Pieces of text with `%` between them: the text starts with `prefix`, has `middle` in this order, and ends with
    /// `suffix`, none of them over another.
    Pieces {
        prefix: Vec<u8>,
        middle: Vec<Finder<'static>>,
        suffix: Vec<u8>,
    },
    General(Vec<Token>),
    /// Left to Arrow, which knows how letters fold.
    CaseInsensitive,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// One character.
    Any,
    /// Any characters.
    Run,
}

impl LikePattern {
    pub fn new(pattern: &str, case_insensitive: bool) -> Self {
        let shape = if case_insensitive { Shape::CaseInsensitive } else { Shape::of(tokens(pattern)) };
        Self { pattern: pattern.to_owned(), case_insensitive, shape }
    }

    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    pub fn case_insensitive(&self) -> bool {
        self.case_insensitive
    }

    /// The text that everything that matches starts with.
    pub fn prefix(&self) -> &[u8] {
        match &self.shape {
            Shape::Exact(text) => text,
            Shape::Pieces { prefix, .. } => prefix,
            Shape::General(_) | Shape::CaseInsensitive => &[],
        }
    }

    /// Keeps the rows that match. Rows of `mask` are not NULL.
    pub(crate) fn narrow(&self, texts: &StringViewArray, mask: &mut Mask) -> Result<()> {
        match &self.shape {
            Shape::Exact(text) => text::narrow_equal(texts, text, mask),
            Shape::Pieces { prefix, middle, suffix } => {
                text::narrow_prefix(texts, prefix, mask);
                let rest = |row| &texts.value(row).as_bytes()[prefix.len()..];
                match (middle.as_slice(), suffix.as_slice()) {
                    ([], []) => {}
                    ([], suffix) => mask.narrow_rows(|row| rest(row).ends_with(suffix)),
                    ([piece], []) if prefix.is_empty() => contain::narrow(texts, piece, mask),
                    (middle, suffix) => {
                        if prefix.is_empty()
                            && let Some(longest) = middle.iter().max_by_key(|piece| piece.needle().len())
                        {
                            contain::narrow(texts, longest, mask);
                        }
                        mask.narrow_rows(|row| pieces_match(rest(row), middle, suffix));
                    }
                }
            }
            Shape::General(tokens) => mask.narrow_rows(|row| tokens_match(texts.value(row), tokens)),
            Shape::CaseInsensitive => {
                let pattern = StringViewArray::new_scalar(&self.pattern);
                mask.intersect_bits(arrow_string::like::ilike(texts, &pattern)?.values());
            }
        }
        Ok(())
    }
}

impl fmt::Debug for LikePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LikePattern")
            .field("pattern", &self.pattern)
            .field("case_insensitive", &self.case_insensitive)
            .finish_non_exhaustive()
    }
}

impl Shape {
    fn of(tokens: Vec<Token>) -> Self {
        if tokens.contains(&Token::Any) {
            return Self::General(tokens);
        }
        let mut pieces: Vec<Vec<u8>> = tokens
            .split(|token| *token == Token::Run)
            .map(|piece| {
                piece.iter().filter_map(|token| if let Token::Byte(b) = token { Some(*b) } else { None }).collect()
            })
            .collect();
        let suffix = pieces.pop().unwrap_or_default();
        if pieces.is_empty() {
            return Self::Exact(suffix);
        }
        let prefix = pieces.remove(0);
        pieces.retain(|piece| !piece.is_empty());
        let middle = pieces.iter().map(|piece| Finder::new(piece).into_owned()).collect();
        Self::Pieces { prefix, middle, suffix }
    }
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            // A run beside another adds nothing.
            b'%' if tokens.last() == Some(&Token::Run) => {}
            b'%' => tokens.push(Token::Run),
            b'_' => tokens.push(Token::Any),
            // An escape with nothing to escape stands for itself.
            b'\\' => tokens.push(Token::Byte(bytes.next().unwrap_or(b'\\'))),
            byte => tokens.push(Token::Byte(byte)),
        }
    }
    tokens
}

fn pieces_match(mut text: &[u8], middle: &[Finder<'_>], suffix: &[u8]) -> bool {
    // The first place of each piece leaves the most for those that follow.
    for piece in middle {
        match piece.find(text) {
            Some(at) => text = &text[at + piece.needle().len()..],
            None => return false,
        }
    }
    text.ends_with(suffix)
}

/// Matches from the front; where that fails, the last run takes one character more.
fn tokens_match(text: &str, tokens: &[Token]) -> bool {
    let bytes = text.as_bytes();
    let (mut at, mut token) = (0, 0);
    // Where the last run stands, and where the text after what it takes begins.
    let mut retry: Option<(usize, usize)> = None;
    let character = |at: usize| text[at..].chars().next().map_or(1, char::len_utf8);
    loop {
        let matched = match tokens.get(token) {
            None if at == bytes.len() => return true,
            None => None,
            Some(Token::Run) => {
                retry = Some((token, at));
                Some(0)
            }
            Some(Token::Byte(wanted)) => (bytes.get(at) == Some(wanted)).then_some(1),
            Some(Token::Any) => (at < bytes.len()).then(|| character(at)),
        };
        match (matched, retry) {
            (Some(length), _) => (at, token) = (at + length, token + 1),
            (None, Some((run, from))) if from < bytes.len() => {
                let from = from + character(from);
                retry = Some((run, from));
                (at, token) = (from, run + 1);
            }
            (None, _) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Array, StringArray};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_as_arrow_does(
            texts in prop::collection::vec(prop::option::of("[abé%_]{0,20}"), 0..80),
            pattern in "[abé%_]{0,6}(\\\\[%_a])?[ab%]{0,4}",
            insensitive: bool,
        ) {
            let texts = StringViewArray::from_iter(texts);
            let scalar = StringArray::new_scalar(&pattern);
            let offsets = StringArray::from_iter(texts.iter());
            let expected = if insensitive {
                arrow_string::like::ilike(&offsets, &scalar)?
            } else {
                arrow_string::like::like(&offsets, &scalar)?
            };
            let mut mask = Mask::all(texts.len());
            if let Some(nulls) = texts.nulls() {
                mask.intersect_bits(nulls.inner());
            }
            let mut wanted = mask.clone();
            wanted.intersect_bits(expected.values());
            LikePattern::new(&pattern, insensitive).narrow(&texts, &mut mask)?;
            prop_assert_eq!(mask, wanted, "{}", pattern);
        }
    }
}
