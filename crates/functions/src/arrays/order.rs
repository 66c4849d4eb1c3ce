//! The order of arrays: the planner's own takes NULL for the least element, and tells -0 from 0.

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, BinaryArray, StringArray};
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
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| ArrayOrder::function(false));
    FUNCTION.call(vec![array])
}

/// The same as text, two digits a byte: the planner knows no frames of bytes.
pub fn text_key(array: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| ArrayOrder::function(true));
    FUNCTION.call(vec![array])
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct ArrayOrder {
    is_text: bool,
    signature: Signature,
}

impl ArrayOrder {
    fn function(is_text: bool) -> ScalarUDF {
        ScalarUDF::from(Self { is_text, signature: Signature::any(1, Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for ArrayOrder {
    fn name(&self) -> &'static str {
        if self.is_text { "array_order_text" } else { ARRAY_ORDER }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.is_text { DataType::Utf8 } else { DataType::Binary })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_text = self.is_text;
        make_scalar_function(move |arrays: &[ArrayRef]| keys(&arrays[0], is_text), Vec::new())(&args.args)
    }
}

fn keys(arrays: &ArrayRef, is_text: bool) -> Result<ArrayRef> {
    let held = lists::held(arrays).ok_or_else(|| SqlError::internal("arrays that no column has are not ordered"))?;
    let held = held.map_err(SqlError::data)?;
    if !is_text {
        return Ok(Arc::new(held.iter().collect::<BinaryArray>()));
    }
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(Arc::new(held.iter().map(|bytes| bytes.map(digits)).collect::<StringArray>()))
}
