//! Expressions against an interpreter that takes one row at a time.

mod extremes;
mod model;
mod sample;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use proptest::prelude::*;
use saki_base::value::Value;

use self::sample::{Tape, condition, sample_batch, text, value};
use super::*;
use crate::{Batch, Bounds, Result, form};

/// Rows of a surface array as values.
fn values_of(array: &ArrayRef) -> Vec<Value> {
    let at = |row: usize| match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Int16 => Value::Int2(array.as_primitive::<arrow_array::types::Int16Type>().value(row)),
        DataType::Int32 => Value::Int4(array.as_primitive::<arrow_array::types::Int32Type>().value(row)),
        DataType::Int64 => Value::Int8(array.as_primitive::<arrow_array::types::Int64Type>().value(row)),
        DataType::Float64 => Value::Float8(array.as_primitive::<arrow_array::types::Float64Type>().value(row)),
        DataType::Date32 => Value::Date(array.as_primitive::<arrow_array::types::Date32Type>().value(row)),
        DataType::Timestamp(..) => {
            Value::Timestamp(array.as_primitive::<arrow_array::types::TimestampMicrosecondType>().value(row))
        }
        DataType::Decimal128(..) => {
            Value::Decimal(array.as_primitive::<arrow_array::types::Decimal128Type>().value(row))
        }
        DataType::Utf8View => Value::Text(array.as_string_view().value(row).to_owned()),
        other => panic!("no value of {other}"),
    };
    (0..array.len()).map(|row| if array.is_null(row) { Value::Null } else { at(row) }).collect()
}

/// Equal, with NaN equal to itself.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Float8(left), Value::Float8(right)) => left == right || (left.is_nan() && right.is_nan()),
        _ => left == right,
    }
}

/// Rows of the batch as values.
fn rows_of(batch: &Batch) -> Vec<Vec<Value>> {
    let columns: Vec<Vec<Value>> = batch
        .columns
        .iter()
        .zip(sample::TYPES)
        .map(|(column, data_type)| values_of(&form::to_surface(column, &data_type).unwrap()))
        .collect();
    (0..batch.rows).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

fn check_value(expr: &Expr, batch: &Batch) -> Result<(), TestCaseError> {
    let rows = rows_of(batch);
    let mut failed = false;
    let expected: Vec<_> = rows.iter().map(|row| model::value(expr, row, &mut failed)).collect();
    match expr.evaluate(batch) {
        Err(error) => prop_assert!(failed, "{expr}: {error}"),
        Ok(column) => {
            let bounds = column.known_bounds();
            let actual = values_of(&form::to_surface(&column, &expr.data_type()).unwrap());
            prop_assert_eq!(actual.len(), batch.rows);
            for (row, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
                if let Ok(expected) = expected {
                    prop_assert!(
                        same(expected, actual),
                        "{} of {:?}: {:?}, not {:?}",
                        expr,
                        rows[row],
                        actual,
                        expected
                    );
                }
                if let (Some(Bounds { min, max }), Some(value)) = (bounds, operand::integer(actual)) {
                    prop_assert!(i128::from(min) <= value && value <= i128::from(max), "{expr}: {value} out of bounds");
                }
            }
        }
    }
    Ok(())
}

fn check_selection(expr: &Expr, batch: &Batch) -> Result<(), TestCaseError> {
    let rows = rows_of(batch);
    let mut failed = false;
    let expected: Vec<_> = rows.iter().map(|row| model::value(expr, row, &mut failed)).collect();
    match expr.select(batch) {
        Err(error) => prop_assert!(failed, "{expr}: {error}"),
        Ok(selection) => {
            prop_assert!(selection.as_ref().is_none_or(|rows| rows.len() == batch.rows && rows.null_count() == 0));
            for (row, expected) in expected.iter().enumerate() {
                let selected = selection.as_ref().is_none_or(|rows| rows.value(row));
                if let Ok(expected) = expected {
                    prop_assert_eq!(*expected == Value::Bool(true), selected, "{} of {:?}", expr, rows[row]);
                }
            }
            prop_assert!(selection.is_none_or(|rows| rows.true_count() < batch.rows), "all rows are None");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn conditions(batch in sample_batch(), tape in prop::collection::vec(any::<u32>(), 0..60)) {
        let expr = condition(&mut Tape::new(&tape), 3);
        check_selection(&expr, &batch)?;
        check_value(&expr, &batch)?;
    }

    #[test]
    fn values(
        batch in sample_batch(),
        kind in 0..sample::TYPES.len(),
        tape in prop::collection::vec(any::<u32>(), 0..60),
    ) {
        check_value(&value(&sample::TYPES[kind], &mut Tape::new(&tape), 3), &batch)?;
    }

    #[test]
    fn texts(batch in sample_batch(), tape in prop::collection::vec(any::<u32>(), 0..20)) {
        check_value(&text(&mut Tape::new(&tape), 3), &batch)?;
    }
}
