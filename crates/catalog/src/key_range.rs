//! Tests of leading key columns as ranges of encoded keys.

use saki_base::key::{encode_column, prefix_successor};
use saki_base::value::Value;
use saki_base::{DataType, KeyColumn};
use saki_exec::plan::KeyRange;
use saki_exec::predicate::CompareOp;

use crate::access::TableAccess;
use crate::column_test::{ColumnTest, Test};
use crate::columns::value_literal;

/// Ranges that one lookup may be cut into.
const RANGES_MAX: usize = 1 << 17;

/// The part of a key that tests bound.
#[derive(Clone, Debug)]
pub struct KeyBounds {
    /// Disjoint, ascending.
    pub ranges: Vec<KeyRange>,
    /// Positions (in the tests given) of those that bound the ranges.
    pub used: Vec<usize>,
    /// Of these, those that hold for every key in the ranges and need not be looked at again.
    pub decided: Vec<usize>,
    /// Every range is one key of a unique tree.
    pub points: bool,
    /// For EXPLAIN: `l_orderkey = 7, l_linenumber > 3`.
    pub text: String,
}

/// The ranges of `access` that `tests` leave; `None` if they do not bound its first key column.
pub fn bounds(access: &TableAccess, tests: &[ColumnTest]) -> Option<KeyBounds> {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    let (mut used, mut decided, mut text) = (Vec::new(), Vec::new(), Vec::new());
    let mut width = 0;
    for (position, (key, column)) in access.tree.key.columns().iter().zip(access.key_columns()).enumerate() {
        let name = &access.tree.columns[position].name;
        let on_column = |test: &(usize, &ColumnTest)| test.1.column == *column;
        let here: Vec<(usize, &ColumnTest)> = tests.iter().enumerate().filter(on_column).collect();
        if let Some((test_position, points)) = here.iter().find_map(|(i, t)| t.points().map(|p| (*i, p)))
            && prefixes.len() * points.len() <= RANGES_MAX
        {
            prefixes = extended(&prefixes, points, *key)?;
            used.push(test_position);
            decided.push(test_position);
            text.push(points_text(name, points, key.data_type));
            width = position + 1;
            if prefixes.is_empty() {
                break;
            }
            continue;
        }
        let (low, high) = interval(&here, *key)?;
        if low.is_none() && high.is_none() {
            break;
        }
        for (test_position, test) in &here {
            if let Test::Compare(op, value) = &test.test
                && *op != CompareOp::NotEqual
            {
                used.push(*test_position);
                // NULLs sort at one end: where that end is open they are among the keys.
                if !key.nullable {
                    decided.push(*test_position);
                }
                text.push(format!("{name} {} {}", op_text(*op), value_literal(value, key.data_type)));
            }
        }
        let ranges = prefixes.iter().filter_map(|prefix| range_after(prefix, &low, &high)).collect();
        return Some(KeyBounds { ranges, used, decided, points: false, text: text.join(", ") });
    }
    if used.is_empty() {
        return None;
    }
    let points = access.unique_width().is_some_and(|unique| width >= unique);
    let ranges = prefixes.into_iter().map(prefix_range).collect();
    Some(KeyBounds { ranges, used, decided, points, text: text.join(", ") })
}

/// The ranges of `access` that have every row which passes all of `tests` and all tests of one of `alternatives`;
/// `None` if one of these leaves the first key column open. No test of theirs is among those that are used or decided.
pub fn bounds_of_any(
    access: &TableAccess,
    tests: &[ColumnTest],
    alternatives: &[Vec<ColumnTest>],
) -> Option<KeyBounds> {
    let mut all =
        KeyBounds { ranges: Vec::new(), used: Vec::new(), decided: Vec::new(), points: true, text: String::new() };
    // Each alternative stands beside all tests, so that what these list is looked at as often.
    let listed: usize = tests.iter().filter_map(ColumnTest::points).map(<[Value]>::len).sum();
    if listed.saturating_mul(alternatives.len()) > RANGES_MAX {
        return None;
    }
    let mut texts = Vec::new();
    for (number, alternative) in alternatives.iter().enumerate() {
        let both: Vec<ColumnTest> = tests.iter().chain(alternative).cloned().collect();
        let one = bounds(access, &both)?;
        all.points &= one.points;
        let is_kept = |position: &usize, other: &Vec<usize>| *position < tests.len() && other.contains(position);
        if number == 0 {
            (all.used, all.decided) = (one.used.clone(), one.decided.clone());
        }
        all.used.retain(|position| is_kept(position, &one.used));
        all.decided.retain(|position| is_kept(position, &one.decided));
        all.ranges.extend(one.ranges);
        if all.ranges.len() > RANGES_MAX {
            return None;
        }
        texts.push(one.text);
    }
    all.ranges.sort_unstable_by(|a, b| a.low.cmp(&b.low));
    all.ranges.dedup_by(|next, last| {
        let overlaps = last.high.is_none() || next.low < last.high;
        if overlaps {
            last.high = last.high.take().zip(next.high.take()).map(|(a, b)| a.max(b));
        }
        overlaps
    });
    all.text = match texts.len() {
        1..=3 => texts.join(" or "),
        count => format!("{} or {} more", texts[0], count - 1),
    };
    Some(all)
}

/// All keys that start with `prefix`.
fn prefix_range(prefix: Vec<u8>) -> KeyRange {
    let mut high = prefix.clone();
    let bounded = prefix_successor(&mut high);
    KeyRange { low: Some(prefix), high: bounded.then_some(high) }
}

fn extended(prefixes: &[Vec<u8>], points: &[Value], key: KeyColumn) -> Option<Vec<Vec<u8>>> {
    let mut encoded = Vec::with_capacity(points.len());
    for point in points {
        encoded.push(encode(point, key)?);
    }
    encoded.sort_unstable();
    encoded.dedup();
    Some(prefixes.iter().flat_map(|prefix| encoded.iter().map(|suffix| [prefix.as_slice(), suffix].concat())).collect())
}

fn encode(value: &Value, key: KeyColumn) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    encode_column(key, value.as_ref(), &mut bytes).ok()?;
    Some(bytes)
}

/// Inclusive low and exclusive high end of the column's encodings.
type Interval = (Option<Vec<u8>>, Option<Vec<u8>>);

fn interval(tests: &[(usize, &ColumnTest)], key: KeyColumn) -> Option<Interval> {
    let (mut low, mut high): Interval = (None, None);
    for (_, test) in tests {
        let Test::Compare(op, value) = &test.test else { continue };
        let at = encode(value, key)?;
        let after = || {
            let mut after = at.clone();
            prefix_successor(&mut after).then_some(after)
        };
        let op = if key.descending { turned(*op) } else { *op };
        match op {
            CompareOp::Greater => match after() {
                Some(after) => low = low.max(Some(after)),
                // Nothing is greater than the greatest: an empty range.
                None => {
                    low = low.max(Some(at.clone()));
                    high = least(high, Some(at));
                }
            },
            CompareOp::GreaterOrEqual => low = low.max(Some(at)),
            CompareOp::Less => high = least(high, Some(at)),
            CompareOp::LessOrEqual => high = least(high, after()),
            CompareOp::Equal | CompareOp::NotEqual => {}
        }
    }
    Some((low, high))
}

/// The smaller end; `None` is unbounded.
fn least(a: Option<Vec<u8>>, b: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn turned(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Less => CompareOp::Greater,
        CompareOp::LessOrEqual => CompareOp::GreaterOrEqual,
        CompareOp::Greater => CompareOp::Less,
        CompareOp::GreaterOrEqual => CompareOp::LessOrEqual,
        same => same,
    }
}

fn range_after(prefix: &[u8], low: &Option<Vec<u8>>, high: &Option<Vec<u8>>) -> Option<KeyRange> {
    let whole = prefix_range(prefix.to_vec());
    let low = low.as_ref().map_or(prefix.to_vec(), |low| [prefix, low].concat());
    let high = match high {
        Some(high) => Some([prefix, high].concat()),
        None => whole.high,
    };
    let empty = high.as_ref().is_some_and(|high| low >= *high);
    (!empty).then_some(KeyRange { low: Some(low), high })
}

fn points_text(name: &str, points: &[Value], data_type: DataType) -> String {
    match points {
        [point] => format!("{name} = {}", value_literal(point, data_type)),
        points if points.len() <= 8 => {
            let list: Vec<String> = points.iter().map(|p| value_literal(p, data_type)).collect();
            format!("{name} IN ({})", list.join(", "))
        }
        points => format!("{name} IN ({} values)", points.len()),
    }
}

/// An operator as SQL writes it.
pub fn op_text(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Equal => "=",
        CompareOp::NotEqual => "<>",
        CompareOp::Less => "<",
        CompareOp::LessOrEqual => "<=",
        CompareOp::Greater => ">",
        CompareOp::GreaterOrEqual => ">=",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use saki_base::ValueRef;
    use saki_base::value::compare;

    use super::*;
    use crate::entries::EntryEncoder;
    use crate::fixture::{column, index, table};

    /// `(a int4, b text null, c int2)`, keyed by `a, c`, with an index on `b descending, c`.
    fn accesses() -> [Arc<TableAccess>; 2] {
        let columns = vec![
            column("a", DataType::Int4, false),
            column("b", DataType::Text, true),
            column("c", DataType::Int2, false),
        ];
        let mut table = table("t", columns, vec![0, 2]);
        table.indexes.push(index("t_b", &[(1, true), (2, false)], false, &[]));
        let table = Arc::new(table);
        [TableAccess::primary(&table), TableAccess::index(&table, 0)]
    }

    type Row = [Value; 3];

    /// Few values, so that tests hit them.
    fn row() -> impl Strategy<Value = Row> {
        let text = prop_oneof![Just(Value::Null), "[ab]{0,2}".prop_map(Value::Text)];
        ((-3..4_i32).prop_map(Value::Int4), text, (-2..3_i16).prop_map(Value::Int2)).prop_map(|(a, b, c)| [a, b, c])
    }

    fn test() -> impl Strategy<Value = ColumnTest> {
        let op = prop::sample::select(vec![
            CompareOp::Equal,
            CompareOp::NotEqual,
            CompareOp::Less,
            CompareOp::LessOrEqual,
            CompareOp::Greater,
            CompareOp::GreaterOrEqual,
        ]);
        let literal = |(column, row): (usize, Row)| (column, row[column].clone());
        let present = (0..3_usize, row()).prop_map(literal).prop_filter("a literal is there", |(_, v)| !v.is_null());
        let compare = (present, op).prop_map(|((column, value), op)| ColumnTest::new(column, Test::Compare(op, value)));
        let one_of =
            (0..3_usize, prop::collection::vec(row(), 0..4), any::<bool>()).prop_map(|(column, rows, negated)| {
                let values = rows.into_iter().map(|row| row[column].clone()).filter(|value| !value.is_null()).collect();
                ColumnTest::new(column, Test::OneOf { values, negated })
            });
        let null = (0..3_usize, any::<bool>())
            .prop_map(|(column, not)| ColumnTest::new(column, if not { Test::IsNotNull } else { Test::IsNull }));
        prop_oneof![4 => compare, 2 => one_of, 1 => null]
    }

    fn passes(test: &ColumnTest, row: &Row) -> bool {
        let value = &row[test.column];
        match &test.test {
            Test::IsNull => value.is_null(),
            Test::IsNotNull => !value.is_null(),
            _ if value.is_null() => false,
            Test::Compare(op, wanted) => {
                let order = compare(value.as_ref(), wanted.as_ref());
                match op {
                    CompareOp::Equal => order.is_eq(),
                    CompareOp::NotEqual => order.is_ne(),
                    CompareOp::Less => order.is_lt(),
                    CompareOp::LessOrEqual => order.is_le(),
                    CompareOp::Greater => order.is_gt(),
                    CompareOp::GreaterOrEqual => order.is_ge(),
                }
            }
            Test::OneOf { values, negated } => values.contains(value) != *negated,
        }
    }

    fn encoded(access: &TableAccess, row: &Row) -> Vec<u8> {
        let layout = match access.index {
            None => access.table.primary_layout(),
            Some(at) => access.table.index_layout(&access.table.indexes[at]),
        };
        let mut encoder = EntryEncoder::new(layout);
        encoder.encode(&mut Vec::new(), |column| row.get(column).map_or(ValueRef::Null, Value::as_ref)).unwrap();
        encoder.key
    }

    fn holds(range: &KeyRange, key: &[u8]) -> bool {
        range.low.as_deref().is_none_or(|low| low <= key) && range.high.as_deref().is_none_or(|high| key < high)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Every row that passes all tests lies in a range; what is decided holds for every key in the ranges.
        #[test]
        fn ranges_have_every_row_that_passes(
            tests in prop::collection::vec(test(), 0..5),
            rows in prop::collection::vec(row(), 0..30),
        ) {
            for access in accesses() {
                let Some(found) = bounds(&access, &tests) else { continue };
                for pair in found.ranges.windows(2) {
                    prop_assert!(pair[0].high.is_some() && pair[0].high <= pair[1].low, "ascending and disjoint");
                }
                prop_assert!(found.decided.iter().all(|decided| found.used.contains(decided)));
                for row in &rows {
                    let key = encoded(&access, row);
                    let is_in = found.ranges.iter().any(|range| holds(range, &key));
                    if tests.iter().all(|test| passes(test, row)) {
                        prop_assert!(is_in, "{:?} passes {:?}", row, tests);
                    }
                    if is_in {
                        for decided in &found.decided {
                            let test = &tests[*decided];
                            prop_assert!(passes(test, row), "{:?} is in, and fails {:?}", row, test);
                        }
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// The same of alternatives.
        #[test]
        fn ranges_of_alternatives_have_every_row_that_passes_one(
            tests in prop::collection::vec(test(), 0..2),
            alternatives in prop::collection::vec(prop::collection::vec(test(), 1..4), 1..4),
            rows in prop::collection::vec(row(), 0..30),
        ) {
            for access in accesses() {
                let Some(found) = bounds_of_any(&access, &tests, &alternatives) else { continue };
                for pair in found.ranges.windows(2) {
                    prop_assert!(pair[0].high.is_some() && pair[0].high <= pair[1].low, "ascending and disjoint");
                }
                for row in &rows {
                    let key = encoded(&access, row);
                    let is_in = found.ranges.iter().any(|range| holds(range, &key));
                    let passes_all = |tests: &[ColumnTest]| tests.iter().all(|test| passes(test, row));
                    if passes_all(&tests) && alternatives.iter().any(|tests| passes_all(tests)) {
                        prop_assert!(is_in, "{row:?} passes {tests:?} and one of {alternatives:?}");
                    }
                    if is_in {
                        for decided in &found.decided {
                            prop_assert!(passes(&tests[*decided], row), "{row:?} is in, and fails one of {tests:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn alternatives_of_whole_keys_are_points_in_their_order() {
        let [primary, _] = accesses();
        let equal = |column, value| ColumnTest::new(column, Test::Compare(CompareOp::Equal, value));
        let key = |a, c| vec![equal(0, Value::Int4(a)), equal(2, Value::Int2(c))];
        let found = bounds_of_any(&primary, &[], &[key(7, 1), key(3, 2), key(7, 1)]).unwrap();
        assert!(found.points && found.ranges.len() == 2 && found.ranges[0].low < found.ranges[1].low);
        assert_eq!(found.text, "a = 7, c = 1 or a = 3, c = 2 or a = 7, c = 1");
        let open = [key(7, 1), vec![equal(2, Value::Int2(1))]];
        assert!(bounds_of_any(&primary, &[], &open).is_none(), "one says nothing of the first column");
    }

    #[test]
    fn one_whole_key_is_a_point_and_a_prefix_is_not() {
        let [primary, index] = accesses();
        let equal = |column, value| ColumnTest::new(column, Test::Compare(CompareOp::Equal, value));
        let whole = bounds(&primary, &[equal(0, Value::Int4(7)), equal(2, Value::Int2(1))]).unwrap();
        assert!(whole.points && whole.ranges.len() == 1);
        assert_eq!(whole.text, "a = 7, c = 1");
        assert!(!bounds(&primary, &[equal(0, Value::Int4(7))]).unwrap().points);
        assert!(bounds(&primary, &[equal(2, Value::Int2(1))]).is_none(), "the first column of the key is not bound");
        assert!(!bounds(&index, &[equal(1, Value::Text("x".into()))]).unwrap().points, "the index is not unique");
    }

    #[test]
    fn nothing_is_above_the_greatest_value() {
        let [primary, _] = accesses();
        let above = ColumnTest::new(0, Test::Compare(CompareOp::Greater, Value::Int4(i32::MAX)));
        assert!(bounds(&primary, &[above]).unwrap().ranges.is_empty());
    }

    #[test]
    fn a_list_of_points_has_a_text_that_stays_short() {
        let [primary, _] = accesses();
        let list =
            |n: i32| ColumnTest::new(0, Test::OneOf { values: (0..n).map(Value::Int4).collect(), negated: false });
        assert_eq!(bounds(&primary, &[list(3)]).unwrap().text, "a IN (0, 1, 2)");
        let many = bounds(&primary, &[list(1 << 17)]).unwrap();
        assert_eq!((many.text.as_str(), many.ranges.len()), ("a IN (131072 values)", 1 << 17));
        assert!(bounds(&primary, &[list((1 << 17) + 1)]).is_none(), "too many for one look-up");
    }

    #[test]
    fn both_zeros_of_floats_and_every_nan_are_one_key() {
        let table = Arc::new(table("t", vec![column("x", DataType::Float8, false)], vec![0]));
        let ranges = |op, value| {
            let test = ColumnTest::new(0, Test::Compare(op, Value::Float8(value)));
            let bounds = bounds(&TableAccess::primary(&table), &[test]).expect("bounded");
            bounds.ranges.into_iter().map(|range| (range.low, range.high)).collect::<Vec<_>>()
        };
        assert_eq!(ranges(CompareOp::Equal, 0.0), ranges(CompareOp::Equal, -0.0));
        assert_eq!(ranges(CompareOp::Equal, f64::NAN), ranges(CompareOp::Equal, -f64::NAN));
        assert_eq!(ranges(CompareOp::Less, 0.0), ranges(CompareOp::Less, -0.0));
        let [(_, end)] = &ranges(CompareOp::GreaterOrEqual, 0.0)[..] else { panic!("one range") };
        assert!(end.is_none(), "what is no number is the greatest");
    }
}
