//! Relations that are not tables: views and sequences; enumerations; and the schemas that all of them are in.

mod enumeration;

use std::collections::BTreeMap;

use saki_base::{DataType, TableId};
use serde::{Deserialize, Serialize};

pub use self::enumeration::{EnumType, Place};
use crate::PUBLIC;

/// A query under a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct View {
    pub id: TableId,
    /// As [`super::Table::name`].
    pub name: String,
    pub schema: String,
    /// The query.
    pub sql: String,
    pub columns: Vec<ViewColumn>,
    /// Tables and views that the query names.
    pub relations: Vec<String>,
    /// Ids of the columns that the query needs, by table; tables under other views included.
    pub uses: BTreeMap<u32, Vec<u32>>,
    #[serde(default)]
    pub comment: Option<String>,
}

/// A column of a view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ViewColumn {
    pub name: String,
    /// What the query calls it: columns that a table gets later do not become the view's.
    pub source: String,
    /// `None`: a type that tables do not have.
    pub data_type: Option<DataType>,
}

/// A generator of numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sequence {
    pub id: TableId,
    /// As [`super::Table::name`].
    pub name: String,
    pub schema: String,
    pub data_type: DataType,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
    pub cache: i64,
    /// The column it belongs to: it is dropped with it.
    pub owner: Option<SequenceOwner>,
    /// Up to where values may have been given out.
    pub position: SequencePosition,
    /// Grows with every change that is not the giving out of values; what was reserved before counts no more.
    pub version: u32,
    #[serde(default)]
    pub comment: Option<String>,
}

/// A column, by what stays the same when it is renamed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SequenceOwner {
    pub table: TableId,
    pub column: u32,
}

/// How far a sequence has come: PostgreSQL's `last_value` and `is_called`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SequencePosition {
    pub last_value: i64,
    /// `false`: `last_value` itself is the next.
    pub is_called: bool,
}

/// A name space of relations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SchemaEntry {
    pub id: TableId,
    pub name: String,
    #[serde(default)]
    pub comment: Option<String>,
}

/// The catalog's name of a relation: alone in `public`, else behind its schema's.
pub fn qualified(schema: &str, name: &str) -> String {
    if schema == PUBLIC { name.to_owned() } else { format!("{schema}.{name}") }
}

/// A catalog name without its schema.
pub fn bare<'n>(schema: &str, name: &'n str) -> &'n str {
    if schema == PUBLIC {
        return name;
    }
    name.strip_prefix(schema).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

impl View {
    /// The name within its schema.
    pub fn bare_name(&self) -> &str {
        bare(&self.schema, &self.name)
    }
}

impl Sequence {
    /// The name within its schema.
    pub fn bare_name(&self) -> &str {
        bare(&self.schema, &self.name)
    }
}

impl Sequence {
    /// The position one value on; `None`: there is no further value.
    pub fn step(&self, from: SequencePosition) -> Option<SequencePosition> {
        let called = |last_value| Some(SequencePosition { last_value, is_called: true });
        if !from.is_called {
            return called(from.last_value);
        }
        match from.last_value.checked_add(self.increment).filter(|next| (self.min..=self.max).contains(next)) {
            Some(next) => called(next),
            None if self.cycle => called(if self.increment > 0 { self.min } else { self.max }),
            None => None,
        }
    }

    /// The position up to `count` values on, and how many they are: fewer where the sequence ends or begins again.
    pub fn skip(&self, from: SequencePosition, count: u64) -> (SequencePosition, u64) {
        let Some(first) = self.step(from) else { return (from, 0) };
        let room = if self.increment > 0 {
            i128::from(self.max) - i128::from(first.last_value)
        } else {
            i128::from(first.last_value) - i128::from(self.min)
        };
        let steps = (room / i128::from(self.increment).abs()).min(i128::from(count) - 1).max(0);
        let last_value = i128::from(first.last_value) + steps * i128::from(self.increment);
        (SequencePosition { last_value: last_value as i64, is_called: true }, steps as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn sequence(start: i64, increment: i64, min: i64, max: i64, cycle: bool) -> Sequence {
        let position = SequencePosition { last_value: start, is_called: false };
        Sequence { start, increment, min, max, cycle, position, ..fixture::sequence(TableId(1), "s") }
    }

    proptest::proptest! {
        #[test]
        fn skipping_is_stepping(increment in -7_i64..7, start in 1_i64..50, cycle: bool, count in 1_u64..40) {
            proptest::prop_assume!(increment != 0);
            let sequence = sequence(start, increment, 1, 50, cycle);
            let (skipped, steps) = sequence.skip(sequence.position, count);
            let mut position = sequence.position;
            for _ in 0..steps {
                position = sequence.step(position).unwrap();
            }
            proptest::prop_assert!((1..=count).contains(&steps));
            proptest::prop_assert_eq!(position, skipped);
        }
    }

    #[test]
    fn the_ends_of_what_fits() {
        let up = sequence(i64::MAX - 1, 1, 1, i64::MAX, false);
        let (end, count) = up.skip(up.position, 10);
        assert_eq!((end.last_value, count), (i64::MAX, 2));
        assert_eq!(up.step(end), None);
        let round = sequence(2, 1, 1, 2, true);
        let end = round.step(round.position).unwrap();
        assert_eq!(round.step(end).unwrap().last_value, 1);
    }

    #[test]
    fn names_are_put_behind_their_schemas_and_taken_off_again() {
        for (schema, name, whole) in [
            ("public", "t", "t"),
            ("s", "t", "s.t"),
            ("public", "a.b", "a.b"),
            ("S x", "T.y", "S x.T.y"),
            ("s", "", "s."),
        ] {
            assert_eq!(qualified(schema, name), whole);
            assert_eq!(bare(schema, whole), name);
        }
        assert_eq!(bare("s", "other.t"), "other.t", "it is in another schema");
        assert_eq!(bare("s", "st"), "st");
    }

    #[test]
    fn a_position_that_nothing_was_called_from_is_itself_the_next_value() {
        let mut down = sequence(-1, -3, -7, -1, false);
        let mut seen = Vec::new();
        while let Some(next) = down.step(down.position) {
            down.position = next;
            seen.push(next.last_value);
        }
        assert_eq!(seen, [-1, -4, -7]);
        down.cycle = true;
        assert_eq!(down.step(down.position).unwrap().last_value, -1, "it begins again where it came from");
    }

    #[test]
    fn the_largest_steps_overflow_nothing() {
        let up = sequence(1, i64::MAX, 1, i64::MAX, false);
        let first = up.step(up.position).unwrap();
        assert_eq!((first.last_value, up.step(first)), (1, None));
        let down = sequence(i64::MAX, i64::MIN, i64::MIN, i64::MAX, false);
        let (end, count) = down.skip(down.position, u64::MAX);
        assert_eq!((end.last_value, count), (-1, 2));
        let whole = sequence(i64::MIN, 1, i64::MIN, i64::MAX, false);
        assert_eq!(whole.skip(whole.position, u64::MAX).1, u64::MAX);
        let (none, count) = up.skip(first, 5);
        assert_eq!((none, count), (first, 0), "a sequence at its end gives nothing");
    }
}
