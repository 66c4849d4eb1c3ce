//! Functions that give whole numerics: `sign` of a numeric, and `factorial`.

use std::sync::Arc;

use crate::arithmetic::undefined_function;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{ArrayRef, Decimal128Array};
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::functions::math;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use saki_base::types::{DECIMAL_PRECISION_MAX as PRECISION_MAX, decimal_limit};
use saki_catalog::SqlError;

const WHOLE: DataType = DataType::Decimal128(PRECISION_MAX, 0);

/// `sign` and `factorial`.
pub fn functions() -> [ScalarUDF; 2] {
    [Kind::Sign, Kind::Factorial]
        .map(|kind| ScalarUDF::from(Whole { kind, signature: Signature::user_defined(Volatility::Immutable) }))
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Sign,
    Factorial,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Whole {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Sign => "sign",
            Kind::Factorial => "factorial",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// There is `sign` of double precision, which whole numbers are taken for, and of numeric.
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let is_unknown = |of: &DataType| matches!(of, DataType::Null | DataType::Utf8);
        let taken = match (self.kind, arguments) {
            (Kind::Sign, [of @ DataType::Decimal128(..)]) => Some(of.clone()),
            (Kind::Sign, [of]) if of.is_numeric() || is_unknown(of) => Some(DataType::Float64),
            (Kind::Factorial, [of]) if of.is_signed_integer() || is_unknown(of) => Some(DataType::Int64),
            _ => None,
        };
        Ok(vec![taken.ok_or_else(|| undefined_function(self.name(), "it takes one number"))?])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match (self.kind, arguments) {
            (Kind::Sign, [DataType::Decimal128(..)]) | (Kind::Factorial, _) => WHOLE,
            (Kind::Sign, _) => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if *args.return_field.data_type() != WHOLE {
            return math::signum().invoke_with_args(args);
        }
        let kind = self.kind;
        let of_rows = move |arrays: &[ArrayRef]| -> Result<ArrayRef> {
            let numbers: Decimal128Array = match kind {
                Kind::Sign => {
                    arrays[0].as_primitive::<Decimal128Type>().iter().map(|of| of.map(i128::signum)).collect()
                }
                Kind::Factorial => {
                    let numbers = arrays[0].as_primitive::<Int64Type>().iter();
                    numbers.map(|of| of.map(factorial).transpose()).collect::<Result<_>>()?
                }
            };
            Ok(Arc::new(numbers.with_precision_and_scale(PRECISION_MAX, 0)?))
        };
        make_scalar_function(of_rows, Vec::new())(&args.args)
    }
}

/// # Errors
/// 22003 below zero, and where it has more digits than a numeric has here.
fn factorial(number: i64) -> Result<i128> {
    if number < 0 {
        return Err(SqlError::data("factorial of a negative number is undefined").code("22003").into());
    }
    let limit = decimal_limit(PRECISION_MAX);
    let product = (2..=i128::from(number))
        .try_fold(1_i128, |product, factor| product.checked_mul(factor).filter(|product| *product < limit));
    product.ok_or_else(|| SqlError::data("numeric out of range").code("22003").into())
}
