//! Greatest common divisors and least common multiples of integers and numerics.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array};
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::arithmetic::{cast, out_of_range, scale_of, undefined_function, unscaled};
use saki_base::types::{DECIMAL_PRECISION_MAX as PRECISION_MAX, decimal_limit};
use saki_catalog::SqlError;

/// `gcd` and `lcm`.
pub fn functions() -> [ScalarUDF; 2] {
    [Kind::Divisor, Kind::Multiple]
        .map(|kind| ScalarUDF::from(Divisors { kind, signature: Signature::any(2, Volatility::Immutable) }))
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Divisor,
    Multiple,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Divisors {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Divisors {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Divisor => "gcd",
            Kind::Multiple => "lcm",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// There are functions of integer, bigint and numeric: of two types, that of the wider one.
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let rank = |of: &DataType| match of {
            DataType::Null | DataType::Int16 | DataType::Int32 => Some(0),
            DataType::Int64 => Some(1),
            DataType::Decimal128(..) => Some(2),
            _ => None,
        };
        let ranks: Option<Vec<i32>> = arguments.iter().map(rank).collect();
        match ranks.and_then(|ranks| ranks.into_iter().max()) {
            Some(0) => Ok(DataType::Int32),
            Some(1) => Ok(DataType::Int64),
            Some(_) => {
                let scale = arguments.iter().map(scale_of).max().unwrap_or(0);
                Ok(DataType::Decimal128(PRECISION_MAX, scale))
            }
            None => Err(undefined_function(self.name(), "it takes two integers or numerics").into()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returns = args.return_field.data_type();
        let computed = |arrays: &[ArrayRef]| match arrays {
            [left, right] => self.kind.of_rows(left, right, returns),
            _ => Err(SqlError::internal("a divisor of other than two numbers").into()),
        };
        make_scalar_function(computed, Vec::new())(&args.args)
    }
}

impl Kind {
    fn of_rows(self, left: &ArrayRef, right: &ArrayRef, returns: &DataType) -> Result<ArrayRef> {
        let scale = scale_of(returns);
        let (left, right) = (unscaled(left, scale)?, unscaled(right, scale)?);
        let limits = limits(returns);
        let rows = left.iter().zip(right.iter()).map(|pair| match pair {
            (Some(left), Some(right)) => match self.of(left, right).filter(|found| limits.contains(found)) {
                Some(found) => Ok(Some(found)),
                None => Err(out_of_range(returns).into()),
            },
            _ => Ok(None),
        });
        let found = rows.collect::<Result<Decimal128Array>>()?.with_precision_and_scale(PRECISION_MAX, scale)?;
        cast(&(Arc::new(found) as ArrayRef), returns)
    }

    fn of(self, left: i128, right: i128) -> Option<i128> {
        let divisor = divisor(left, right);
        match self {
            Self::Divisor => Some(divisor),
            Self::Multiple if divisor == 0 => Some(0),
            Self::Multiple => (left / divisor).checked_mul(right)?.checked_abs(),
        }
    }
}

/// By Euclid's algorithm.
fn divisor(left: i128, right: i128) -> i128 {
    let (mut left, mut right) = (left.abs(), right.abs());
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

/// The least and the greatest value of a type, in units of its last digit.
fn limits(data_type: &DataType) -> std::ops::RangeInclusive<i128> {
    match data_type {
        DataType::Int32 => i128::from(i32::MIN)..=i128::from(i32::MAX),
        DataType::Int64 => i128::from(i64::MIN)..=i128::from(i64::MAX),
        _ => 1 - decimal_limit(PRECISION_MAX)..=decimal_limit(PRECISION_MAX) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_and_multiples_have_no_sign() {
        assert_eq!([divisor(12, -18), divisor(0, -5), divisor(0, 0), divisor(7, 5)], [6, 5, 0, 1]);
        let multiple = |left, right| Kind::Multiple.of(left, right);
        assert_eq!([multiple(4, -6), multiple(0, 5), multiple(0, 0)], [Some(12), Some(0), Some(0)]);
        assert_eq!(multiple(i128::MAX, i128::MAX - 1), None);
    }
}
