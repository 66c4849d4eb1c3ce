//! What LIKE asks of texts, as far as it is told by how they begin.

/// A pattern without escapes whose only wildcard is `%` at its end, or that has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern<'p> {
    Text(&'p str),
    /// Texts that begin so.
    Beginning(&'p str),
}

impl<'p> Pattern<'p> {
    /// `None` of another pattern, and of one that all texts are like.
    pub fn read(pattern: &'p str) -> Option<Self> {
        let beginning = beginning(pattern);
        match &pattern[beginning.len()..] {
            "" => Some(Self::Text(pattern)),
            "%" if !beginning.is_empty() => Some(Self::Beginning(beginning)),
            _ => None,
        }
    }

    pub fn is_met(self, text: &str) -> bool {
        match self {
            Self::Text(whole) => text == whole,
            Self::Beginning(beginning) => text.starts_with(beginning),
        }
    }
}

/// The first text behind all that begin so, in the order of their bytes; `None` if there is none.
pub fn behind(beginning: &str) -> Option<String> {
    let mut text = beginning.to_owned();
    while let Some(last) = text.pop() {
        // The iterator leaves out what is no character.
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// How all texts begin that are like a pattern: what is before its first wildcard or escape.
pub fn beginning(pattern: &str) -> &str {
    let end = pattern.find(['%', '_', '\\']).unwrap_or(pattern.len());
    &pattern[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_known_by_how_texts_begin() {
        let cases = [
            ("", Some(Pattern::Text(""))),
            ("abc", Some(Pattern::Text("abc"))),
            ("abc%", Some(Pattern::Beginning("abc"))),
            ("äö%", Some(Pattern::Beginning("äö"))),
            ("%", None),
            ("a%b", None),
            ("a%%", None),
            ("a_%", None),
            (r"a\%", None),
        ];
        for (pattern, expected) in cases {
            assert_eq!(Pattern::read(pattern), expected, "{pattern}");
        }
        assert_eq!(["a%b", r"ab\%", "_", "ab"].map(beginning), ["a", "ab", "", "ab"]);
        assert_eq!(behind("ab").as_deref(), Some("ac"));
        assert_eq!(behind("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(behind("a\u{10ffff}\u{10ffff}").as_deref(), Some("b"));
        assert_eq!((behind(""), behind("\u{10ffff}")), (None, None));
        assert!(Pattern::Beginning("ab").is_met("abc") && !Pattern::Beginning("ab").is_met("a"));
        assert!(Pattern::Text("ab").is_met("ab") && !Pattern::Text("ab").is_met("abc"));
    }
}
