//! Tests of one column against constants: the part of a WHERE clause that storage understands.
//!
//! A test is kept in terms of table columns, so that the same test can become a key range,
//! a predicate on a primary or secondary entry, or an estimate.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use saki_base::DataType;
use saki_base::value::Value;
use saki_exec::predicate::{CompareOp, Predicate};

use crate::catalog::Table;
use crate::types;

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

    /// `column = $number`, for the value that the parameter has in `values`. `None` where equality is not that of the stored values, as of
    /// numbers of different kinds, and where nothing can be equal.
    pub fn of_parameter(column: usize, data_type: DataType, number: usize, values: &[ScalarValue]) -> Option<Self> {
        let literal = values.get(number.checked_sub(1)?)?;
        let value = match data_type {
            _ if literal.is_null() => return None,
            DataType::Int2 | DataType::Int4 | DataType::Int8 if literal.data_type().is_signed_integer() => {
                types::integral_value(data_type, types::exact_number(literal)?.unscaled)?
            }
            DataType::Text | DataType::Varchar(_) => types::value_of(literal, data_type)?,
            DataType::Date | DataType::Timestamp | DataType::Timestamptz | DataType::Uuid => {
                types::value_of(literal, data_type)?
            }
            _ => return None,
        };
        Some(Self { column, test: Test::Compare(CompareOp::Equal, value), parameter: Some(number) })
    }

    /// The same test for the values that parameters have now; `None` as [`Self::of_parameter`].
    pub fn rebound(&self, table: &Table, values: &[ScalarValue]) -> Option<Self> {
        match self.parameter {
            None => Some(self.clone()),
            Some(number) => Self::of_parameter(self.column, table.column_type(self.column).1, number, values),
        }
    }

    /// The test where its column is at `position`.
    pub fn placed(&self, position: usize) -> PlacedTest {
        PlacedTest { test: self.clone(), position }
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
            tests.push(never(0));
        }
        return;
    }
    match convert(filter, type_of) {
        Some(test) => tests.push(test),
        None => rest.push(Arc::clone(filter)),
    }
}

fn convert(filter: &Arc<dyn PhysicalExpr>, type_of: &dyn Fn(usize) -> Option<DataType>) -> Option<ColumnTest> {
    if let Some(binary) = filter.downcast_ref::<BinaryExpr>() {
        if *binary.op() == Operator::Or {
            return either(convert(binary.left(), type_of)?, convert(binary.right(), type_of)?);
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

/// `a = 1 OR a = 2` and chains of it.
fn either(left: ColumnTest, right: ColumnTest) -> Option<ColumnTest> {
    if left.column != right.column {
        return None;
    }
    let mut values = left.points()?.to_vec();
    for value in right.points()? {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
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
                return Some(never(column));
            }
            continue;
        }
        let test = compare(list.expr(), CompareOp::Equal, literal, type_of)?;
        column = Some(test.column);
        for value in test.points()? {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
    }
    let column = match column {
        Some(column) => column,
        None => source_column(list.expr(), type_of)?.0,
    };
    Some(ColumnTest::new(column, Test::OneOf { values, negated }))
}

/// A test that no row passes.
fn never(column: usize) -> ColumnTest {
    ColumnTest::new(column, Test::OneOf { values: Vec::new(), negated: false })
}

/// The column under a cast that changes no value's place in the order.
fn source_column(
    expr: &Arc<dyn PhysicalExpr>,
    type_of: &dyn Fn(usize) -> Option<DataType>,
) -> Option<(usize, DataType)> {
    use arrow_schema::DataType as Arrow;
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
        return Some(never(column));
    }
    if let Some(mut value) = types::value_of(literal, data_type) {
        if let (DataType::Char(_), Value::Text(text)) = (data_type, &mut value) {
            text.truncate(text.trim_end_matches(' ').len());
        }
        return Some(ColumnTest::new(column, Test::Compare(op, value)));
    }
    let scale = types::integral_scale(data_type)?;
    let number = types::exact_number(literal)?;
    let test = compare_units(op, number, data_type, scale)?;
    Some(ColumnTest::new(column, test))
}

/// `column op number`, in whole units of the column: `k < 7.5` is `k <= 7`, `k = 7.5` never.
fn compare_units(op: CompareOp, number: types::Exact, column: DataType, scale: u32) -> Option<Test> {
    let never = Test::OneOf { values: Vec::new(), negated: false };
    let (floor, exact) = if number.scale <= scale {
        (number.unscaled.checked_mul(10_i128.checked_pow(scale - number.scale)?)?, true)
    } else {
        let divisor = 10_i128.checked_pow(number.scale - scale)?;
        (number.unscaled.div_euclid(divisor), number.unscaled.rem_euclid(divisor) == 0)
    };
    let (op, units) = match (op, exact) {
        (op, true) => (op, floor),
        (CompareOp::Equal, false) => return Some(never),
        (CompareOp::NotEqual, false) => return Some(Test::IsNotNull),
        (CompareOp::Less | CompareOp::LessOrEqual, false) => (CompareOp::LessOrEqual, floor),
        (CompareOp::Greater | CompareOp::GreaterOrEqual, false) => (CompareOp::Greater, floor),
    };
    if let Some(value) = types::integral_value(column, units) {
        return Some(Test::Compare(op, value));
    }
    // Beyond what the column can hold: on which side decides.
    let above = units > 0;
    Some(match op {
        CompareOp::Equal => never,
        CompareOp::NotEqual => Test::IsNotNull,
        CompareOp::Less | CompareOp::LessOrEqual => {
            if above {
                Test::IsNotNull
            } else {
                never
            }
        }
        CompareOp::Greater | CompareOp::GreaterOrEqual => {
            if above {
                never
            } else {
                Test::IsNotNull
            }
        }
    })
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
    use super::*;

    fn number(unscaled: i128, scale: u32) -> types::Exact {
        types::Exact { unscaled, scale }
    }

    #[test]
    fn a_fraction_between_two_integers_rounds_to_the_right_side() {
        let less = compare_units(CompareOp::Less, number(75, 1), DataType::Int4, 0).unwrap();
        assert_eq!(less, Test::Compare(CompareOp::LessOrEqual, Value::Int4(7)));
        let at_least = compare_units(CompareOp::GreaterOrEqual, number(-75, 1), DataType::Int4, 0).unwrap();
        assert_eq!(at_least, Test::Compare(CompareOp::Greater, Value::Int4(-8)));
        let equal = compare_units(CompareOp::Equal, number(70, 1), DataType::Int4, 0).unwrap();
        assert_eq!(equal, Test::Compare(CompareOp::Equal, Value::Int4(7)));
    }

    #[test]
    fn a_number_out_of_the_columns_range_decides_by_its_side() {
        let below = compare_units(CompareOp::Less, number(1 << 40, 0), DataType::Int4, 0).unwrap();
        assert_eq!(below, Test::IsNotNull);
        let above = compare_units(CompareOp::Greater, number(1 << 40, 0), DataType::Int4, 0).unwrap();
        assert_eq!(above, Test::OneOf { values: vec![], negated: false });
    }
}
