//! Conditions of a plan as tests of columns, as far as storage understands them.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use saki_base::value::Value;
use saki_base::{DataType, KeyColumn, KeyLayout};
use saki_catalog::{ColumnTest, Table, Test};
use saki_exec::ARRAY_ORDER;
use saki_exec::predicate::CompareOp;

use super::units::compare_units;
use super::{like, scalar};

/// `column = $number`, for the value that the parameter has in `values`. `None` where equality is not that of the
/// stored values, as of numbers of different kinds, and where nothing can be equal.
pub fn of_parameter(column: usize, data_type: DataType, number: usize, values: &[ScalarValue]) -> Option<ColumnTest> {
    let literal = values.get(number.checked_sub(1)?)?;
    let value = match data_type {
        _ if literal.is_null() => return None,
        DataType::Int2 | DataType::Int4 | DataType::Int8 if literal.data_type().is_signed_integer() => {
            scalar::integral_value(data_type, scalar::exact_number(literal)?.unscaled)?
        }
        DataType::Text | DataType::Varchar(_) => scalar::value_of(literal, data_type)?,
        DataType::Date
        | DataType::Timestamp
        | DataType::Timestamptz
        | DataType::Time
        | DataType::Uuid
        | DataType::Enum(_) => scalar::value_of(literal, data_type)?,
        _ => return None,
    };
    Some(ColumnTest { column, test: Test::Compare(CompareOp::Equal, value), parameter: Some(number) })
}

/// The same test for the values that parameters have now; `None` as [`of_parameter`].
pub fn rebound(test: &ColumnTest, table: &Table, values: &[ScalarValue]) -> Option<ColumnTest> {
    match test.parameter {
        None => Some(test.clone()),
        Some(number) => of_parameter(test.column, table.column_type(test.column).1, number, values),
    }
}

/// The error of a plan that was taken for parameters that it cannot serve.
pub fn unfit() -> DataFusionError {
    DataFusionError::Internal("a plan was kept for other parameters".into())
}

/// Whether a condition changes while a query runs.
pub fn is_dynamic(condition: &Arc<dyn PhysicalExpr>) -> bool {
    condition.is::<DynamicFilterPhysicalExpr>() || condition.children().into_iter().any(is_dynamic)
}

/// Splits a filter into tests and what only an evaluator of expressions can decide.
/// `type_of` gives the type of the table column behind an expression column, whose index it is.
pub fn split(
    filter: &Arc<dyn PhysicalExpr>,
    type_of: &dyn Fn(usize) -> Option<DataType>,
    tests: &mut Vec<ColumnTest>,
    rest: &mut Vec<Arc<dyn PhysicalExpr>>,
) {
    if let Some(binary) = filter.downcast_ref::<BinaryExpr>()
        && *binary.op() == Operator::And
    {
        split(binary.left(), type_of, tests, rest);
        split(binary.right(), type_of, tests, rest);
        return;
    }
    if let Some(literal) = filter.downcast_ref::<Literal>() {
        if *literal.value() != ScalarValue::Boolean(Some(true)) {
            tests.push(ColumnTest::never(0));
        }
        return;
    }
    match convert(filter, type_of) {
        Some(test) => tests.push(test),
        None if like::says_all(filter, type_of, tests) => {}
        None => rest.push(Arc::clone(filter)),
    }
}

fn convert(filter: &Arc<dyn PhysicalExpr>, type_of: &dyn Fn(usize) -> Option<DataType>) -> Option<ColumnTest> {
    if let Some(binary) = filter.downcast_ref::<BinaryExpr>() {
        if *binary.op() == Operator::Or {
            return either(convert(binary.left(), type_of)?, convert(binary.right(), type_of)?, type_of);
        }
        let op = compare_op(*binary.op())?;
        if let Some(literal) = binary.right().downcast_ref::<Literal>() {
            return compare(binary.left(), op, literal.value(), type_of);
        }
        let literal = binary.left().downcast_ref::<Literal>()?;
        return compare(binary.right(), op.mirrored(), literal.value(), type_of);
    }
    if let Some(list) = filter.downcast_ref::<InListExpr>() {
        return in_list(list, type_of);
    }
    if let Some(is_null) = filter.downcast_ref::<IsNullExpr>() {
        let (column, _) = plain_column(is_null.arg(), type_of)?;
        return Some(ColumnTest::new(column, Test::IsNull));
    }
    if let Some(is_not_null) = filter.downcast_ref::<IsNotNullExpr>() {
        let (column, _) = plain_column(is_not_null.arg(), type_of)?;
        return Some(ColumnTest::new(column, Test::IsNotNull));
    }
    let (operand, wanted) = match filter.downcast_ref::<NotExpr>() {
        Some(not) => (not.arg(), false),
        None => (filter, true),
    };
    match plain_column(operand, type_of)? {
        (column, DataType::Bool) => Some(ColumnTest::new(column, Test::Compare(CompareOp::Equal, Value::Bool(wanted)))),
        _ => None,
    }
}

fn plain_column(
    expr: &Arc<dyn PhysicalExpr>,
    type_of: &dyn Fn(usize) -> Option<DataType>,
) -> Option<(usize, DataType)> {
    let column = expr.downcast_ref::<Column>()?.index();
    Some((column, type_of(column)?))
}

/// Each value once, in the order in which they came; lists have a hundred thousand.
fn distinct(data_type: DataType, mut values: Vec<Value>) -> Vec<Value> {
    let layout = KeyLayout::new([KeyColumn { data_type, nullable: true, descending: false }]);
    let mut seen = HashSet::with_capacity(values.len());
    values.retain(|value| {
        let mut key = Vec::new();
        // One that has no key stays; it is not equal to any.
        layout.encode(&[value.as_ref()], &mut key).is_err() || seen.insert(key)
    });
    values
}

/// `a = 1 OR a = 2` and chains of it.
fn either(left: ColumnTest, right: ColumnTest, type_of: &dyn Fn(usize) -> Option<DataType>) -> Option<ColumnTest> {
    if left.column != right.column {
        return None;
    }
    let values = [left.points()?, right.points()?].concat();
    let values = distinct(type_of(left.column)?, values);
    Some(ColumnTest::new(left.column, Test::OneOf { values, negated: false }))
}

fn in_list(list: &InListExpr, type_of: &dyn Fn(usize) -> Option<DataType>) -> Option<ColumnTest> {
    let negated = list.negated();
    let mut column = None;
    let mut values = Vec::with_capacity(list.list().len());
    for item in list.list() {
        let literal = item.downcast_ref::<Literal>()?.value();
        if literal.is_null() {
            if negated {
                // `x NOT IN (…, NULL)` is never true.
                let (column, _) = source_column(list.expr(), type_of)?;
                return Some(ColumnTest::never(column));
            }
            continue;
        }
        let test = compare(list.expr(), CompareOp::Equal, literal, type_of)?;
        column = Some(test.column);
        values.extend_from_slice(test.points()?);
    }
    let column = match column {
        Some(column) => column,
        None => source_column(list.expr(), type_of)?.0,
    };
    let values = distinct(type_of(column)?, values);
    Some(ColumnTest::new(column, Test::OneOf { values, negated }))
}

/// The column under a cast that changes no value's place in the order, or under the function that gives an array's.
fn source_column(
    expr: &Arc<dyn PhysicalExpr>,
    type_of: &dyn Fn(usize) -> Option<DataType>,
) -> Option<(usize, DataType)> {
    use arrow_schema::DataType as Arrow;
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
        && let ([array], ARRAY_ORDER) = (call.args(), call.name())
    {
        return plain_column(array, type_of).filter(|(_, of)| matches!(of, DataType::Array(_)));
    }
    let Some(cast) = expr.downcast_ref::<CastExpr>() else { return plain_column(expr, type_of) };
    let (column, data_type) = source_column(cast.expr(), type_of)?;
    let keeps_order = match (data_type, cast.cast_type()) {
        (DataType::Text | DataType::Varchar(_) | DataType::Char(_), to) => {
            matches!(to, Arrow::Utf8 | Arrow::Utf8View | Arrow::LargeUtf8)
        }
        (DataType::Int2, Arrow::Int32 | Arrow::Int64 | Arrow::Float64) => true,
        (DataType::Int4, Arrow::Int64 | Arrow::Float64) => true,
        // Wider than 53 bits: rounding moves large values, never across a literal below 2^53 (`exact_number`).
        (DataType::Int8, Arrow::Float64) => true,
        (DataType::Int2 | DataType::Int4 | DataType::Int8, Arrow::Decimal128(precision, scale)) => {
            i32::from(*precision) - i32::from(*scale) >= 19
        }
        (DataType::Decimal { precision, scale }, Arrow::Decimal128(to_precision, to_scale)) => {
            *to_scale >= scale as i8
                && i32::from(*to_precision) - i32::from(*to_scale) >= i32::from(precision) - i32::from(scale)
        }
        (DataType::Decimal { precision, .. }, Arrow::Float64) => precision <= 15,
        _ => false,
    };
    keeps_order.then_some((column, data_type))
}

fn compare(
    expr: &Arc<dyn PhysicalExpr>,
    op: CompareOp,
    literal: &ScalarValue,
    type_of: &dyn Fn(usize) -> Option<DataType>,
) -> Option<ColumnTest> {
    let (column, data_type) = source_column(expr, type_of)?;
    if literal.is_null() {
        return Some(ColumnTest::never(column));
    }
    if let Some(mut value) = scalar::value_of(literal, data_type) {
        if let (DataType::Char(_), Value::Text(text)) = (data_type, &mut value) {
            text.truncate(text.trim_end_matches(' ').len());
        }
        return Some(ColumnTest::new(column, Test::Compare(op, value)));
    }
    let scale = scalar::integral_scale(data_type)?;
    let number = scalar::exact_number(literal)?;
    let test = compare_units(op, number, data_type, scale)?;
    Some(ColumnTest::new(column, test))
}

/// The comparison that an operator is, if it is one.
pub fn compare_op(op: Operator) -> Option<CompareOp> {
    Some(match op {
        Operator::Eq => CompareOp::Equal,
        Operator::NotEq => CompareOp::NotEqual,
        Operator::Lt => CompareOp::Less,
        Operator::LtEq => CompareOp::LessOrEqual,
        Operator::Gt => CompareOp::Greater,
        Operator::GtEq => CompareOp::GreaterOrEqual,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::execution_props::ExecutionProps;
    use std::sync::LazyLock;

    use super::*;
    use crate::access::text::test_text;
    use crate::fixture::{Fixture, TableBuilder};
    use crate::provider::SnapshotTable;
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    use datafusion::logical_expr::LogicalPlan;

    static TYPES: LazyLock<Fixture> = LazyLock::new(|| {
        let fixture = Fixture::new();
        let table = TableBuilder::new("t")
            .column("id", DataType::Int8)
            .nullable("small", DataType::Int2)
            .nullable("number", DataType::Int4)
            .nullable("money", DataType::Decimal { precision: 12, scale: 2 })
            .nullable("float", DataType::Float8)
            .nullable("name", DataType::Text)
            .nullable("flag", DataType::Bool)
            .nullable("day", DataType::Date)
            .key(&["id"]);
        fixture.load(table, &[]);
        fixture
    });

    /// What a WHERE clause becomes: tests, then `;` and what is left to the evaluator.
    fn split_text(condition: &str) -> String {
        let env = TYPES.default_env();
        let session = TYPES.session(&env);
        let sql = format!("SELECT id FROM t WHERE {condition}");
        let logical = TYPES.logical(&env, &sql);
        let optimized = session.state().optimize(&logical).unwrap();
        let mut text = "no scan".to_owned();
        optimized
            .apply(|node| {
                if let LogicalPlan::TableScan(scan) = node {
                    text = SnapshotTable::with(scan, |table| {
                        let (tests, rest) = table.split_conditions(&scan.filters, &ExecutionProps::new()).unwrap();
                        let tests: Vec<String> = tests.iter().map(|test| test_text(test, &table.table)).collect();
                        let rest: Vec<String> = rest.iter().map(ToString::to_string).collect();
                        format!("{}; {}", tests.join(" AND "), rest.join(" AND "))
                    })
                    .unwrap();
                }
                Ok(TreeNodeRecursion::Continue)
            })
            .unwrap();
        text
    }

    #[test]
    fn conditions_of_one_column_with_constants_become_tests() {
        let cases = [
            ("id = 7", "id = 7; "),
            ("7 < id", "id > 7; "),
            ("id BETWEEN 2 AND 5", "id >= 2 AND id <= 5; "),
            ("small = 3", "small = 3; "),
            ("number IN (1, 2, 2, 3, 4)", "number IN (1, 2, 3, 4); "),
            ("number NOT IN (1, 2, 3, 4)", "number NOT IN (1, 2, 3, 4); "),
            ("number = 1 OR number = 2 OR number = 1", "number IN (1, 2); "),
            ("name <> 'y'", "name <> 'y'; "),
            ("name IS NULL", "name IS NULL; "),
            ("name IS NOT NULL", "name IS NOT NULL; "),
            ("flag", "flag = true; "),
            ("NOT flag", "flag = false; "),
            ("day >= DATE '2024-02-29'", "day >= '2024-02-29'; "),
            ("money < 12.5", "money < 12.50; "),
            ("float > 0.5", "float > 0.5; "),
            ("name LIKE 'ab%'", "name >= 'ab' AND name < 'ac'; "),
        ];
        for (condition, text) in cases {
            assert_eq!(split_text(condition), text, "{condition}");
        }
    }

    #[test]
    fn numbers_of_another_kind_are_compared_in_the_columns_units() {
        let cases = [
            ("number < 7.5", "number <= 7; "),
            ("number > -0.5", "number > -1; "),
            ("number = 7.5", "number IN (); "),
            ("small < 40000", "small IS NOT NULL; "),
            ("small > 40000", "small IN (); "),
            ("number >= 3000000000", "number IN (); "),
        ];
        for (condition, text) in cases {
            let split = split_text(condition);
            assert!(split == text || split == "no scan", "{condition}: {split}");
        }
    }

    #[test]
    fn what_storage_cannot_decide_is_left_to_the_evaluator() {
        for condition in [
            "id + 1 = 7",
            "id < number",
            "name LIKE '%x%'",
            "number % 2 = 0",
            "id = 1 OR number = 2",
            "float = 0.1 + 0.2 AND id * 2 = 4",
        ] {
            let text = split_text(condition);
            let (_, rest) = text.split_once("; ").unwrap();
            assert!(!rest.is_empty(), "{condition}: {text}");
        }
        assert_eq!(split_text("name LIKE 'ab%c'"), "name >= 'ab' AND name < 'ac'; name@5 LIKE ab%c");
        assert_eq!(split_text("id = 7 AND id < number"), "id = 7; id@0 < CAST(number@2 AS Int64)");
    }

    #[test]
    fn an_open_parameter_tests_for_equality_of_stored_values() {
        let values = [
            ScalarValue::Int64(Some(7)),
            ScalarValue::Utf8(Some("x".into())),
            ScalarValue::Int64(None),
            ScalarValue::Float64(Some(7.0)),
            ScalarValue::Int64(Some(1 << 40)),
            ScalarValue::Date32(Some(9)),
        ];
        let test = |data_type, number| of_parameter(3, data_type, number, &values).map(|test| test.test);
        let equal = |value| Some(Test::Compare(CompareOp::Equal, value));
        assert_eq!(test(DataType::Int8, 1), equal(Value::Int8(7)));
        assert_eq!(test(DataType::Int2, 1), equal(Value::Int2(7)));
        assert_eq!(test(DataType::Text, 2), equal(Value::Text("x".into())));
        assert_eq!(test(DataType::Date, 6), equal(Value::Date(9)));
        for (data_type, number, why) in [
            (DataType::Int8, 3, "NULL equals nothing"),
            (DataType::Int8, 4, "numbers of different kinds"),
            (DataType::Float8, 4, "0 equals -0"),
            (DataType::Int4, 5, "beyond the column's range"),
            (DataType::Int8, 0, "parameters count from 1"),
            (DataType::Int8, 7, "there are six"),
            (DataType::Char(4), 2, "blanks do not count"),
            (DataType::Int8, 2, "a text"),
        ] {
            assert_eq!(test(data_type, number), None, "{why}");
        }
    }

    #[test]
    fn other_values_take_the_places_of_parameters() {
        let table = TYPES.table("t");
        let test = of_parameter(0, DataType::Int8, 1, &[ScalarValue::Int64(Some(7))]).unwrap();
        let now = rebound(&test, &table, &[ScalarValue::Int64(Some(8))]).unwrap();
        assert_eq!((now.test, now.parameter), (Test::Compare(CompareOp::Equal, Value::Int8(8)), Some(1)));
        assert!(rebound(&test, &table, &[ScalarValue::Int64(None)]).is_none());
        let constant = ColumnTest::new(0, Test::IsNull);
        assert_eq!(rebound(&constant, &table, &[]), Some(constant));
    }
}
