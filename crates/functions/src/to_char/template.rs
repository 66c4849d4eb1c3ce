//! Templates of `to_char` for numbers.

use saki_catalog::SqlError;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Nine,
    Zero,
    Point,
    Group,
    Minus,
    Plus,
    Sign,
    /// `TH`, or `th` for lower case.
    Ordinal(bool),
    /// `RN`, or `rn`.
    Roman(bool),
    Letter(char),
    /// There is none: it is written as a blank.
    Currency,
}

/// Where an `S` has the sign stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    Before,
    After,
}

/// A template, taken apart.
#[derive(Default, Debug)]
pub struct Template {
    pub parts: Vec<Part>,
    /// Digits before and behind the point, and those that `V` multiplies by.
    pub before: usize,
    pub behind: usize,
    pub shift: usize,
    /// The first and last digit that is there in any case, counted from 1.
    pub zero_start: Option<usize>,
    pub zero_end: usize,
    pub anchor: Option<(Anchor, usize)>,
    pub has_point: bool,
    has_v: bool,
    pub is_bare: bool,
    pub is_scientific: bool,
    pub has_minus: bool,
    pub has_plus: bool,
    pub has_brackets: bool,
}

impl Template {
    /// # Errors
    /// 42601 for patterns that do not go together.
    pub fn read(text: &str) -> Result<Self, SqlError> {
        let mut template = Self::default();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            if letter == '"' {
                rest = template.quoted(&rest[1..]);
            } else if let Some(length) = template.pattern(rest)? {
                rest = &rest[length..];
            } else {
                let (letter, length) = if rest.starts_with("\\\"") { ('"', 2) } else { (letter, letter.len_utf8()) };
                template.parts.push(Part::Letter(letter));
                rest = &rest[length..];
            }
        }
        Ok(template)
    }

    /// Text between quotes; what is behind it.
    fn quoted<'t>(&mut self, text: &'t str) -> &'t str {
        let mut letters = text.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => return &text[at + 1..],
                '\\' => self.parts.extend(letters.next().map(|(_, letter)| Part::Letter(letter))),
                letter => self.parts.push(Part::Letter(letter)),
            }
        }
        ""
    }

    /// Takes a pattern from the beginning of a text: its length.
    fn pattern(&mut self, text: &str) -> Result<Option<usize>, SqlError> {
        const PATTERNS: [&str; 20] = [
            "EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", "9", "0", ".", ",", "B", "C", "D", "G", "L", "S",
            "V",
        ];
        let begins = |pattern: &str| text.get(..pattern.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(pattern));
        let Some(pattern) = PATTERNS.into_iter().find(|pattern| begins(pattern)) else { return Ok(None) };
        let refused = |message: &str| Err(SqlError::data(message.to_owned()).code("42601"));
        let is_lower = text.starts_with(|letter: char| letter.is_ascii_lowercase());
        match pattern {
            "9" | "0" if self.has_brackets => return refused(&format!("\"{pattern}\" must be ahead of \"PR\"")),
            "9" | "0" => self.digit(pattern == "0"),
            "." | "D" if self.has_point => return refused("multiple decimal points"),
            "." | "D" if self.has_v => return refused("cannot use \"V\" and decimal point together"),
            "." | "D" => {
                self.has_point = true;
                self.parts.push(Part::Point);
            }
            "," | "G" => self.parts.push(Part::Group),
            "S" if self.anchor.is_some() => return refused("cannot use \"S\" twice"),
            "S" if self.has_plus || self.has_minus || self.has_brackets => {
                return refused("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together");
            }
            "S" => self.anchor = Some((if self.has_point { Anchor::After } else { Anchor::Before }, self.before)),
            "MI" | "PL" | "SG" if self.anchor.is_some() => {
                return refused(&format!("cannot use \"S\" and \"{pattern}\" together"));
            }
            "MI" | "PL" | "SG" => {
                self.has_minus |= pattern != "PL";
                self.has_plus |= pattern != "MI";
                self.parts.push(match pattern {
                    "MI" => Part::Minus,
                    "PL" => Part::Plus,
                    _ => Part::Sign,
                });
            }
            "PR" => self.has_brackets = true,
            "V" if self.has_point => return refused("cannot use \"V\" and decimal point together"),
            "V" => self.has_v = true,
            "FM" => self.is_bare = true,
            "EEEE" => self.is_scientific = true,
            "TH" => self.parts.push(Part::Ordinal(is_lower)),
            "RN" => self.parts.push(Part::Roman(is_lower)),
            "L" => self.parts.push(Part::Currency),
            _ => {}
        }
        Ok(Some(pattern.len()))
    }

    fn digit(&mut self, is_zero: bool) {
        self.parts.push(if is_zero { Part::Zero } else { Part::Nine });
        if self.has_v {
            self.shift += 1;
        }
        if is_zero && !self.has_point {
            self.zero_start.get_or_insert(self.before + 1);
        }
        match self.has_point {
            true => self.behind += 1,
            false => self.before += 1,
        }
        if is_zero {
            self.zero_end = self.before + self.behind;
        }
    }
}
