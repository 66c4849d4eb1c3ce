//! Tests of one column against constants: the part of a WHERE clause that storage understands.
//!
//! A test is kept in terms of table columns, so that the same test can become a key range,
//! a predicate on a primary or secondary entry, or an estimate.

use saki_base::value::Value;
use saki_exec::predicate::{CompareOp, Predicate};

/// A test of one table column.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnTest {
    pub column: usize,
    pub test: Test,
    /// The parameter whose value it tests for, by number from 1, where the plan serves other values too.
    pub parameter: Option<usize>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Test {
    Compare(CompareOp, Value),
    OneOf { values: Vec<Value>, negated: bool },
    IsNull,
    IsNotNull,
}

/// A test where its column has another position.
#[derive(Clone, Debug)]
pub struct PlacedTest {
    pub test: ColumnTest,
    pub position: usize,
}

impl PlacedTest {
    pub fn predicate(&self) -> Predicate {
        self.test.predicate(self.position)
    }
}

impl ColumnTest {
    pub fn new(column: usize, test: Test) -> Self {
        Self { column, test, parameter: None }
    }

    /// The test where its column is at `position`.
    pub fn placed(&self, position: usize) -> PlacedTest {
        PlacedTest { test: self.clone(), position }
    }

    /// A test that no row passes.
    pub fn never(column: usize) -> Self {
        Self::new(column, Test::OneOf { values: Vec::new(), negated: false })
    }

    /// The predicate on an entry in which the column has another position.
    pub fn predicate(&self, column: usize) -> Predicate {
        match &self.test {
            Test::Compare(op, value) => Predicate::Compare { column, op: *op, value: value.clone() },
            Test::OneOf { values, negated } => Predicate::OneOf { column, values: values.clone(), negated: *negated },
            Test::IsNull => Predicate::IsNull { column },
            Test::IsNotNull => Predicate::IsNotNull { column },
        }
    }

    /// The values the column may have, if they are few and stated.
    pub fn points(&self) -> Option<&[Value]> {
        match &self.test {
            Test::Compare(CompareOp::Equal, value) => Some(std::slice::from_ref(value)),
            Test::OneOf { values, negated: false } => Some(values),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(op: CompareOp) -> ColumnTest {
        ColumnTest::new(3, Test::Compare(op, Value::Int4(7)))
    }

    #[test]
    fn a_test_is_the_predicate_where_its_column_is() {
        let one_of = |negated| ColumnTest::new(3, Test::OneOf { values: vec![Value::Int4(1)], negated });
        for (test, expected) in [
            (compare(CompareOp::Less), Predicate::Compare { column: 9, op: CompareOp::Less, value: Value::Int4(7) }),
            (one_of(true), Predicate::OneOf { column: 9, values: vec![Value::Int4(1)], negated: true }),
            (ColumnTest::new(3, Test::IsNull), Predicate::IsNull { column: 9 }),
            (ColumnTest::new(3, Test::IsNotNull), Predicate::IsNotNull { column: 9 }),
        ] {
            assert_eq!(format!("{:?}", test.predicate(9)), format!("{expected:?}"));
            assert_eq!(format!("{:?}", test.placed(9).predicate()), format!("{expected:?}"));
        }
    }

    #[test]
    fn few_stated_values_are_points() {
        let values = vec![Value::Int4(1), Value::Int4(2)];
        let one_of = |negated| ColumnTest::new(0, Test::OneOf { values: values.clone(), negated });
        assert_eq!(compare(CompareOp::Equal).points(), Some(&[Value::Int4(7)][..]));
        assert_eq!(one_of(false).points(), Some(&values[..]));
        assert_eq!(one_of(true).points(), None);
        for op in [CompareOp::NotEqual, CompareOp::Less, CompareOp::GreaterOrEqual] {
            assert_eq!(compare(op).points(), None, "{op:?}");
        }
        assert_eq!(ColumnTest::never(0).points(), Some(&[][..]), "no value at all");
    }
}
