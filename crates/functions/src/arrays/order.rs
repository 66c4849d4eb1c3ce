//! The order of arrays: the planner's own takes NULL for the least element, and tells -0 from 0.

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, BinaryArray};
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_catalog::SqlError;
use saki_exec::{ARRAY_ORDER, lists};

/// An array as the bytes that are ordered and equal as PostgreSQL's arrays are ([`saki_base::array`]).
pub fn key(array: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> =
        LazyLock::new(|| ScalarUDF::from(ArrayOrder { signature: Signature::any(1, Volatility::Immutable) }));
    FUNCTION.call(vec![array])
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct ArrayOrder {
    signature: Signature,
}

impl ScalarUDFImpl for ArrayOrder {
    fn name(&self) -> &'static str {
        ARRAY_ORDER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|arrays: &[ArrayRef]| keys(&arrays[0]), Vec::new())(&args.args)
    }
}

fn keys(arrays: &ArrayRef) -> Result<ArrayRef> {
    let held = lists::held(arrays).ok_or_else(|| SqlError::internal("arrays that no column has are not ordered"))?;
    Ok(Arc::new(held.map_err(SqlError::data)?.iter().collect::<BinaryArray>()))
}
