//! What zone maps decide of a condition.

use saki_base::DataType;
use saki_base::value::Value;
use saki_columns::{ColumnType, Segment, Test, text_successor};
use saki_vector::expr::{CompareOp, LikePattern};
use saki_vector::{Expr, KeyFilter};

/// Constants of a NOT IN that are tested one by one, at most.
const NOT_IN_MAX: usize = 32;

/// Keys of a join that a segment's Bloom filter is asked for one by one, at most.
const KEYS_MAX: usize = 64;

/// What a condition says of zones: true wherever the condition is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ZoneCheck {
    Test {
        column: usize,
        test: Test,
    },
    All(Vec<ZoneCheck>),
    Any(Vec<ZoneCheck>),
    /// True also where the condition may be false.
    Wider(Box<ZoneCheck>),
}

impl ZoneCheck {
    /// Of a condition on a table of `columns`; `None` if zones cannot tell.
    pub fn of(condition: &Expr, columns: &[ColumnType]) -> Option<Self> {
        match condition {
            Expr::Column { index, .. } => test(columns, *index, Test::Compare(CompareOp::Equal, Value::Bool(true))),
            Expr::Compare { op, left, right } => match (&**left, &**right) {
                (Expr::Column { index, .. }, Expr::Literal { value, .. }) => compare(columns, *index, *op, value),
                (Expr::Literal { value, .. }, Expr::Column { index, .. }) => {
                    compare(columns, *index, op.mirrored(), value)
                }
                _ => None,
            },
            Expr::And(parts) => Self::all_of(parts, columns),
            Expr::Or(parts) => {
                Some(Self::Any(parts.iter().map(|part| Self::of(part, columns)).collect::<Option<_>>()?))
            }
            Expr::Not(condition) => Self::of(&negated(condition)?, columns),
            Expr::IsNull(expr) => test(columns, column_of(expr)?, Test::IsNull),
            Expr::IsNotNull(expr) => test(columns, column_of(expr)?, Test::IsNotNull),
            Expr::InList { expr, values, negated: false } => {
                test(columns, column_of(expr)?, Test::OneOf(values.values().to_vec()))
            }
            Expr::InList { expr, values, negated: true } if values.values().len() <= NOT_IN_MAX => {
                let column = column_of(expr)?;
                let each = |value| compare(columns, column, CompareOp::NotEqual, value);
                Some(Self::All(values.values().iter().map(each).collect::<Option<_>>()?))
            }
            Expr::Like { expr, pattern, negated: false } => like(columns, column_of(expr)?, pattern),
            _ => None,
        }
    }

    /// Parts of which zones cannot tell make it wider.
    fn all_of(parts: &[Expr], columns: &[ColumnType]) -> Option<Self> {
        let known: Vec<_> = parts.iter().filter_map(|part| Self::of(part, columns)).collect();
        match known.len() {
            0 => None,
            count if count == parts.len() => Some(Self::All(known)),
            _ => Some(Self::Wider(Box::new(Self::All(known)))),
        }
    }

    /// Whether a row may pass.
    pub fn may_pass(&self, segment: &Segment) -> bool {
        match self {
            Self::Test { column, test } => segment.columns[*column].zone.may_pass(test, segment.rows),
            Self::All(parts) => parts.iter().all(|part| part.may_pass(segment)),
            Self::Any(parts) => parts.iter().any(|part| part.may_pass(segment)),
            Self::Wider(check) => check.may_pass(segment),
        }
    }

    /// Whether every row passes.
    pub fn all_pass(&self, segment: &Segment) -> bool {
        match self {
            Self::Test { column, test } => segment.columns[*column].zone.all_pass(test, segment.rows),
            Self::All(parts) => parts.iter().all(|part| part.all_pass(segment)),
            // Of none alone, perhaps, but of all together: that zones cannot tell.
            Self::Any(parts) => parts.iter().any(|part| part.all_pass(segment)),
            Self::Wider(_) => false,
        }
    }

    /// The condition, if it is one test of one column.
    pub fn single_test(&self) -> Option<&Test> {
        match self {
            Self::Test { test, .. } => Some(test),
            Self::All(parts) if parts.len() == 1 => parts[0].single_test(),
            _ => None,
        }
    }
}

fn column_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column { index, .. } => Some(*index),
        _ => None,
    }
}

fn compare(columns: &[ColumnType], column: usize, op: CompareOp, constant: &Value) -> Option<ZoneCheck> {
    test(columns, column, Test::Compare(op, constant.clone()))
}

/// The test, if its constants are of the column's type: values of two types have an order too, but not SQL's.
fn test(columns: &[ColumnType], column: usize, test: Test) -> Option<ZoneCheck> {
    let data_type = columns.get(column)?.data_type;
    let fits = match &test {
        Test::Compare(_, constant) => is_of(constant, data_type),
        Test::OneOf(constants) => constants.iter().all(|constant| is_of(constant, data_type)),
        Test::IsNull | Test::IsNotNull => true,
    };
    fits.then_some(ZoneCheck::Test { column, test })
}

fn is_of(value: &Value, data_type: DataType) -> bool {
    match data_type {
        DataType::Bool => matches!(value, Value::Bool(_)),
        DataType::Int2 => matches!(value, Value::Int2(_)),
        DataType::Int4 => matches!(value, Value::Int4(_)),
        DataType::Int8 | DataType::Enum(_) => matches!(value, Value::Int8(_)),
        DataType::Float4 => matches!(value, Value::Float4(_)),
        DataType::Float8 => matches!(value, Value::Float8(_)),
        DataType::Decimal { .. } => matches!(value, Value::Decimal(_)),
        // Conditions see `Char` as it is stored, without blanks at its end, and so do zones.
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            matches!(value, Value::Text(_))
        }
        DataType::Bytea | DataType::Array(_) => matches!(value, Value::Bytea(_)),
        DataType::Date => matches!(value, Value::Date(_)),
        DataType::Timestamp => matches!(value, Value::Timestamp(_)),
        DataType::Timestamptz => matches!(value, Value::Timestamptz(_)),
        DataType::Time => matches!(value, Value::Time(_)),
        DataType::Interval => matches!(value, Value::Interval(_)),
        DataType::Uuid => matches!(value, Value::Uuid(_)),
    }
}

/// What is true exactly where `condition` is false; NULL is neither.
fn negated(condition: &Expr) -> Option<Expr> {
    let all = |parts: &[Expr]| parts.iter().map(|part| Expr::Not(Box::new(part.clone()))).collect();
    Some(match condition {
        Expr::Compare { op, left, right } => {
            Expr::Compare { op: op.negated(), left: left.clone(), right: right.clone() }
        }
        Expr::And(parts) => Expr::Or(all(parts)),
        Expr::Or(parts) => Expr::And(all(parts)),
        Expr::Not(condition) => (**condition).clone(),
        Expr::IsNull(expr) => Expr::IsNotNull(expr.clone()),
        Expr::IsNotNull(expr) => Expr::IsNull(expr.clone()),
        Expr::InList { expr, values, negated } => {
            Expr::InList { expr: expr.clone(), values: values.clone(), negated: !negated }
        }
        Expr::Like { expr, pattern, negated } => {
            Expr::Like { expr: expr.clone(), pattern: pattern.clone(), negated: !negated }
        }
        _ => return None,
    })
}

/// All that matches a pattern lies between its prefix and the next text that does not begin with it.
fn like(columns: &[ColumnType], column: usize, pattern: &LikePattern) -> Option<ZoneCheck> {
    if pattern.case_insensitive() {
        return None;
    }
    let prefix = std::str::from_utf8(pattern.prefix()).ok().filter(|prefix| !prefix.is_empty())?;
    let low = compare(columns, column, CompareOp::GreaterOrEqual, &Value::Text(prefix.to_owned()))?;
    let high = text_successor(prefix).and_then(|end| compare(columns, column, CompareOp::Less, &Value::Text(end)));
    Some(ZoneCheck::Wider(Box::new(ZoneCheck::All(std::iter::once(low).chain(high).collect()))))
}

/// Whether a row of the segment may have a partner among `keys`, by its value of `column`. NULL has none.
pub(super) fn may_have_partner(segment: &Segment, column: usize, keys: &KeyFilter) -> bool {
    let zone = &segment.columns[column].zone;
    if keys.is_empty() || zone.nulls >= segment.rows {
        return false;
    }
    let Some(bounds) = zone.bounds() else { return true };
    if !keys.may_contain_range(bounds.min, bounds.max) {
        return false;
    }
    let Some(bloom) = &zone.bloom else { return true };
    let among = |key: &i64| (bounds.min..=bounds.max).contains(key) && bloom.may_contain_integer(*key);
    keys.values(KEYS_MAX).is_none_or(|keys| keys.iter().any(among))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::DataType as ArrowType;
    use saki_vector::expr::ValueSet;

    use super::*;

    fn columns() -> Vec<ColumnType> {
        let column = |name: &str, data_type| ColumnType { name: name.into(), data_type, nullable: true, missing: None };
        vec![column("number", DataType::Int8), column("text", DataType::Char(9))]
    }

    fn column(index: usize) -> Expr {
        Expr::Column { index, data_type: if index == 0 { ArrowType::Int64 } else { ArrowType::Utf8 } }
    }

    fn less(index: usize, value: Value) -> Expr {
        let right = Expr::Literal { value, data_type: ArrowType::Int64 };
        Expr::Compare { op: CompareOp::Less, left: Box::new(column(index)), right: Box::new(right) }
    }

    fn tested(column: usize, op: CompareOp, value: Value) -> ZoneCheck {
        ZoneCheck::Test { column, test: Test::Compare(op, value) }
    }

    #[test]
    fn constants_of_another_type_decide_nothing() {
        assert_eq!(ZoneCheck::of(&less(0, Value::Int4(3)), &columns()), None);
        assert_eq!(ZoneCheck::of(&less(0, Value::Null), &columns()), None);
        assert_eq!(ZoneCheck::of(&less(7, Value::Int8(3)), &columns()), None, "no such column");
        let known = tested(0, CompareOp::Less, Value::Int8(3));
        assert_eq!(ZoneCheck::of(&less(0, Value::Int8(3)), &columns()), Some(known.clone()));
        // What zones cannot tell makes AND wider, and OR useless.
        let unknown = less(0, Value::Int4(3));
        let parts = vec![less(0, Value::Int8(3)), unknown];
        let wider = ZoneCheck::Wider(Box::new(ZoneCheck::All(vec![known])));
        assert_eq!(ZoneCheck::of(&Expr::And(parts.clone()), &columns()), Some(wider));
        assert_eq!(ZoneCheck::of(&Expr::Or(parts), &columns()), None);
    }

    #[test]
    fn negation_goes_down_to_the_tests() {
        let not = |expr| Expr::Not(Box::new(expr));
        let list = Expr::InList {
            expr: Box::new(column(0)),
            values: Arc::new(ValueSet::new([Value::Int8(1), Value::Int8(2)])),
            negated: false,
        };
        let condition = not(Expr::Or(vec![less(0, Value::Int8(3)), not(Expr::IsNull(Box::new(column(1)))), list]));
        let expected = ZoneCheck::All(vec![
            tested(0, CompareOp::GreaterOrEqual, Value::Int8(3)),
            ZoneCheck::Test { column: 1, test: Test::IsNull },
            ZoneCheck::All(vec![
                tested(0, CompareOp::NotEqual, Value::Int8(1)),
                tested(0, CompareOp::NotEqual, Value::Int8(2)),
            ]),
        ]);
        assert_eq!(ZoneCheck::of(&condition, &columns()), Some(expected));
    }

    #[test]
    fn a_pattern_is_a_range_of_texts() {
        let like = |pattern: &str| Expr::Like {
            expr: Box::new(column(1)),
            pattern: Arc::new(LikePattern::new(pattern, false)),
            negated: false,
        };
        let range = |low: &str, high: &str| {
            let low = tested(1, CompareOp::GreaterOrEqual, Value::Text(low.into()));
            let high = tested(1, CompareOp::Less, Value::Text(high.into()));
            Some(ZoneCheck::Wider(Box::new(ZoneCheck::All(vec![low, high]))))
        };
        assert_eq!(ZoneCheck::of(&like("abc%d"), &columns()), range("abc", "abd"));
        assert_eq!(ZoneCheck::of(&like("%abc"), &columns()), None);
        assert_eq!(text_successor("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(text_successor("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(text_successor("\u{10ffff}"), None);
    }
}
