//! A number written part by part, in the way PostgreSQL goes through a template.

use super::number::Number;
use super::template::{Anchor, Part, Template};

const ROMAN_WIDTH: usize = 15;

/// A number by a template.
pub fn written(template: &Template, number: &Number) -> String {
    if template.is_scientific {
        let sign = if number.is_negative() { '-' } else { ' ' };
        return format!("{sign}{}", number.scientific(template.behind));
    }
    let mut digits = number.digits(template.shift, template.behind);
    let is_zero = digits.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let whole = digits.find('.').unwrap_or(digits.len());
    let is_roman = template.parts.iter().any(|part| matches!(part, Part::Roman(_)));
    if whole > template.before && !is_roman {
        digits = format!("{}.{}", "#".repeat(template.before), "#".repeat(template.behind));
    }
    let blanks = template.before.saturating_sub(whole);
    Writer::new(template, digits, number.is_negative() && !is_zero, blanks).run()
}

/// A number as it is written, part by part.
struct Writer<'t> {
    template: &'t Template,
    number: Vec<u8>,
    is_negative: bool,
    /// Places before the first digit.
    blanks: usize,
    /// Places written, and digits.
    place: usize,
    at: usize,
    /// The last digit that is shown where zeros at the end are not.
    last: Option<usize>,
    anchor: Option<Anchor>,
    has_sign: bool,
    in_number: bool,
    end: usize,
    text: String,
}

impl<'t> Writer<'t> {
    fn new(template: &'t Template, digits: String, is_negative: bool, blanks: usize) -> Self {
        let own_signs = template.has_plus || template.has_minus;
        let has_sign = match own_signs {
            true => template.has_minus,
            false => !is_negative && template.is_bare && template.anchor.is_none(),
        };
        let anchor = template.anchor.map(|(anchor, before)| match anchor {
            Anchor::Before if before == template.before => Anchor::After,
            anchor => anchor,
        });
        let number = digits.into_bytes();
        let point = number.iter().position(|byte| *byte == b'.');
        let last = point.filter(|_| template.is_bare && template.has_point).map(|point| {
            let relevant = number.iter().rposition(|byte| *byte != b'0').unwrap_or(point).max(point);
            match template.zero_end > blanks {
                true => relevant.max((template.zero_end - blanks).min(number.len() - 1)),
                false => relevant,
            }
        });
        let count = (template.before + template.behind).saturating_sub(1) + usize::from(!has_sign && blanks == 0);
        let end = count + usize::from(blanks > 0) + usize::from(template.has_point);
        let (place, at, in_number, text) = (0, 0, false, String::new());
        Self { template, number, is_negative, blanks, place, at, last, anchor, has_sign, in_number, end, text }
    }

    fn run(mut self) -> String {
        for part in &self.template.parts {
            match *part {
                Part::Nine | Part::Zero | Part::Point => self.digit(*part),
                Part::Group if self.in_number => self.text.push(','),
                Part::Group => self.blank(),
                Part::Minus if self.is_negative => self.text.push('-'),
                Part::Plus if !self.is_negative => self.text.push('+'),
                Part::Minus | Part::Plus => self.blank(),
                Part::Sign => self.text.push(if self.is_negative { '-' } else { '+' }),
                Part::Ordinal(is_lower) => self.ordinal(is_lower),
                Part::Roman(is_lower) => self.roman(is_lower),
                Part::Letter(letter) => self.text.push(letter),
                Part::Currency => self.text.push(' '),
            }
        }
        self.text
    }

    fn blank(&mut self) {
        if !self.template.is_bare {
            self.text.push(' ');
        }
    }

    fn byte(&self) -> u8 {
        self.number.get(self.at).copied().unwrap_or(0)
    }

    /// Whether the zero before the point is not shown.
    fn hides_zero(&self) -> bool {
        self.template.zero_start.is_none() && self.at == 0 && self.byte() == b'0' && self.template.behind != 0
    }

    fn ends_with_point(&self) -> bool {
        self.last.is_some_and(|last| self.number[last] == b'.')
    }

    fn sign(&mut self) {
        let zero = self.template.zero_start.map(|start| start - 1);
        let begins = self.place >= self.blanks || zero == Some(self.place);
        if self.has_sign || !begins || self.hides_zero() && !self.ends_with_point() {
            return;
        }
        match self.anchor {
            Some(Anchor::Before) => self.text.push(if self.is_negative { '-' } else { '+' }),
            Some(Anchor::After) => return,
            None if self.template.has_brackets => match (self.is_negative, self.template.is_bare) {
                (true, _) => self.text.push('<'),
                (false, false) => self.text.push(' '),
                (false, true) => {}
            },
            None if self.is_negative => self.text.push('-'),
            None => self.blank(),
        }
        self.has_sign = true;
    }

    fn digit(&mut self, part: Part) {
        self.sign();
        let zero = self.template.zero_start.map(|start| start - 1);
        if self.place < self.blanks {
            match zero {
                Some(start) if start <= self.place => {
                    self.text.push('0');
                    self.in_number = true;
                }
                _ => self.blank(),
            }
        } else {
            self.own(part);
        }
        let end = if self.last.is_some_and(|last| last == self.at) { self.place } else { self.end };
        if self.place + 1 == end {
            if self.has_sign && self.template.has_brackets {
                match self.is_negative {
                    true => self.text.push('>'),
                    false => self.blank(),
                }
            } else if self.anchor == Some(Anchor::After) {
                self.text.push(if self.is_negative { '-' } else { '+' });
            }
        }
        self.place += 1;
    }

    /// A digit of the number, or its point.
    fn own(&mut self, part: Part) {
        let byte = self.byte();
        if byte == b'.' {
            if !self.ends_with_point() || self.template.is_bare {
                self.text.push('.');
            }
        } else if self.last.is_some_and(|last| self.at > last) && part != Part::Zero {
            // One of the zeros at the end.
        } else if self.hides_zero() {
            match self.template.is_bare {
                false => self.text.push(' '),
                true if self.ends_with_point() => self.text.push('0'),
                true => {}
            }
        } else if byte != 0 {
            self.text.push(byte.into());
            self.in_number = true;
        }
        if byte != 0 {
            self.at += 1;
        }
    }

    fn ordinal(&mut self, is_lower: bool) {
        let digits = String::from_utf8_lossy(&self.number).into_owned();
        if self.is_negative || self.template.has_point || digits.starts_with('#') {
            return;
        }
        let tens = digits.len().checked_sub(2).is_some_and(|at| digits.as_bytes()[at] == b'1');
        let ending = match digits.bytes().last() {
            Some(b'1') if !tens => "TH1",
            Some(b'2') if !tens => "ND",
            Some(b'3') if !tens => "RD",
            _ => "TH",
        };
        let ending = if ending == "TH1" { "ST" } else { ending };
        self.text.push_str(&if is_lower { ending.to_lowercase() } else { ending.to_owned() });
    }

    fn roman(&mut self, is_lower: bool) {
        const NUMERALS: [(u32, &str); 13] = [
            (1000, "M"),
            (900, "CM"),
            (500, "D"),
            (400, "CD"),
            (100, "C"),
            (90, "XC"),
            (50, "L"),
            (40, "XL"),
            (10, "X"),
            (9, "IX"),
            (5, "V"),
            (4, "IV"),
            (1, "I"),
        ];
        let text = String::from_utf8_lossy(&self.number).into_owned();
        let written = match text.parse::<u32>() {
            Ok(mut left @ 1..=3999) if !self.is_negative => {
                let mut numeral = String::new();
                for (value, letters) in NUMERALS {
                    while left >= value {
                        numeral.push_str(letters);
                        left -= value;
                    }
                }
                numeral
            }
            _ => "#".repeat(ROMAN_WIDTH),
        };
        let written = if is_lower { written.to_lowercase() } else { written };
        match self.template.is_bare {
            true => self.text.push_str(&written),
            false => self.text.push_str(&format!("{written:>ROMAN_WIDTH$}")),
        }
    }
}
