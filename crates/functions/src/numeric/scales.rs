//! `scale`, `min_scale` and `trim_scale`: digits behind the point. A column has as many in all of its rows, and so has
//! what `trim_scale` makes of one; of a constant they are taken off.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::arithmetic::{scale_of, undefined_function, unscaled};
use saki_catalog::SqlError;

/// What takes zeros off the end, as PostgreSQL calls it.
pub const TRIM: &str = "trim_scale";

/// The functions.
pub fn functions() -> [ScalarUDF; 3] {
    [Kind::Scale, Kind::MinScale, Kind::Trim]
        .map(|kind| ScalarUDF::from(Scales { kind, signature: Signature::user_defined(Volatility::Immutable) }))
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Scale,
    MinScale,
    Trim,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Scales {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Scales {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Scale => "scale",
            Kind::MinScale => "min_scale",
            Kind::Trim => TRIM,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [of @ DataType::Decimal128(..)] => Ok(vec![of.clone()]),
            [of] if of.is_signed_integer() => Ok(vec![DataType::Decimal128(19, 0)]),
            [DataType::Null | DataType::Utf8] => Ok(vec![DataType::Decimal128(38, 10)]),
            _ => Err(undefined_function(self.name(), "it takes a numeric").into()),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Trim => arguments.first().cloned().unwrap_or(DataType::Null),
            _ => DataType::Int32,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let kind = self.kind;
        make_scalar_function(move |arrays: &[ArrayRef]| scales(kind, arrays), Vec::new())(&args.args)
    }
}

fn scales(kind: Kind, arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let [numbers] = arrays else { return Err(SqlError::internal("a scale of other than one number").into()) };
    let scale = scale_of(numbers.data_type());
    let count = |number: i128| match kind {
        Kind::Scale => i32::from(scale),
        _ => least(number, scale.into()),
    };
    Ok(match kind {
        Kind::Trim => Arc::clone(numbers),
        _ => Arc::new(unscaled(numbers, scale)?.iter().map(|number| number.map(count)).collect::<Int32Array>()),
    })
}

/// Digits behind the point without the zeros at their end.
fn least(mut number: i128, mut scale: i32) -> i32 {
    while scale > 0 && number % 10 == 0 {
        (number, scale) = (number / 10, scale - 1);
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_the_end_do_not_count() {
        assert_eq!([least(84_100, 4), least(0, 3), least(-5, 0), least(1, 2), least(100, 1)], [2, 0, 0, 2, 0]);
    }
}
