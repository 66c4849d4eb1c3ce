//! Zone maps: what is known of the values of a column of a segment, and which tests that decides.
//!
//! ```text
//!               min               max
//!   ────────────┼──── values ─────┼────────────►      a test that no value here can pass: the segment is not read
//!                                                      a test that all pass: the column is not read for it
//!   few distinct values: all of them are listed, and decide every test
//!   many distinct values: a Bloom filter, if there is one, rules out equality with most others
//! ```
//!
//! Values are ordered as everywhere ([`saki_base::value::compare`]): NaN equals itself and is the greatest float, -0
//! equals 0, text is ordered by its bytes.

mod bloom;
mod bounds;
mod survey;

use std::cmp::Ordering;
use std::sync::Arc;

use saki_base::value::{Value, compare};
use saki_vector::expr::CompareOp;

use crate::test::Test;

pub(crate) use bloom::BLOCK_BYTES;
pub use bloom::Bloom;
pub use survey::survey;

/// Distinct values listed at most.
pub const VALUES_MAX: usize = 32;
/// Bytes of a text or bytea in a zone at most: longer ones are cut to bounds.
pub const VALUE_BYTES_MAX: usize = 32;

/// What is known of the values of a column of a segment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Zone {
    pub nulls: u32,
    /// No value is less; of long text, a prefix. NULL: all are NULL, or nothing is known.
    pub min: Value,
    /// No value is greater. NULL: as above.
    pub max: Value,
    /// Distinct values, estimated; exact if they are listed; 0: unknown, or all are NULL.
    pub distinct: u32,
    /// All distinct values, ascending, if they are few ([`VALUES_MAX`]) and short ([`VALUE_BYTES_MAX`]).
    pub values: Option<Box<[Value]>>,
    /// All values pass it. Only where values are not listed, and where the table asks for it.
    pub bloom: Option<Arc<Bloom>>,
}

impl Zone {
    /// Whether a row may pass; `rows` are the segment's.
    pub fn may_pass(&self, test: &Test, rows: u32) -> bool {
        match test {
            Test::IsNull => self.nulls > 0,
            Test::IsNotNull => self.nulls < rows,
            _ if self.nulls >= rows => false,
            Test::Compare(op, constant) => self.may_compare(*op, constant),
            Test::OneOf(constants) => constants.iter().any(|constant| self.may_compare(CompareOp::Equal, constant)),
        }
    }

    /// Whether every row passes.
    pub fn all_pass(&self, test: &Test, rows: u32) -> bool {
        match test {
            Test::IsNull => self.nulls >= rows,
            Test::IsNotNull => self.nulls == 0,
            _ if self.nulls > 0 => false,
            Test::Compare(op, constant) => self.all_compare(*op, constant),
            Test::OneOf(constants) => match &self.values {
                Some(values) => values.iter().all(|value| test.passes(value.as_ref())),
                None => constants.iter().any(|constant| self.all_compare(CompareOp::Equal, constant)),
            },
        }
    }

    /// Whether values of which `found` is known are as this zone says; its Bloom filter is checked value by value.
    pub fn admits(&self, found: &Self) -> bool {
        let equal = |a: &Value, b: &Value| order_of(a, b).is_eq();
        let listed = match (&self.values, &found.values) {
            (Some(listed), Some(found)) => {
                listed.len() == found.len() && listed.iter().zip(found).all(|(a, b)| equal(a, b))
            }
            (listed, _) => listed.is_none(),
        };
        let min = self.min.is_null() || !found.min.is_null() && order_of(&self.min, &found.min).is_le();
        let max = self.max.is_null() || !found.max.is_null() && order_of(&self.max, &found.max).is_ge();
        self.nulls == found.nulls && listed && min && max
    }

    fn may_compare(&self, op: CompareOp, constant: &Value) -> bool {
        if let Some(values) = &self.values {
            return values.iter().any(|value| op.holds(order_of(value, constant)));
        }
        let min_is = |order: fn(Ordering) -> bool| !self.min.is_null() && order(order_of(&self.min, constant));
        let max_is = |order: fn(Ordering) -> bool| !self.max.is_null() && order(order_of(&self.max, constant));
        !match op {
            CompareOp::Equal => min_is(Ordering::is_gt) || max_is(Ordering::is_lt) || self.is_foreign(constant),
            CompareOp::NotEqual => min_is(Ordering::is_eq) && max_is(Ordering::is_eq),
            CompareOp::Less => min_is(Ordering::is_ge),
            CompareOp::LessOrEqual => min_is(Ordering::is_gt),
            CompareOp::Greater => max_is(Ordering::is_le),
            CompareOp::GreaterOrEqual => max_is(Ordering::is_lt),
        }
    }

    /// Whether the filter tells that no value equals `constant`.
    fn is_foreign(&self, constant: &Value) -> bool {
        self.bloom.as_ref().is_some_and(|bloom| !bloom.may_contain(constant.as_ref()))
    }

    /// Of values none of which is NULL: all pass if none may pass the opposite.
    fn all_compare(&self, op: CompareOp, constant: &Value) -> bool {
        !self.may_compare(op.negated(), constant)
    }
}

fn order_of(left: &Value, right: &Value) -> Ordering {
    compare(left.as_ref(), right.as_ref())
}

/// A lower bound of `text` and all it begins, of at most [`VALUE_BYTES_MAX`] bytes.
pub(crate) fn text_floor(text: &str) -> String {
    text[..text.floor_char_boundary(VALUE_BYTES_MAX)].to_owned()
}

/// The least upper bound of at most about [`VALUE_BYTES_MAX`] bytes; `None` if there is none.
pub(crate) fn text_ceiling(text: &str) -> Option<String> {
    if text.len() <= VALUE_BYTES_MAX {
        return Some(text.to_owned());
    }
    text_successor(&text_floor(text))
}

/// The least text of at most as many characters that is greater than everything that begins with `prefix`; `None` if
/// there is none.
pub fn text_successor(prefix: &str) -> Option<String> {
    let mut bound = prefix.to_owned();
    // The prefix with its last character raised; one that is the greatest is left out.
    while let Some(last) = bound.pop() {
        if let Some(next) = next_char(last) {
            bound.push(next);
            return Some(bound);
        }
    }
    None
}

fn next_char(character: char) -> Option<char> {
    // Steps over the surrogates, which are no characters. Bytes of UTF-8 are in the order of characters.
    (u32::from(character) + 1..=u32::from(char::MAX)).find_map(char::from_u32)
}

/// As [`text_floor`], of bytes.
pub(crate) fn bytes_floor(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(VALUE_BYTES_MAX)].to_owned()
}

/// As [`text_ceiling`], of bytes.
pub(crate) fn bytes_ceiling(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bound = bytes_floor(bytes);
    (bytes.len() <= VALUE_BYTES_MAX || saki_base::key::prefix_successor(&mut bound)).then_some(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_above_all_that_begins_alike() {
        let long = format!("{}x", "a".repeat(32));
        assert_eq!(text_ceiling(&long), Some(format!("{}b", "a".repeat(31))));
        assert!(text_floor(&long) <= long);
        assert_eq!(text_ceiling(&char::MAX.to_string().repeat(9)), None);
        assert_eq!(text_ceiling("short"), Some("short".into()));
        let before_surrogates = "\u{d7ff}".repeat(11);
        let bound = text_ceiling(&before_surrogates).expect("has a successor");
        assert!(bound > before_surrogates && bound.ends_with('\u{e000}'));
        assert_eq!(bytes_ceiling(&[0xff; 33]), None);
        assert_eq!(bytes_ceiling(&[0xff; 32]), Some(vec![0xff; 32]));
    }

    #[test]
    fn unknown_bounds_decide_nothing() {
        let zone = Zone { nulls: 1, ..Zone::default() };
        let test = Test::Compare(CompareOp::Less, Value::Int4(3));
        assert!(zone.may_pass(&test, 2) && !zone.all_pass(&test, 2));
        assert!(!zone.may_pass(&test, 1), "all rows are NULL");
        assert!(zone.may_pass(&Test::IsNull, 2) && !zone.all_pass(&Test::IsNull, 2));
    }
}
