//! SQL as it is defined, for one row at a time.

use std::cmp::Ordering;

use arrow_schema::DataType;
use saki_base::civil::{MICROS_PER_DAY, civil_from_days};
use saki_base::value::{Value, compare};

use crate::expr::{ArithmeticOp, DatePart, Expr};
use crate::{FloatRange, Result, VectorError};

/// The value of `expr` for a row. `failed` is set if any part of it fails, be the part needed or not.
pub fn value(expr: &Expr, row: &[Value], failed: &mut bool) -> Result<Value> {
    let result = compute(expr, row, failed);
    *failed |= result.is_err();
    result
}

fn compute(expr: &Expr, row: &[Value], failed: &mut bool) -> Result<Value> {
    let bool = |value: bool| Ok(Value::Bool(value));
    match expr {
        Expr::Column { index, .. } => Ok(row[*index].clone()),
        Expr::Literal { value, .. } => Ok(value.clone()),
        Expr::Arithmetic { op, left, right, data_type } => {
            let (left_type, right_type) = (left.data_type(), right.data_type());
            let (left, right) = (value(left, row, failed)?, value(right, row, failed)?);
            arithmetic(*op, &left, &left_type, &right, &right_type, data_type)
        }
        Expr::Negate(expr) => match value(expr, row, failed)? {
            Value::Null => Ok(Value::Null),
            Value::Float8(value) => Ok(Value::Float8(-value)),
            number => number_of(-integer(&number), &expr.data_type()),
        },
        Expr::Compare { op, left, right } => {
            let (left, right) = (value(left, row, failed)?, value(right, row, failed)?);
            if left == Value::Null || right == Value::Null {
                return Ok(Value::Null);
            }
            bool(op.holds(compare(left.as_ref(), right.as_ref())))
        }
        Expr::And(parts) => connect(parts, false, row, failed),
        Expr::Or(parts) => connect(parts, true, row, failed),
        Expr::Not(expr) => match value(expr, row, failed)? {
            Value::Bool(value) => bool(!value),
            other => Ok(other),
        },
        Expr::IsNull(expr) => bool(value(expr, row, failed)? == Value::Null),
        Expr::IsNotNull(expr) => bool(value(expr, row, failed)? != Value::Null),
        Expr::Like { expr, pattern, negated } => match value(expr, row, failed)? {
            Value::Text(text) => {
                let pattern: Vec<char> = pattern.pattern().chars().collect();
                bool(like(&text.chars().collect::<Vec<_>>(), &pattern) != *negated)
            }
            other => Ok(other),
        },
        Expr::InList { expr, values, negated } => match value(expr, row, failed)? {
            Value::Null => Ok(Value::Null),
            one => {
                let found =
                    values.values().iter().any(|value| compare(value.as_ref(), one.as_ref()) == Ordering::Equal);
                bool(found != *negated)
            }
        },
        Expr::Case { branches, otherwise, .. } => {
            let mut result = None;
            for (when, then) in branches {
                // All parts are computed, to learn whether one fails.
                let (when, then) = (value(when, row, failed), value(then, row, failed));
                if result.is_none() {
                    match when {
                        Ok(Value::Bool(true)) => result = Some(then),
                        Ok(_) => {}
                        Err(error) => result = Some(Err(error)),
                    }
                }
            }
            let otherwise = otherwise.as_ref().map(|otherwise| value(otherwise, row, failed));
            result.or(otherwise).unwrap_or(Ok(Value::Null))
        }
        Expr::Cast { expr, data_type } => {
            let from = expr.data_type();
            cast(value(expr, row, failed)?, &from, data_type)
        }
        Expr::DatePart { part, expr } => {
            let days = match value(expr, row, failed)? {
                Value::Date(days) => i64::from(days),
                Value::Timestamp(micros) => micros.div_euclid(MICROS_PER_DAY),
                other => return Ok(other),
            };
            let date = civil_from_days(days);
            Ok(Value::Int4(match part {
                DatePart::Year => date.year as i32,
                DatePart::Month => i32::from(date.month),
                DatePart::Day => i32::from(date.day),
            }))
        }
        Expr::Substring { expr, start, length } => match value(expr, row, failed)? {
            Value::Text(text) => {
                let places = (1..).zip(text.chars());
                let end = length.map_or(i64::MAX, |length| start + length);
                Ok(Value::Text(places.filter(|(at, _)| start <= at && *at < end).map(|(_, c)| c).collect()))
            }
            other => Ok(other),
        },
        Expr::Foreign { .. } => Err(VectorError::Internal("not modelled".into())),
    }
}

/// `deciding` decides; else NULL if there is one.
fn connect(parts: &[Expr], deciding: bool, row: &[Value], failed: &mut bool) -> Result<Value> {
    let parts: Vec<_> = parts.iter().map(|part| value(part, row, failed)).collect();
    if parts.contains(&Ok(Value::Bool(deciding))) {
        return Ok(Value::Bool(deciding));
    }
    let parts = parts.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(if parts.contains(&Value::Null) { Value::Null } else { Value::Bool(!deciding) })
}

fn like(text: &[char], pattern: &[char]) -> bool {
    match (pattern, text) {
        ([], text) => text.is_empty(),
        (['%', pattern @ ..], text) => (0..=text.len()).any(|skip| like(&text[skip..], pattern)),
        (['_', pattern @ ..], [_, text @ ..]) => like(text, pattern),
        (['\\', escaped, pattern @ ..], [first, text @ ..]) => escaped == first && like(text, pattern),
        ([one, pattern @ ..], [first, text @ ..]) => one == first && like(text, pattern),
        _ => false,
    }
}

pub fn integer(value: &Value) -> i128 {
    crate::expr::operand::integer(value).unwrap()
}

fn number_of(number: i128, data_type: &DataType) -> Result<Value> {
    let out_of_range = |_| VectorError::OutOfRange(data_type.to_string());
    Ok(match data_type {
        DataType::Int16 => Value::Int2(number.try_into().map_err(out_of_range)?),
        DataType::Int32 => Value::Int4(number.try_into().map_err(out_of_range)?),
        DataType::Int64 => Value::Int8(number.try_into().map_err(out_of_range)?),
        DataType::Decimal128(..) => Value::Decimal(number),
        other => panic!("{other} is no number"),
    })
}

fn scale(data_type: &DataType) -> u32 {
    if let DataType::Decimal128(_, scale) = data_type { *scale as u32 } else { 0 }
}

fn scaled(number: i128, digits: u32) -> Result<i128> {
    let factor = 10_i128.checked_pow(digits);
    factor.and_then(|factor| number.checked_mul(factor)).ok_or(VectorError::OutOfRange("numeric".into()))
}

/// Decimals as Arrow computes them.
fn arithmetic(
    op: ArithmeticOp,
    left: &Value,
    left_type: &DataType,
    right: &Value,
    right_type: &DataType,
    data_type: &DataType,
) -> Result<Value> {
    if *left == Value::Null || *right == Value::Null {
        return Ok(Value::Null);
    }
    if let (Value::Float8(left), Value::Float8(right)) = (left, right) {
        return float(op, *left, *right).map(Value::Float8);
    }
    let (mut left, mut right) = (integer(left), integer(right));
    let (left_scale, right_scale) = (scale(left_type), scale(right_type));
    match op {
        ArithmeticOp::Multiply => {}
        ArithmeticOp::Divide if matches!(data_type, DataType::Decimal128(..)) => {
            left = scaled(left, 4 + right_scale)?;
        }
        _ => {
            let natural = left_scale.max(right_scale);
            (left, right) = (scaled(left, natural - left_scale)?, scaled(right, natural - right_scale)?);
        }
    }
    if right == 0 && matches!(op, ArithmeticOp::Divide | ArithmeticOp::Remainder) {
        return Err(VectorError::DivisionByZero);
    }
    let result = match op {
        ArithmeticOp::Add => left.checked_add(right),
        ArithmeticOp::Subtract => left.checked_sub(right),
        ArithmeticOp::Multiply => left.checked_mul(right),
        ArithmeticOp::Divide => left.checked_div(right),
        ArithmeticOp::Remainder => Some(left.wrapping_rem(right)),
    };
    number_of(result.ok_or(VectorError::OutOfRange("numeric".into()))?, data_type)
}

/// By PostgreSQL's `utils/float.h`.
fn float(op: ArithmeticOp, left: f64, right: f64) -> Result<f64> {
    let result = match op {
        ArithmeticOp::Add => left + right,
        ArithmeticOp::Subtract => left - right,
        ArithmeticOp::Multiply => left * right,
        ArithmeticOp::Divide if right == 0.0 && !left.is_nan() => return Err(VectorError::DivisionByZero),
        ArithmeticOp::Divide => left / right,
        ArithmeticOp::Remainder => return Ok(left % right),
    };
    let divides = op == ArithmeticOp::Divide;
    if result.is_infinite() && !left.is_infinite() && (divides || !right.is_infinite()) {
        return Err(VectorError::FloatRange(FloatRange::Overflow));
    }
    let from_zero = left == 0.0 || if divides { right.is_infinite() } else { right == 0.0 };
    match op {
        ArithmeticOp::Multiply | ArithmeticOp::Divide if result == 0.0 && !from_zero => {
            Err(VectorError::FloatRange(FloatRange::Underflow))
        }
        _ => Ok(result),
    }
}

fn cast(value: Value, from: &DataType, to: &DataType) -> Result<Value> {
    if value == Value::Null || from == to {
        return Ok(value);
    }
    match to {
        DataType::Decimal128(precision, to_scale) => {
            let (number, from_scale, to_scale) = (integer(&value), scale(from), *to_scale as u32);
            let number = if from_scale <= to_scale {
                scaled(number, to_scale - from_scale)?
            } else {
                let divisor = 10_i128.pow(from_scale - to_scale);
                let rest = (number % divisor).abs();
                number / divisor + if rest >= divisor / 2 { number.signum() } else { 0 }
            };
            if number.abs() >= 10_i128.pow(u32::from(*precision)) {
                return Err(VectorError::OutOfRange("numeric".into()));
            }
            Ok(Value::Decimal(number))
        }
        DataType::Float64 => Ok(Value::Float8(integer(&value) as f64 / 10_f64.powi(scale(from) as i32))),
        DataType::Timestamp(..) => Ok(Value::Timestamp(integer(&value) as i64 * MICROS_PER_DAY)),
        _ => number_of(integer(&value), to),
    }
}
