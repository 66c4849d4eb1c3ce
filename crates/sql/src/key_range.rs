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
const RANGES_MAX: usize = 4096;

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
        if !exact_in_keys(key.data_type) {
            break;
        }
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

/// Whether equal values have equal encodings (floats have two zeros).
pub fn exact_in_keys(data_type: DataType) -> bool {
    !matches!(data_type, DataType::Float4 | DataType::Float8)
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
