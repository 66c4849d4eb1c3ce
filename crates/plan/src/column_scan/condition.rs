//! Conditions on a table as expressions over its columns, and as tests that zone maps can decide.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::Result;
use saki_base::value::Value;
use saki_columns::Test as ZoneTest;
use saki_vector::Expr;
use saki_vector::expr::ValueSet;

use crate::access::scan::ScanInfo;
use crate::native::translate;
use saki_catalog::{ColumnTest, Test};

/// All conditions of a scan; column indices are the table's.
pub fn expressions(scan: &ScanInfo) -> Result<Vec<Expr>> {
    let table = scan.table.stored_schema();
    let tests = scan.tests.iter().map(|test| {
        let data_type = table.field(test.column).data_type();
        Ok(of_test(test, data_type))
    });
    let rest = scan.rest.iter().map(|condition| translate(condition, &table));
    tests.chain(rest).collect()
}

/// A test of a column of type `data_type`.
fn of_test(test: &ColumnTest, data_type: &DataType) -> Expr {
    let column = || Box::new(Expr::Column { index: test.column, data_type: data_type.clone() });
    match &test.test {
        Test::Compare(op, value) => {
            let constant = Box::new(Expr::Literal { value: value.clone(), data_type: data_type.clone() });
            Expr::Compare { op: *op, left: column(), right: constant }
        }
        Test::OneOf { values, negated: false } if values.is_empty() => {
            Expr::Literal { value: Value::Bool(false), data_type: DataType::Boolean }
        }
        Test::OneOf { values, negated } => {
            Expr::InList { expr: column(), values: Arc::new(ValueSet::new(values.clone())), negated: *negated }
        }
        Test::IsNull => Expr::IsNull(column()),
        Test::IsNotNull => Expr::IsNotNull(column()),
    }
}

/// The test in the words of zone maps; `None` if they have none for it.
pub fn zone_test(test: &Test) -> Option<ZoneTest> {
    Some(match test {
        Test::Compare(op, value) => ZoneTest::Compare(*op, value.clone()),
        Test::OneOf { values, negated: false } => ZoneTest::OneOf(values.clone()),
        Test::OneOf { negated: true, .. } => return None,
        Test::IsNull => ZoneTest::IsNull,
        Test::IsNotNull => ZoneTest::IsNotNull,
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, ArrayRef, Int64Array};
    use saki_exec::predicate::CompareOp;
    use saki_vector::{Batch, Column};

    use super::*;

    /// Which of 1, 2, NULL, 3 a test lets pass.
    fn passing(test: Test) -> Vec<usize> {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(3)]));
        let batch = Batch::new(vec![Column::new(values)], 4);
        let expr = of_test(&ColumnTest::new(0, test), &DataType::Int64);
        match expr.select(&batch).unwrap() {
            None => (0..4).collect(),
            Some(selected) => (0..4).filter(|row| selected.is_valid(*row) && selected.value(*row)).collect(),
        }
    }

    #[test]
    fn a_test_passes_the_same_values_as_an_expression() {
        let compare = |op, value| Test::Compare(op, Value::Int8(value));
        let list = |values: &[i64], negated| Test::OneOf {
            values: values.iter().copied().map(Value::Int8).collect(),
            negated,
        };
        let cases = [
            (compare(CompareOp::Equal, 2), vec![1]),
            (compare(CompareOp::NotEqual, 2), vec![0, 3]),
            (compare(CompareOp::Less, 2), vec![0]),
            (compare(CompareOp::GreaterOrEqual, 2), vec![1, 3]),
            (list(&[1, 3, 9], false), vec![0, 3]),
            (list(&[1, 3, 9], true), vec![1]),
            (list(&[], false), vec![]),
            (Test::IsNull, vec![2]),
            (Test::IsNotNull, vec![0, 1, 3]),
        ];
        for (test, rows) in cases {
            assert_eq!(passing(test.clone()), rows, "{test:?}");
        }
    }

    #[test]
    fn zone_maps_know_all_tests_but_exclusions() {
        let list = |negated| Test::OneOf { values: vec![Value::Int8(1)], negated };
        assert!(matches!(zone_test(&list(false)), Some(ZoneTest::OneOf(values)) if values == [Value::Int8(1)]));
        assert!(zone_test(&list(true)).is_none());
        assert!(matches!(zone_test(&Test::IsNull), Some(ZoneTest::IsNull)));
        assert!(matches!(zone_test(&Test::IsNotNull), Some(ZoneTest::IsNotNull)));
        let compared = zone_test(&Test::Compare(CompareOp::Less, Value::Int8(3)));
        assert!(matches!(compared, Some(ZoneTest::Compare(CompareOp::Less, Value::Int8(3)))));
    }
}
