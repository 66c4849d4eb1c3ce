//! Arithmetic on integers and floats. Decimals are in [`decimal`].
//!
//! Loops compute every row and note whether one has failed; only then is it looked for, since it may be a NULL's.

pub(super) mod decimal;
mod elementwise;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_schema::DataType;
use saki_base::value::Value;

use super::operand::{Operand, integer};
use super::tree::ArithmeticOp;
use crate::{Column, Result, VectorError};
use decimal::Interval;
pub(crate) use elementwise::Number;
use elementwise::{Side, both_valid, compute, compute_checked};

/// `left op right` for every row. Types are logical ones.
pub(crate) fn evaluate(
    op: ArithmeticOp,
    operands: (Operand, Operand),
    types: (&DataType, &DataType),
    data_type: &DataType,
    rows: usize,
) -> Result<Operand> {
    let (left, right) = operands;
    if left.is_null() || right.is_null() {
        return Ok(Operand::Constant(Value::Null));
    }
    // A constant result is computed as a column of one row would be.
    let left = match (&left, &right) {
        (Operand::Constant(_), Operand::Constant(_)) => Operand::Column(left.into_column(types.0, rows)?),
        _ => left,
    };
    let column = match data_type {
        DataType::Decimal128(_, scale) => decimal::evaluate(op, &left, types.0, &right, types.1, *scale)?,
        DataType::Int16 => integers::<Int16Type>(op, &left, &right, "smallint")?,
        DataType::Int32 => integers::<Int32Type>(op, &left, &right, "integer")?,
        DataType::Int64 => integers::<Int64Type>(op, &left, &right, "bigint")?,
        DataType::Float32 => {
            let constant = |value: &Value| if let Value::Float4(value) = value { Some(*value) } else { None };
            floats::<Float32Type>(op, &left, &right, constant)?
        }
        DataType::Float64 => {
            let constant = |value: &Value| if let Value::Float8(value) = value { Some(*value) } else { None };
            floats::<Float64Type>(op, &left, &right, constant)?
        }
        other => return Err(VectorError::internal(format!("no arithmetic on {other}"))),
    };
    Ok(Operand::Column(column))
}

/// `left op right` for every row of two arrays of one type, of integers or floats.
///
/// # Errors
/// As PostgreSQL's operators: out of range, and division by zero.
pub fn compute_arrays(op: ArithmeticOp, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    let (data_type, rows) = (left.data_type().clone(), left.len());
    let operands = [left, right].map(|array| Operand::Column(Column::new(Arc::clone(array))));
    let [left, right] = operands;
    Ok(evaluate(op, (left, right), (&data_type, &data_type), &data_type, rows)?
        .into_column(&data_type, rows)?
        .array()
        .clone())
}

/// `-operand` for every row.
pub(crate) fn negate(operand: Operand, data_type: &DataType, rows: usize) -> Result<Operand> {
    let zero = match data_type {
        DataType::Int16 => Value::Int2(0),
        DataType::Int32 => Value::Int4(0),
        DataType::Int64 => Value::Int8(0),
        DataType::Decimal128(..) => Value::Decimal(0),
        // Not from zero: the negative of 0.0 is -0.0.
        DataType::Float32 => return Ok(negate_floats::<Float32Type>(&operand.into_column(data_type, rows)?, |v| -v)),
        DataType::Float64 => return Ok(negate_floats::<Float64Type>(&operand.into_column(data_type, rows)?, |v| -v)),
        other => return Err(VectorError::internal(format!("no negative of {other}"))),
    };
    let operands = (Operand::Constant(zero), operand);
    evaluate(ArithmeticOp::Subtract, operands, (data_type, data_type), data_type, rows)
}

fn negate_floats<T: ArrowPrimitiveType>(column: &Column, negate: impl Fn(T::Native) -> T::Native) -> Operand {
    let array: ArrayRef = Arc::new(column.array().as_primitive::<T>().unary::<_, T>(negate));
    Operand::Column(Column::new(array))
}

fn side<'a, T: ArrowPrimitiveType>(
    operand: &'a Operand,
    constant: impl Fn(&Value) -> Option<T::Native>,
) -> Result<Side<'a, T::Native>> {
    let side = match operand {
        Operand::Constant(value) => constant(value).map(Side::Constant),
        Operand::Column(column) => {
            column.array().as_primitive_opt::<T>().map(|array| Side::Values(array.values().as_ref()))
        }
    };
    side.ok_or_else(|| VectorError::internal(format!("{operand:?} is no {}", T::DATA_TYPE)))
}

fn integers<T>(op: ArithmeticOp, left: &Operand, right: &Operand, name: &str) -> Result<Column>
where
    T: ArrowPrimitiveType<Native: Number + TryFrom<i128> + Into<i64>>,
{
    let constant = |value: &Value| T::Native::try_from(integer(value)?).ok();
    let (left_side, right_side) = (side::<T>(left, constant)?, side::<T>(right, constant)?);
    let known = |operand: &Operand| match operand {
        Operand::Constant(value) => integer(value).map(|value| Interval { min: value, max: value }),
        Operand::Column(column) => column.known_bounds().map(Interval::from),
    };
    let interval = known(left).zip(known(right)).and_then(|(left, right)| left.of(op, right));
    let bounds = interval.and_then(Interval::narrow);
    let fits = |value: i64| T::Native::try_from(i128::from(value)).is_ok();
    let bounds = bounds.filter(|bounds| fits(bounds.min) && fits(bounds.max));
    let nulls = both_valid(left, right);
    let values = if bounds.is_some() {
        compute(op, left_side, right_side)
    } else {
        compute_checked(op, left_side, right_side, nulls.as_ref(), name)?
    };
    let array: ArrayRef = Arc::new(PrimitiveArray::<T>::new(values.into(), nulls));
    Ok(match bounds {
        Some(bounds) => Column::with_bounds(array, bounds),
        None => Column::new(array),
    })
}

fn floats<T>(
    op: ArithmeticOp,
    left: &Operand,
    right: &Operand,
    constant: impl Fn(&Value) -> Option<T::Native> + Copy,
) -> Result<Column>
where
    T: ArrowPrimitiveType<Native: Number>,
{
    let (left_side, right_side) = (side::<T>(left, constant)?, side::<T>(right, constant)?);
    let nulls = both_valid(left, right);
    let values = compute_checked(op, left_side, right_side, nulls.as_ref(), "")?;
    Ok(Column::new(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))))
}
