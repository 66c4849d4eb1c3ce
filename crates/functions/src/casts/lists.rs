//! Texts as arrays.

use arrow_array::ArrayRef;
use arrow_schema::DataType as Arrow;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_base::{DataType, Element};

use super::read::parsed;

/// A text as an array; one that is none is an error where it is met.
pub fn read(text: Expr, element: Element) -> Expr {
    ScalarUDF::from(Lists { element, signature: Signature::any(1, Volatility::Immutable) }).call(vec![text])
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Lists {
    element: Element,
    signature: Signature,
}

impl ScalarUDFImpl for Lists {
    fn name(&self) -> &str {
        "read_array"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(saki_exec::arrow_type(DataType::Array(self.element)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = DataType::Array(self.element);
        make_scalar_function(move |arrays: &[ArrayRef]| parsed(&arrays[0], data_type), Vec::new())(&args.args)
    }
}
