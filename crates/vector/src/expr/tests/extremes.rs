//! Arithmetic at the ends of its types, and errors where they belong.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Int16Array, Int32Array, Int64Array};
use arrow_schema::DataType;
use proptest::prelude::*;
use saki_base::value::Value;

use super::{check_value, model, values_of};
use crate::expr::{ArithmeticOp, CompareOp, Expr};
use crate::{Batch, Column, VectorError, form};

const OPERATIONS: [ArithmeticOp; 5] =
    [ArithmeticOp::Add, ArithmeticOp::Subtract, ArithmeticOp::Multiply, ArithmeticOp::Divide, ArithmeticOp::Remainder];

/// A column, or a constant in the place of it.
fn operand(index: usize, constant: &Option<Value>, data_type: &DataType) -> Box<Expr> {
    let data_type = data_type.clone();
    Box::new(match constant {
        Some(value) => Expr::Literal { value: value.clone(), data_type },
        None => Expr::Column { index, data_type },
    })
}

/// An error if and only if the model has one for a row; its values otherwise.
fn check(expr: &Expr, columns: Vec<ArrayRef>, types: &[DataType]) -> Result<(), TestCaseError> {
    let rows = columns[0].len();
    let batch = Batch::new(columns.into_iter().map(Column::new).collect(), rows);
    let surfaces =
        batch.columns.iter().zip(types).map(|(column, data_type)| form::to_surface(column, data_type).unwrap());
    let surfaces: Vec<Vec<Value>> = surfaces.map(|array| values_of(&array)).collect();
    let expected: Result<Vec<Value>, VectorError> = (0..rows)
        .map(|row| {
            model::value(expr, &surfaces.iter().map(|column| column[row].clone()).collect::<Vec<_>>(), &mut false)
        })
        .collect();
    match (expr.evaluate(&batch), expected) {
        (Ok(column), Ok(expected)) => {
            prop_assert_eq!(values_of(&form::to_surface(&column, &expr.data_type()).unwrap()), expected);
        }
        (Err(_), Err(_)) => {}
        (Ok(_), Err(error)) => prop_assert!(rows == 0, "{expr}: not {error}"),
        (Err(error), Ok(_)) => prop_assert!(false, "{expr}: {error}"),
    }
    Ok(())
}

fn extreme() -> impl Strategy<Value = Option<i64>> {
    let ends = prop_oneof![Just(i64::MIN), Just(i64::MIN + 1), Just(-1), Just(0), Just(1), Just(i64::MAX), -9..9i64];
    let any = prop_oneof![ends, any::<i64>(), -3_000_000_000..3_000_000_000i64];
    prop::option::weighted(0.8, any)
}

fn pairs() -> impl Strategy<Value = Vec<(Option<i64>, Option<i64>)>> {
    // Few rows: with many, there is an error in nearly every case.
    prop::collection::vec((extreme(), extreme()), 1..4)
}

proptest! {
    #[test]
    fn integers_stay_in_their_type(pairs in pairs(), op in 0..5usize, width in 0..3usize, constant: Option<bool>) {
        let data_type = [DataType::Int16, DataType::Int32, DataType::Int64][width].clone();
        let column = |values: Vec<Option<i64>>| -> ArrayRef {
            let values = values.into_iter();
            match width {
                0 => Arc::new(Int16Array::from_iter(values.map(|v| v.map(|v| v as i16)))),
                1 => Arc::new(Int32Array::from_iter(values.map(|v| v.map(|v| v as i32)))),
                _ => Arc::new(Int64Array::from_iter(values)),
            }
        };
        let value = |value: Option<i64>| value.map_or(Value::Null, |value| match width {
            0 => Value::Int2(value as i16),
            1 => Value::Int4(value as i32),
            _ => Value::Int8(value),
        });
        let expr = Expr::Arithmetic {
            op: OPERATIONS[op],
            left: operand(0, &constant.filter(|left| *left).map(|_| value(pairs[0].0)), &data_type),
            right: operand(1, &constant.filter(|left| !*left).map(|_| value(pairs[0].1)), &data_type),
            data_type: data_type.clone(),
        };
        let (left, right) = pairs.into_iter().unzip();
        check(&expr, vec![column(left), column(right)], &[data_type.clone(), data_type])?;
    }

    #[test]
    fn decimals_widen(
        pairs in pairs(),
        op in 0..5usize,
        scales in (0..12i8, 0..12i8),
        wide in any::<(bool, bool)>(),
        constant: Option<bool>,
    ) {
        let types = [DataType::Decimal128(38, scales.0), DataType::Decimal128(38, scales.1)];
        let op = OPERATIONS[op];
        let scale = match op {
            ArithmeticOp::Multiply => scales.0 + scales.1,
            ArithmeticOp::Divide => scales.0 + 4,
            _ => scales.0.max(scales.1),
        };
        let value = |value: Option<i64>| value.map_or(Value::Null, |value| Value::Decimal(i128::from(value)));
        let expr = Expr::Arithmetic {
            op,
            left: operand(0, &constant.filter(|left| *left).map(|_| value(pairs[0].0)), &types[0]),
            right: operand(1, &constant.filter(|left| !*left).map(|_| value(pairs[0].1)), &types[1]),
            data_type: DataType::Decimal128(38, scale),
        };
        let column = |values: Vec<Option<i64>>, wide: bool| -> ArrayRef {
            if wide {
                // Beyond 8 bytes, now and then.
                let values = values.into_iter().map(|v| v.map(|v| i128::from(v) << (v & 31)));
                Arc::new(Decimal128Array::from_iter(values))
            } else {
                Arc::new(Int64Array::from_iter(values))
            }
        };
        let (left, right) = pairs.into_iter().unzip();
        check(&expr, vec![column(left, wide.0), column(right, wide.1)], &types)?;
    }

    #[test]
    fn decimals_are_cast(
        values in prop::collection::vec(extreme(), 1..4),
        from in 0..12i8,
        to in 0..12i8,
        precision in 12..38u8,
    ) {
        let (source, target) = (DataType::Decimal128(20, from), DataType::Decimal128(precision, to));
        let expr = Expr::Cast { expr: operand(0, &None, &source), data_type: target };
        check(&expr, vec![Arc::new(Int64Array::from_iter(values))], &[source])?;
    }
}

/// `left / right` over two columns.
fn quotient() -> Box<Expr> {
    let column = |index| Box::new(Expr::Column { index, data_type: DataType::Int32 });
    Box::new(Expr::Arithmetic {
        op: ArithmeticOp::Divide,
        left: column(0),
        right: column(1),
        data_type: DataType::Int32,
    })
}

fn compare_with(op: CompareOp, left: Box<Expr>, right: i32) -> Expr {
    Expr::Compare { op, left, right: Box::new(Expr::Literal { value: Value::Int4(right), data_type: DataType::Int32 }) }
}

#[test]
fn what_a_condition_guards_does_not_fail() {
    let column = |values: Vec<Option<i32>>| Column::new(Arc::new(Int32Array::from(values)));
    let batch = Batch::new(
        vec![column(vec![Some(8), Some(9), None, Some(3)]), column(vec![Some(2), Some(0), Some(0), Some(3)])],
        4,
    );
    let divisor = || Box::new(Expr::Column { index: 1, data_type: DataType::Int32 });
    let selected =
        |expr: Expr| expr.select(&batch).map(|rows| rows.map(|rows| rows.values().set_indices().collect::<Vec<_>>()));
    let large = || compare_with(CompareOp::Greater, quotient(), 1);
    assert_eq!(selected(large()), Err(VectorError::DivisionByZero));
    // The costly part comes first, but is computed last.
    let guarded = Expr::And(vec![large(), compare_with(CompareOp::NotEqual, divisor(), 0)]);
    assert_eq!(selected(guarded), Ok(Some(vec![0])));
    let or = Expr::Or(vec![large(), compare_with(CompareOp::Equal, divisor(), 0)]);
    assert_eq!(selected(or), Ok(Some(vec![0, 1, 2])));
    let case = Expr::Case {
        branches: vec![(compare_with(CompareOp::NotEqual, divisor(), 0), *quotient())],
        otherwise: None,
        data_type: DataType::Int32,
    };
    let values = case.evaluate(&batch).map(|column| values_of(column.array()));
    assert_eq!(values, Ok(vec![Value::Int4(4), Value::Null, Value::Null, Value::Int4(1)]));
}

#[test]
fn literals_alone_are_computed() -> Result<(), TestCaseError> {
    let literal =
        |value: i128| Box::new(Expr::Literal { value: Value::Decimal(value), data_type: DataType::Decimal128(10, 2) });
    let sum = Expr::Arithmetic {
        op: ArithmeticOp::Add,
        left: literal(125),
        right: literal(-25),
        data_type: DataType::Decimal128(11, 2),
    };
    check_value(&sum, &Batch::new(vec![], 3))?;
    let compare = Expr::Compare { op: CompareOp::Less, left: literal(1), right: Box::new(sum) };
    check_value(&compare, &Batch::new(vec![], 3))?;
    assert_eq!(compare.to_string(), "0.01 < (1.25 + -0.25)");
    Ok(())
}
