//! Parts of a bytea: found, taken out, put in the place of others, cut off its ends.

use datafusion::common::ScalarValue;
use saki_catalog::SqlError;

use super::definition::Takes::{Bytes, Integer};
use super::definition::{Definition, Gives, bytes, define, integer};

/// What the functions of texts with these names do of bytes.
pub const FUNCTIONS: &[Definition] = &[
    define("substr", &[Bytes, Integer, Integer], Gives::Bytes, |values| {
        let count = values.get(2).map(|_| integer(values, 2));
        if count.is_some_and(|count| count < 0) {
            return Err(SqlError::data("negative substring length not allowed").code("22011").into());
        }
        let of = bytes(values, 0);
        Ok(given(&of[part(of.len(), integer(values, 1), count)]))
    })
    .with_optional(1),
    define("strpos", &[Bytes, Bytes], Gives::Integer, |values| {
        let (within, wanted) = (bytes(values, 0), bytes(values, 1));
        let at = match wanted.is_empty() {
            true => Some(0),
            false => within.windows(wanted.len()).position(|part| part == wanted),
        };
        Ok(ScalarValue::Int32(Some(at.map_or(0, |at| at as i32 + 1))))
    }),
    define("overlay", &[Bytes, Bytes, Integer, Integer], Gives::Bytes, |values| {
        let (of, new, start) = (bytes(values, 0), bytes(values, 1), integer(values, 2));
        let count = if values.len() > 3 { integer(values, 3) } else { new.len() as i64 };
        if start <= 0 {
            return Err(SqlError::data("negative substring length not allowed").code("22011").into());
        }
        let before = &of[part(of.len(), 1, Some(start - 1))];
        let behind = &of[part(of.len(), start.saturating_add(count), None)];
        Ok(given(&[before, new, behind].concat()))
    })
    .with_optional(1),
    define("btrim", &[Bytes, Bytes], Gives::Bytes, |values| Ok(trimmed(values, true, true))),
    define("ltrim", &[Bytes, Bytes], Gives::Bytes, |values| Ok(trimmed(values, true, false))),
    define("rtrim", &[Bytes, Bytes], Gives::Bytes, |values| Ok(trimmed(values, false, true))),
];

fn given(of: &[u8]) -> ScalarValue {
    ScalarValue::Binary(Some(of.to_vec()))
}

/// The places from a number on, counted from 1, of which some may lie before the first.
fn part(length: usize, start: i64, count: Option<i64>) -> std::ops::Range<usize> {
    let within = |place: i64| usize::try_from(place.max(0)).map_or(length, |place| place.min(length));
    let first = start.saturating_sub(1);
    let end = count.map_or(length, |count| within(first.saturating_add(count)));
    within(first).min(end)..end
}

/// Without the bytes at its ends that are among some.
fn trimmed(values: &[ScalarValue], at_start: bool, at_end: bool) -> ScalarValue {
    let (mut of, among) = (bytes(values, 0), bytes(values, 1));
    while let Some((_, rest)) = of.split_first().filter(|(first, _)| at_start && among.contains(first)) {
        of = rest;
    }
    while let Some((_, rest)) = of.split_last().filter(|(last, _)| at_end && among.contains(last)) {
        of = rest;
    }
    given(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_may_begin_before_the_first_place_and_end_behind_the_last() {
        for (start, count, expected) in [
            (1, None, 0..5),
            (3, None, 2..5),
            (-2, None, 0..5),
            (9, None, 5..5),
            (2, Some(2), 1..3),
            (-1, Some(3), 0..1),
            (-5, Some(3), 0..0),
            (4, Some(i64::MAX), 3..5),
            (i64::MIN, Some(1), 0..0),
        ] {
            assert_eq!(part(5, start, count), expected, "{start} {count:?}");
        }
    }
}
