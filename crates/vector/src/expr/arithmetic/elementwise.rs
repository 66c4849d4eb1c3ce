//! Operations on numbers, row by row.

use arrow_buffer::NullBuffer;

use crate::expr::operand::Operand;
use crate::expr::tree::ArithmeticOp;
use crate::{Result, VectorError};

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

/// Rows where both sides have a value.
pub(crate) fn both_valid(left: &Operand, right: &Operand) -> Option<NullBuffer> {
    NullBuffer::union(left.nulls(), right.nulls())
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
