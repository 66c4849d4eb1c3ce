//! Operations on numbers, row by row.

use arrow_buffer::NullBuffer;

use crate::expr::operand::Operand;
use crate::expr::tree::ArithmeticOp;
use crate::{FloatRange, Result, VectorError};

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

/// A number whose operations tell whether they have failed: left the type, or divided by zero.
pub(crate) trait Number: Copy {
    fn add(self, other: Self) -> (Self, bool);
    fn subtract(self, other: Self) -> (Self, bool);
    fn multiply(self, other: Self) -> (Self, bool);
    fn divide(self, other: Self) -> (Self, bool);
    fn remainder(self, other: Self) -> (Self, bool);
    /// How a failed operation has failed; `name`: the type's.
    fn failure(op: ArithmeticOp, left: Self, right: Self, name: &str) -> VectorError;
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Number for $integer {
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
            #[cold]
            fn failure(op: ArithmeticOp, _: Self, right: Self, name: &str) -> VectorError {
                match op {
                    ArithmeticOp::Divide | ArithmeticOp::Remainder if right == 0 => VectorError::DivisionByZero,
                    _ => VectorError::OutOfRange(name.to_owned()),
                }
            }
        }
    )*};
}
integers!(i16 i32 i64 i128);

// As PostgreSQL has it (`utils/float.h`): finite operands have a finite result, and a product or quotient of what is
// not zero is not zero. Infinities and NaN are values like others. `&` instead of `&&`, so that loops have no branches.
macro_rules! floats {
    ($($float:ty)*) => {$(
        impl Number for $float {
            #[inline(always)]
            fn add(self, other: Self) -> (Self, bool) {
                let sum = self + other;
                (sum, sum.is_infinite() & !self.is_infinite() & !other.is_infinite())
            }
            #[inline(always)]
            fn subtract(self, other: Self) -> (Self, bool) {
                self.add(-other)
            }
            #[inline(always)]
            fn multiply(self, other: Self) -> (Self, bool) {
                let product = self * other;
                let is_over = product.is_infinite() & !self.is_infinite() & !other.is_infinite();
                (product, is_over | ((product == 0.0) & (self != 0.0) & (other != 0.0)))
            }
            #[inline(always)]
            fn divide(self, other: Self) -> (Self, bool) {
                let quotient = self / other;
                let is_over = quotient.is_infinite() & !self.is_infinite() | (other == 0.0) & !self.is_nan();
                (quotient, is_over | ((quotient == 0.0) & (self != 0.0) & !other.is_infinite()))
            }
            #[inline(always)]
            fn remainder(self, other: Self) -> (Self, bool) {
                (self % other, false)
            }
            #[cold]
            fn failure(op: ArithmeticOp, left: Self, right: Self, _: &str) -> VectorError {
                let value = match op {
                    ArithmeticOp::Divide if right == 0.0 => return VectorError::DivisionByZero,
                    ArithmeticOp::Divide => left / right,
                    ArithmeticOp::Multiply => left * right,
                    _ => return VectorError::FloatRange(FloatRange::Overflow),
                };
                let left_at = if value == 0.0 { FloatRange::Underflow } else { FloatRange::Overflow };
                VectorError::FloatRange(left_at)
            }
        }
    )*};
}
floats!(f32 f64);

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
pub(crate) fn compute<T: Number>(op: ArithmeticOp, left: Side<'_, T>, right: Side<'_, T>) -> Vec<T> {
    match op {
        ArithmeticOp::Add => zip(left, right, |left, right| left.add(right).0),
        ArithmeticOp::Subtract => zip(left, right, |left, right| left.subtract(right).0),
        ArithmeticOp::Multiply => zip(left, right, |left, right| left.multiply(right).0),
        ArithmeticOp::Divide => zip(left, right, |left, right| left.divide(right).0),
        ArithmeticOp::Remainder => zip(left, right, |left, right| left.remainder(right).0),
    }
}

pub(crate) fn compute_checked<T: Number>(
    op: ArithmeticOp,
    left: Side<'_, T>,
    right: Side<'_, T>,
    valid: Option<&NullBuffer>,
    name: &str,
) -> Result<Vec<T>> {
    #[inline(always)]
    fn noting<T: Number>(
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
            return Err(T::failure(op, left.at(row), right.at(row), name));
        }
    }
    Ok(values)
}
