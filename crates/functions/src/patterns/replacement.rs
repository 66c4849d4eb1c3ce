//! What `regexp_replace` puts in the place of a match.

use std::ops::Range;

use super::pattern::Matches;

#[derive(PartialEq, Eq, Debug)]
enum Part {
    /// A part of the replacement as it is written.
    Text(Range<usize>),
    /// What a group of the pattern has matched; 0 is the whole.
    Group(usize),
}

/// A replacement, taken apart; that of a row is mostly that of the row before.
#[derive(Default)]
pub struct Replacement {
    text: String,
    parts: Vec<Part>,
}

impl Replacement {
    /// That of a row.
    pub fn of(&mut self, text: &str) -> &Self {
        if self.text != text {
            *self = Self { text: text.to_owned(), parts: read(text) };
        }
        self
    }

    fn write(&self, matches: &Matches<'_, '_>, text: &str, out: &mut String) {
        for part in &self.parts {
            match part {
                Part::Text(range) => out.push_str(&self.text[range.clone()]),
                Part::Group(number) => out.push_str(matches.group(*number).map_or("", |place| &text[place])),
            }
        }
    }
}

/// `\1` to `\9` are groups, `\&` is the whole match, two backslashes are one, and a lone one stands for itself.
fn read(text: &str) -> Vec<Part> {
    let (mut parts, mut from) = (Vec::new(), 0);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let group = match (bytes[at], bytes.get(at + 1)) {
            (b'\\', Some(digit @ b'1'..=b'9')) => Some(usize::from(digit - b'0')),
            (b'\\', Some(b'&')) => Some(0),
            (b'\\', Some(b'\\')) => None,
            _ => {
                at += 1;
                continue;
            }
        };
        // Of two backslashes the first stays.
        parts.push(Part::Text(from..if group.is_none() { at + 1 } else { at }));
        parts.extend(group.map(Part::Group));
        at += 2;
        from = at;
    }
    parts.push(Part::Text(from..bytes.len()));
    parts
}

/// A text whose match of a number is replaced; of 0 all are.
pub fn replaced(mut matches: Matches<'_, '_>, text: &str, new: &Replacement, number: usize) -> String {
    let (mut out, mut copied, mut count) = (String::new(), 0, 0);
    while let Some(place) = matches.next() {
        count += 1;
        if number != 0 && count != number {
            continue;
        }
        out.push_str(&text[copied..place.start]);
        new.write(&matches, text, &mut out);
        copied = place.end;
        if count == number {
            break;
        }
    }
    out.push_str(&text[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn backslashes_name_what_was_matched() {
        let of = |text: &str, pattern: &str, new: &str, number| {
            let regex = Regex::new(pattern).unwrap();
            replaced(Matches::new(&regex, text, Some(0)), text, Replacement::default().of(new), number)
        };
        assert_eq!(of("abc", "(b)", r"<\1\&\\\x\2$1>", 1), r"a<bb\\x$1>c");
        assert_eq!(of("aaa", "a", "", 2), "aa");
        assert_eq!(of("aaa", "a", r"b\", 0), r"b\b\b\");
        assert_eq!(of("abc", "", "-", 0), "-a-b-c-");
        assert_eq!(of("abc", "x|", "-", 1), "-abc");
    }
}
