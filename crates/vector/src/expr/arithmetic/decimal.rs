//! Arithmetic on decimals: in 8 bytes where bounds prove that nothing leaves them, else in 16 with checks.
//!
//! Scales follow Arrow (and so the plan's types): sums and remainders have the greater scale, products the sum of
//! scales, quotients four digits more than the dividend.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Decimal128Array, Int64Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DECIMAL128_MAX_SCALE, DataType};
use saki_base::value::Value;

use super::elementwise::{Side, both_valid, compute, compute_checked, zip};
use crate::expr::operand::{Operand, integer};
use crate::expr::tree::ArithmeticOp;
use crate::{Bounds, Column, Result, VectorError, form};

/// Values lie between `min` and `max`, both included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub min: i128,
    pub max: i128,
}

impl Interval {
    /// What the results of an operation lie between. `None`: not known, or more than 16 bytes hold.
    pub fn of(self, op: ArithmeticOp, other: Self) -> Option<Self> {
        Some(match op {
            ArithmeticOp::Add => Self { min: self.min.checked_add(other.min)?, max: self.max.checked_add(other.max)? },
            ArithmeticOp::Subtract => {
                Self { min: self.min.checked_sub(other.max)?, max: self.max.checked_sub(other.min)? }
            }
            ArithmeticOp::Multiply => {
                let corners = [
                    self.min.checked_mul(other.min)?,
                    self.min.checked_mul(other.max)?,
                    self.max.checked_mul(other.min)?,
                    self.max.checked_mul(other.max)?,
                ];
                Self { min: corners.into_iter().min()?, max: corners.into_iter().max()? }
            }
            // A quotient is no further from 0 than the dividend. Zero as a divisor has to be looked for.
            ArithmeticOp::Divide if other.min > 0 || other.max < 0 => {
                let far = self.min.checked_abs()?.max(self.max.checked_abs()?);
                Self { min: -far, max: far }
            }
            ArithmeticOp::Remainder if other.min > 0 || other.max < 0 => {
                Self { min: self.min.min(0), max: self.max.max(0) }
            }
            ArithmeticOp::Divide | ArithmeticOp::Remainder => return None,
        })
    }

    /// As bounds of 8-byte integers, if they hold it.
    pub fn narrow(self) -> Option<Bounds> {
        Some(Bounds { min: i64::try_from(self.min).ok()?, max: i64::try_from(self.max).ok()? })
    }

    fn fits_four_bytes(self) -> bool {
        self.min >= i128::from(i32::MIN) && self.max <= i128::from(i32::MAX)
    }
}

impl From<Bounds> for Interval {
    fn from(bounds: Bounds) -> Self {
        Self { min: i128::from(bounds.min), max: i128::from(bounds.max) }
    }
}

/// One side of an operation, to be multiplied by `factor` before it.
struct Term<'a> {
    operand: &'a Operand,
    factor: i128,
}

impl Term<'_> {
    /// Bounds of what the column or constant holds, if it holds 8-byte integers.
    fn held(&self) -> Option<Interval> {
        match self.operand {
            Operand::Constant(value) => integer(value).map(|value| Interval { min: value, max: value }),
            Operand::Column(column) => column.bounds().map(Interval::from),
        }
    }

    fn scaled(&self) -> Option<Interval> {
        self.held()?.of(ArithmeticOp::Multiply, Interval { min: self.factor, max: self.factor })
    }
}

/// `left op right`, with a result of `scale`.
pub(crate) fn evaluate(
    op: ArithmeticOp,
    left: &Operand,
    left_type: &DataType,
    right: &Operand,
    right_type: &DataType,
    scale: i8,
) -> Result<Column> {
    let (left_scale, right_scale) = (scale_of(left_type)?, scale_of(right_type)?);
    let (natural, factors) = match op {
        ArithmeticOp::Add | ArithmeticOp::Subtract | ArithmeticOp::Remainder => {
            let natural = left_scale.max(right_scale);
            (natural, (power_of_ten(natural - left_scale)?, power_of_ten(natural - right_scale)?))
        }
        ArithmeticOp::Multiply => (left_scale.saturating_add(right_scale), (1, 1)),
        ArithmeticOp::Divide => {
            let natural = left_scale.saturating_add(4).min(DECIMAL128_MAX_SCALE);
            let shift = natural - left_scale + right_scale;
            (natural, (power_of_ten(shift.max(0))?, power_of_ten((-shift).max(0))?))
        }
    };
    let (left, right) = (Term { operand: left, factor: factors.0 }, Term { operand: right, factor: factors.1 });
    let nulls = both_valid(left.operand, right.operand);
    let column = match evaluate_narrow(op, &left, &right, nulls.as_ref())? {
        Some(column) => column,
        None => evaluate_wide(op, &left, &right, nulls)?,
    };
    rescale(&column, natural, scale)
}

fn scale_of(data_type: &DataType) -> Result<i8> {
    match data_type {
        DataType::Decimal128(_, scale) => Ok(*scale),
        other => Err(VectorError::internal(format!("{other} is no decimal"))),
    }
}

/// The error of decimals.
pub(crate) fn out_of_range() -> VectorError {
    VectorError::OutOfRange("numeric".into())
}

pub(crate) fn power_of_ten(exponent: i8) -> Result<i128> {
    u32::try_from(exponent).ok().and_then(|exponent| 10_i128.checked_pow(exponent)).ok_or_else(out_of_range)
}

/// In 8 bytes; `None`: they may not do.
fn evaluate_narrow(
    op: ArithmeticOp,
    left: &Term<'_>,
    right: &Term<'_>,
    nulls: Option<&NullBuffer>,
) -> Result<Option<Column>> {
    let (Some(left_bounds), Some(right_bounds)) = (left.scaled(), right.scaled()) else { return Ok(None) };
    let divides = matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder);
    let result = match left_bounds.of(op, right_bounds) {
        Some(result) => Some(result),
        // The divisor may be zero, which has to be checked; the result is bounded all the same.
        None if divides => left_bounds.of(op, Interval { min: 1, max: 1 }),
        None => None,
    };
    let (Some(bounds), Some(_), Some(_)) =
        (result.and_then(Interval::narrow), left_bounds.narrow(), right_bounds.narrow())
    else {
        return Ok(None);
    };
    let (left, right) = (left.narrow()?, right.narrow()?);
    let (left, right) = (left.side(), right.side());
    let values = if divides {
        compute_checked(op, left, right, nulls, "numeric")?
    } else if op == ArithmeticOp::Multiply && left_bounds.fits_four_bytes() && right_bounds.fits_four_bytes() {
        // A product of four-byte factors is one instruction for several rows.
        zip(left, right, |left, right| i64::from(left as i32) * i64::from(right as i32))
    } else {
        compute(op, left, right)
    };
    let array: ArrayRef = Arc::new(Int64Array::new(values.into(), nulls.cloned()));
    Ok(Some(Column::with_bounds(array, bounds)))
}

/// In 16 bytes, with checks.
fn evaluate_wide(op: ArithmeticOp, left: &Term<'_>, right: &Term<'_>, nulls: Option<NullBuffer>) -> Result<Column> {
    let (left, right) = (left.wide(nulls.as_ref())?, right.wide(nulls.as_ref())?);
    let values = compute_checked(op, left.side(), right.side(), nulls.as_ref(), "numeric")?;
    Ok(Column::new(Arc::new(Decimal128Array::new(values.into(), nulls))))
}

/// A term with its factor.
enum Scaled<T: arrow_buffer::ArrowNativeType> {
    Constant(T),
    Values(ScalarBuffer<T>),
}

impl<T: arrow_buffer::ArrowNativeType> Scaled<T> {
    fn side(&self) -> Side<'_, T> {
        match self {
            Self::Constant(value) => Side::Constant(*value),
            Self::Values(values) => Side::Values(values),
        }
    }
}

impl Term<'_> {
    /// In 8 bytes, which the bounds say it fits.
    fn narrow(&self) -> Result<Scaled<i64>> {
        let wrong = || VectorError::internal(format!("{:?} is no narrow decimal", self.operand));
        let factor = i64::try_from(self.factor).map_err(|_| wrong());
        match self.operand {
            Operand::Constant(value) => {
                let value = integer(value).and_then(|value| value.checked_mul(self.factor)).ok_or_else(wrong)?;
                Ok(Scaled::Constant(i64::try_from(value).map_err(|_| wrong())?))
            }
            Operand::Column(column) => {
                let array = column.array().as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
                Ok(Scaled::Values(match self.factor {
                    1 => array.values().clone(),
                    // Only zeros fit with a factor that does not.
                    _ => match factor {
                        Ok(factor) => array.values().iter().map(|value| value.wrapping_mul(factor)).collect(),
                        Err(_) => vec![0; array.len()].into(),
                    },
                }))
            }
        }
    }

    /// In 16 bytes. Only rows that are `valid` on both sides can be out of range.
    fn wide(&self, valid: Option<&NullBuffer>) -> Result<Scaled<i128>> {
        match self.operand {
            Operand::Constant(value) => {
                let value = integer(value).ok_or_else(|| VectorError::internal(format!("{value:?} is no decimal")))?;
                Ok(Scaled::Constant(value.checked_mul(self.factor).ok_or_else(out_of_range)?))
            }
            Operand::Column(column) => {
                let wide = form::wide_decimals(column)?;
                if self.factor == 1 {
                    return Ok(Scaled::Values(wide.values().clone()));
                }
                let (values, factor) = (Side::Values(wide.values().as_ref()), Side::Constant(self.factor));
                let scaled = compute_checked(ArithmeticOp::Multiply, values, factor, valid, "numeric")?;
                Ok(Scaled::Values(scaled.into()))
            }
        }
    }
}

/// The same numbers with another scale; digits that are lost round half away from zero.
pub(crate) fn rescale(column: &Column, from: i8, to: i8) -> Result<Column> {
    if from <= to {
        return scale_up(column, power_of_ten(to - from)?);
    }
    let nulls = column.array().nulls().cloned();
    // More digits than a decimal has leave nothing.
    let Ok(divisor) = power_of_ten(from.saturating_sub(to)) else {
        return Ok(Column::with_bounds(Arc::new(Int64Array::new(vec![0; column.len()].into(), nulls)), ZERO));
    };
    match (column.array().as_primitive_opt::<Int64Type>(), i64::try_from(divisor)) {
        (Some(array), Ok(divisor)) => {
            let divide = |value: i64| divide_rounding(i128::from(value), i128::from(divisor)) as i64;
            let values: Vec<i64> = array.values().iter().map(|value| divide(*value)).collect();
            let array: ArrayRef = Arc::new(Int64Array::new(values.into(), nulls));
            Ok(match column.known_bounds() {
                Some(Bounds { min, max }) => Column::with_bounds(array, Bounds { min: divide(min), max: divide(max) }),
                None => Column::new(array),
            })
        }
        _ => {
            let wide = form::wide_decimals(column)?;
            let values: Vec<i128> = wide.values().iter().map(|value| divide_rounding(*value, divisor)).collect();
            Ok(Column::new(Arc::new(Decimal128Array::new(values.into(), nulls))))
        }
    }
}

const ZERO: Bounds = Bounds { min: 0, max: 0 };

fn divide_rounding(value: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (value / divisor, value % divisor);
    // The divisor is even.
    if remainder.abs() >= divisor / 2 { quotient + value.signum() } else { quotient }
}

/// Every value times `factor`, which is a power of ten.
fn scale_up(column: &Column, factor: i128) -> Result<Column> {
    if factor == 1 {
        return Ok(column.clone());
    }
    let operand = Operand::Column(column.clone());
    let (values, factor) =
        (Term { operand: &operand, factor }, Term { operand: &Operand::Constant(Value::Decimal(1)), factor: 1 });
    let nulls = column.array().nulls();
    match evaluate_narrow(ArithmeticOp::Multiply, &values, &factor, nulls)? {
        Some(column) => Ok(column),
        None => evaluate_wide(ArithmeticOp::Multiply, &values, &factor, nulls.cloned()),
    }
}
