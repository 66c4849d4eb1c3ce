//! What floats are sorted by: -0 and 0 are equal, and so are all that are no numbers, which come last.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// A key of floats as one whose order by bits, which is the planner's, is PostgreSQL's. What is shown stays as it is.
pub fn sorted_floats(key: Expr) -> Expr {
    float_order().call(vec![key])
}

/// The function that makes such keys.
pub fn float_order() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(FloatOrder { signature: Signature::any(1, Volatility::Immutable) })));
    Arc::clone(&FUNCTION)
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct FloatOrder {
    signature: Signature,
}

impl ScalarUDFImpl for FloatOrder {
    fn name(&self) -> &'static str {
        "float_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|arrays: &[ArrayRef]| Ok(ordered(&arrays[0])), Vec::new())(&args.args)
    }
}

/// Values whose floats are sorted by their bits. Adding zero turns -0 into 0.
pub fn ordered(floats: &ArrayRef) -> ArrayRef {
    match floats.data_type() {
        DataType::Float32 => {
            let plain = |float: f32| if float.is_nan() { f32::NAN } else { float + 0.0 };
            Arc::new(floats.as_primitive::<Float32Type>().unary::<_, Float32Type>(plain))
        }
        DataType::Float64 => {
            let plain = |float: f64| if float.is_nan() { f64::NAN } else { float + 0.0 };
            Arc::new(floats.as_primitive::<Float64Type>().unary::<_, Float64Type>(plain))
        }
        _ => Arc::clone(floats),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, Float64Array};

    use super::*;

    #[test]
    fn zeros_are_equal_and_what_is_no_number_comes_last() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.0, -f64::NAN, -1.5]));
        let bits: Vec<u64> =
            ordered(&floats).as_primitive::<Float64Type>().iter().flatten().map(f64::to_bits).collect();
        assert_eq!(bits, [0.0, 0.0, f64::NAN, -1.5].map(f64::to_bits));
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![Some(-0.0), None]));
        let bits: Vec<Option<u32>> =
            ordered(&floats).as_primitive::<Float32Type>().iter().map(|float| float.map(f32::to_bits)).collect();
        assert_eq!(bits, [Some(0), None]);
    }
}
