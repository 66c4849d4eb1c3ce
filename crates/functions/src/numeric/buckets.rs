//! `width_bucket`: in which of some equal parts of a range a number lies.

use std::ops::Neg;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type};
use arrow_array::{Array, ArrayRef, Int32Array};
use arrow_buffer::i256;
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::thresholds;
use crate::arithmetic::{cast, out_of_range, scale_of, undefined_function, unscaled};
use saki_catalog::SqlError;

/// `width_bucket(operand, low, high, count)`: 0 below the range, `count + 1` from its end on. The bounds may be given
/// in falling order. `width_bucket(operand, bounds)` is that of parts whose bounds are an array.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(WidthBucket { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct WidthBucket {
    signature: Signature,
}

impl ScalarUDFImpl for WidthBucket {
    fn name(&self) -> &'static str {
        "width_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [operand, bounds] => thresholds::types(operand, bounds)
                .ok_or_else(|| undefined_function(self.name(), "it takes a value and an array of such").into()),
            other => self.return_type(other).map(|_| other.to_vec()),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if let [_, DataType::List(_)] = arguments {
            return Ok(DataType::Int32);
        }
        let is_number = |of: &DataType| of.is_numeric() || of.is_null();
        match arguments {
            [numbers @ .., count] if numbers.iter().all(is_number) && (count.is_integer() || count.is_null()) => {
                Ok(DataType::Int32)
            }
            _ => Err(undefined_function(self.name(), "it takes three numbers and an integer").into()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(buckets, Vec::new())(&args.args)
    }
}

fn buckets(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    if let [operands, bounds] = arrays {
        return thresholds::buckets(operands, bounds);
    }
    let [operand, low, high, count] = arrays else {
        return Err(SqlError::internal("width_bucket of other than four arguments").into());
    };
    let counts = cast(count, &DataType::Int32)?;
    let counts = counts.as_primitive::<Int32Type>();
    let numbers = [operand, low, high];
    let are_numerics = numbers.iter().any(|array| matches!(array.data_type(), DataType::Decimal128(..)))
        && !numbers.iter().any(|array| array.data_type().is_floating());
    let bucket: Box<dyn Fn(usize) -> Result<i32, SqlError>> = if are_numerics {
        let scale = numbers.iter().map(|array| scale_of(array.data_type())).max().unwrap_or(0);
        let [operand, low, high] = [unscaled(operand, scale)?, unscaled(low, scale)?, unscaled(high, scale)?];
        Box::new(move |row| of_numerics(operand.value(row), (low.value(row), high.value(row)), counts.value(row)))
    } else {
        let float = |array| cast(array, &DataType::Float64);
        let [operand, low, high] = [float(operand)?, float(low)?, float(high)?];
        let at = |array: &ArrayRef, row| array.as_primitive::<Float64Type>().value(row);
        Box::new(move |row| of_floats(at(&operand, row), (at(&low, row), at(&high, row)), counts.value(row)))
    };
    let rows = (0..operand.len()).map(|row| match arrays.iter().any(|array| array.is_null(row)) {
        true => Ok(None),
        false => Ok(Some(bucket(row)?)),
    });
    Ok(Arc::new(rows.collect::<Result<Int32Array>>()?))
}

fn of_floats(operand: f64, (low, high): (f64, f64), count: i32) -> Result<i32, SqlError> {
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(refused("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(refused("lower and upper bounds must be finite"));
    }
    bucket_of(operand, (low, high), count, |operand, low, high| {
        // Halves, where the width is no number any more.
        let unit = if (high - low).is_infinite() { 0.5 } else { 1.0 };
        let share = (operand * unit - low * unit) / (high * unit - low * unit);
        let bucket = (f64::from(count) * share) as i32;
        Ok(bucket.min(count - 1) + 1)
    })
}

/// Of numbers in units of one last digit.
fn of_numerics(operand: i128, bounds: (i128, i128), count: i32) -> Result<i32, SqlError> {
    bucket_of(operand, bounds, count, |operand, low, high| {
        let wide = |number| i256::from_i128(number);
        let (from_low, width) = (wide(operand) - wide(low), wide(high) - wide(low));
        // 39 digits times 10 of the count.
        let bucket = (from_low * wide(count.into()) / width).to_i128().and_then(|bucket| i32::try_from(bucket).ok());
        bucket.and_then(|bucket| bucket.checked_add(1)).ok_or_else(|| out_of_range(&DataType::Int32))
    })
}

/// The bucket of a number; `within` tells it for one between the bounds, which rise then.
fn bucket_of<N: Copy + PartialOrd + Neg<Output = N>>(
    operand: N,
    (low, high): (N, N),
    count: i32,
    within: impl FnOnce(N, N, N) -> Result<i32, SqlError>,
) -> Result<i32, SqlError> {
    check(count, low == high)?;
    // A falling range is a rising one of the opposite numbers.
    let (operand, low, high) = if low < high { (operand, low, high) } else { (-operand, -low, -high) };
    if operand < low {
        return Ok(0);
    }
    if operand >= high {
        return count.checked_add(1).ok_or_else(|| out_of_range(&DataType::Int32));
    }
    within(operand, low, high)
}

fn check(count: i32, is_empty: bool) -> Result<(), SqlError> {
    match (count <= 0, is_empty) {
        (true, _) => Err(refused("count must be greater than zero")),
        (_, true) => Err(refused("lower bound cannot equal upper bound")),
        _ => Ok(()),
    }
}

fn refused(what: &str) -> SqlError {
    SqlError::data(what).code("2201G")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_rise_and_fall() {
        let buckets = |low, high| {
            let of = |operand| of_floats(operand, (low, high), 4).unwrap();
            [-1.0, 0.0, 2.5, 7.4, 9.99, 10.0, 11.0].map(of)
        };
        assert_eq!(buckets(0.0, 10.0), [0, 1, 2, 3, 4, 5, 5]);
        assert_eq!(buckets(10.0, 0.0), [5, 5, 4, 2, 1, 1, 0]);
        let numeric = |operand| of_numerics(operand, (1000, 0), 4).unwrap();
        assert_eq!([-100, 0, 250, 740, 999, 1000, 1100].map(numeric), [5, 5, 4, 2, 1, 1, 0]);
    }

    #[test]
    fn the_whole_range_of_floats_has_a_width() {
        assert_eq!(of_floats(0.0, (f64::MIN, f64::MAX), 10).unwrap(), 6);
        assert_eq!(of_numerics(0, (1 - 10i128.pow(38), 10i128.pow(38) - 1), i32::MAX).unwrap(), 1_073_741_824);
    }

    #[test]
    fn what_has_no_buckets_is_refused() {
        for (low, high, count) in [(1.0, 1.0, 5), (0.0, 1.0, 0), (f64::NAN, 1.0, 5), (0.0, f64::INFINITY, 5)] {
            assert_eq!(of_floats(0.5, (low, high), count).unwrap_err().sqlstate(), "2201G");
        }
        assert_eq!(of_floats(2.0, (0.0, 1.0), i32::MAX).unwrap_err().sqlstate(), "22003");
    }
}
