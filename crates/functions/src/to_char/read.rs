//! A number read by a template, in the way PostgreSQL goes through one.

use saki_catalog::SqlError;

use super::template::{Anchor, Part, Template};

/// What a number has in the text of one: digits, points, commas and signs.
const DATA: &str = "0123456789.,+-";

/// A number as its text says it: a sign, digits, and those behind a point, of which there are so many.
#[derive(PartialEq, Eq, Debug)]
pub struct Written {
    pub text: String,
    pub scale: usize,
}

/// # Errors
/// 0A000 for patterns that are only written, 22P02 for a text without digits.
pub fn number(text: &str, template: &Template) -> Result<Written, SqlError> {
    let unsupported = |pattern: &str| SqlError::unsupported(format!("\"{pattern}\" not supported for input"));
    if template.is_scientific {
        return Err(unsupported("EEEE"));
    }
    if template.parts.iter().any(|part| matches!(part, Part::Roman(_))) {
        return Err(unsupported("RN"));
    }
    let mut reader = Reader::new(template, text);
    for part in &template.parts {
        if reader.rest().is_none() {
            break;
        }
        reader.part(*part);
    }
    let Reader { sign, mut digits, behind, .. } = reader;
    if digits.ends_with('.') {
        digits.pop();
    }
    let sign = sign.map(String::from).unwrap_or_default();
    match digits.is_empty() {
        true => Err(SqlError::data(format!("invalid input syntax for type numeric: \"{sign:1}\"")).code("22P02")),
        false => Ok(Written { text: sign + &digits, scale: behind }),
    }
}

struct Reader<'t> {
    template: &'t Template,
    text: Vec<char>,
    at: usize,
    sign: Option<char>,
    /// Digits, and the point among them.
    digits: String,
    has_point: bool,
    /// Digits before and behind the point.
    before: usize,
    behind: usize,
}

impl<'t> Reader<'t> {
    fn new(template: &'t Template, text: &str) -> Self {
        let (text, digits) = (text.chars().collect(), String::new());
        Self { template, text, at: 0, sign: None, digits, has_point: false, before: 0, behind: 0 }
    }

    fn rest(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn part(&mut self, part: Part) {
        let next = self.rest();
        match part {
            Part::Nine | Part::Zero | Part::Point => {
                self.digit(part != Part::Point);
                self.at += 1;
            }
            Part::Group => self.at += usize::from(next == Some(',')),
            // Whichever it is.
            Part::Letter(_) => self.at += 1,
            Part::Currency => self.pass(1),
            Part::Ordinal(_) if self.sign != Some('-') && !self.template.has_point => self.pass(2),
            Part::Minus => self.own_sign(&['-']),
            Part::Plus => self.own_sign(&['+']),
            Part::Sign => self.own_sign(&['-', '+']),
            Part::Ordinal(_) | Part::Roman(_) => {}
        }
    }

    fn own_sign(&mut self, signs: &[char]) {
        match self.rest().filter(|next| signs.contains(next)) {
            Some(sign) => {
                self.sign = Some(sign);
                self.at += 1;
            }
            None => self.pass(1),
        }
    }

    /// Passes over so many characters that are not a number's.
    fn pass(&mut self, count: usize) {
        for _ in 0..count {
            if self.rest().is_some_and(|next| !DATA.contains(next)) {
                self.at += 1;
            }
        }
    }

    /// Takes the sign before a number, a digit or the point, and the sign behind. The place stays on what was taken.
    fn digit(&mut self, is_digit: bool) {
        if self.rest() == Some(' ') {
            self.at += 1;
        }
        let anchor = self.template.anchor.map(|(anchor, _)| anchor);
        let count = self.before + self.behind;
        if self.sign.is_none() && is_digit && count == 0 {
            let is_sign = |next: &char| match next {
                '-' | '+' => true,
                '<' => anchor.is_none() && self.template.has_brackets,
                _ => false,
            };
            if let Some(next) = self.rest().filter(is_sign) {
                self.sign = Some(if next == '+' { '+' } else { '-' });
                self.at += 1;
            }
        }
        let Some(next) = self.rest() else { return };
        let mut is_read = false;
        if next.is_ascii_digit() {
            if self.has_point && self.behind == self.template.behind {
                return;
            }
            self.digits.push(next);
            match self.has_point {
                true => self.behind += 1,
                false => self.before += 1,
            }
            is_read = true;
        } else if next == '.' && self.template.has_point && !self.has_point {
            self.digits.push('.');
            self.has_point = true;
            is_read = true;
        }
        if self.sign.is_none() && self.before + self.behind > 0 {
            self.sign_behind(anchor, is_read);
        }
    }

    fn sign_behind(&mut self, anchor: Option<Anchor>, is_read: bool) {
        let is_sign = |next: &char| matches!(next, '-' | '+');
        if anchor.is_some() {
            if let Some(sign) = self.text.get(self.at + 1).copied().filter(|next| is_read && is_sign(next)) {
                self.at += 1;
                self.sign = Some(sign);
            }
        } else if !is_read && (self.template.has_plus || self.template.has_minus) {
            self.sign = self.rest().filter(is_sign);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        for (text, template, expected) in [
            ("12,454.8-", "99G999D9S", "-12454.8"),
            ("-34,338,492", "99G999G999", "-34338492"),
            ("0.01-", "9.99MI", "-0.01"),
            ("  12.3", "999.99", "12.3"),
            ("12.345", "99.99", "12.34"),
            ("12.", "99.9", "12"),
            ("$1,234.5", "L9,999.99", "1234.5"),
            ("1,2,3", "9,9,9", "123"),
            ("-12", "S99", "-12"),
            ("+12", "SG99", "+12"),
            ("12-", "99S", "-12"),
            ("1-", "9MI", "-1"),
            (".5", "9.9", ".5"),
            ("x", "9", "22P02"),
            ("5", "RN", "0A000"),
        ] {
            let read = number(text, &Template::read(template).unwrap());
            let read = read.map_or_else(|error| error.sqlstate().to_owned(), |written| written.text);
            assert_eq!(read, expected, "{text} {template}");
        }
    }
}
