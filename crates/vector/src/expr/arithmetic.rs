//! Arithmetic on integers and floats. Decimals are in [`super::decimal`].
//!
//! Loops compute every row and note whether one has failed; only then is it looked for, since it may be a NULL's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use saki_base::value::Value;

use super::ArithmeticOp;
use super::decimal::{self, Interval};
use super::operand::{Operand, integer};
use crate::{Bounds, Column, Result, VectorError};

/// One side of an operation: a value for all rows, or one for each.
#[derive(Clone, Copy)]
pub(crate) enum Side<'a, T> {
    Constant(T),
    Values(&'a [T]),
}

impl<T: Copy> Side<'_, T> {
    fn at(self, row: usize) -> T {
        match self {
            Self::Constant(value) => value,
            Self::Values(values) => values[row],
        }
    }
}

/// An integer whose operations tell whether they have failed: left the type, or divided by zero.
pub(crate) trait Integer: Copy + Eq + Default {
    fn add(self, other: Self) -> (Self, bool);
    fn subtract(self, other: Self) -> (Self, bool);
    fn multiply(self, other: Self) -> (Self, bool);
    fn divide(self, other: Self) -> (Self, bool);
    fn remainder(self, other: Self) -> (Self, bool);
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Integer for $integer {
            #[inline(always)]
            fn add(self, other: Self) -> (Self, bool) {
                self.overflowing_add(other)
            }
            #[inline(always)]
            fn subtract(self, other: Self) -> (Self, bool) {
                self.overflowing_sub(other)
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> (Self, bool) {
                self.overflowing_mul(other)
            }
            #[inline(always)]
            fn divide(self, other: Self) -> (Self, bool) {
                if other == 0 { (0, true) } else { self.overflowing_div(other) }
            }
            #[inline(always)]
            fn remainder(self, other: Self) -> (Self, bool) {
                if other == 0 { (0, true) } else { (self.wrapping_rem(other), false) }
            }
        }
    )*};
}
integers!(i16 i32 i64 i128);

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

/// Rows where both sides have a value.
pub(crate) fn both_valid(left: &Operand, right: &Operand) -> Option<NullBuffer> {
    NullBuffer::union(left.nulls(), right.nulls())
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
    T: ArrowPrimitiveType<Native: Integer + TryFrom<i128> + Into<i64>>,
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

/// One value for each row. Not both sides are constant.
#[inline(always)]
pub(crate) fn zip<T: Copy, R>(left: Side<'_, T>, right: Side<'_, T>, mut each: impl FnMut(T, T) -> R) -> Vec<R> {
    match (left, right) {
        (Side::Values(left), Side::Values(right)) => left.iter().zip(right).map(|(l, r)| each(*l, *r)).collect(),
        (Side::Values(left), Side::Constant(right)) => left.iter().map(|left| each(*left, right)).collect(),
        (Side::Constant(left), Side::Values(right)) => right.iter().map(|right| each(left, *right)).collect(),
        (Side::Constant(left), Side::Constant(right)) => vec![each(left, right)],
    }
}

/// Where it is known that no row can fail, but for division by zero, which has no other result than 0 here.
pub(crate) fn compute<T: Integer>(op: ArithmeticOp, left: Side<'_, T>, right: Side<'_, T>) -> Vec<T> {
    match op {
        ArithmeticOp::Add => zip(left, right, |left, right| left.add(right).0),
        ArithmeticOp::Subtract => zip(left, right, |left, right| left.subtract(right).0),
        ArithmeticOp::Multiply => zip(left, right, |left, right| left.multiply(right).0),
        ArithmeticOp::Divide => zip(left, right, |left, right| left.divide(right).0),
        ArithmeticOp::Remainder => zip(left, right, |left, right| left.remainder(right).0),
    }
}

pub(crate) fn compute_checked<T: Integer>(
    op: ArithmeticOp,
    left: Side<'_, T>,
    right: Side<'_, T>,
    valid: Option<&NullBuffer>,
    name: &str,
) -> Result<Vec<T>> {
    #[inline(always)]
    fn noting<T: Integer>(
        left: Side<'_, T>,
        right: Side<'_, T>,
        operation: impl Fn(T, T) -> (T, bool),
    ) -> (Vec<T>, bool) {
        let mut failed = false;
        let values = zip(left, right, |left, right| {
            let (value, fails) = operation(left, right);
            failed |= fails;
            value
        });
        (values, failed)
    }
    let operation: fn(T, T) -> (T, bool);
    let (values, failed) = match op {
        ArithmeticOp::Add => {
            operation = T::add;
            noting(left, right, T::add)
        }
        ArithmeticOp::Subtract => {
            operation = T::subtract;
            noting(left, right, T::subtract)
        }
        ArithmeticOp::Multiply => {
            operation = T::multiply;
            noting(left, right, T::multiply)
        }
        ArithmeticOp::Divide => {
            operation = T::divide;
            noting(left, right, T::divide)
        }
        ArithmeticOp::Remainder => {
            operation = T::remainder;
            noting(left, right, T::remainder)
        }
    };
    if failed {
        let failing =
            |row: &usize| valid.is_none_or(|valid| valid.is_valid(*row)) && operation(left.at(*row), right.at(*row)).1;
        if let Some(row) = (0..values.len()).find(failing) {
            let divides = matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder);
            return Err(if divides && right.at(row) == T::default() {
                VectorError::DivisionByZero
            } else {
                VectorError::OutOfRange(name.to_owned())
            });
        }
    }
    Ok(values)
}

/// By IEEE 754: nothing fails.
fn floats<T>(
    op: ArithmeticOp,
    left: &Operand,
    right: &Operand,
    constant: impl Fn(&Value) -> Option<T::Native> + Copy,
) -> Result<Column>
where
    T: ArrowPrimitiveType,
    T::Native: std::ops::Add<Output = T::Native>
        + std::ops::Sub<Output = T::Native>
        + std::ops::Mul<Output = T::Native>
        + std::ops::Div<Output = T::Native>
        + std::ops::Rem<Output = T::Native>,
{
    let (left_side, right_side) = (side::<T>(left, constant)?, side::<T>(right, constant)?);
    let values = match op {
        ArithmeticOp::Add => zip(left_side, right_side, |left, right| left + right),
        ArithmeticOp::Subtract => zip(left_side, right_side, |left, right| left - right),
        ArithmeticOp::Multiply => zip(left_side, right_side, |left, right| left * right),
        ArithmeticOp::Divide => zip(left_side, right_side, |left, right| left / right),
        ArithmeticOp::Remainder => zip(left_side, right_side, |left, right| left % right),
    };
    Ok(Column::new(Arc::new(PrimitiveArray::<T>::new(values.into(), both_valid(left, right)))))
}

impl From<Bounds> for Interval {
    fn from(bounds: Bounds) -> Self {
        Self { min: i128::from(bounds.min), max: i128::from(bounds.max) }
    }
}
