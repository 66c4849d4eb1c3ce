//! Conditions on a table as expressions over its columns, and as tests that zone maps can decide.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::Result;
use saki_base::value::Value;
use saki_columns::Test as ZoneTest;
use saki_vector::Expr;
use saki_vector::expr::ValueSet;

use crate::column_test::{ColumnTest, Test};
use crate::native::translate;
use crate::pipeline_exec::ScanInfo;

/// All conditions of a scan; column indices are the table's.
pub fn expressions(scan: &ScanInfo) -> Result<Vec<Expr>> {
    let table = scan.table.schema();
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
