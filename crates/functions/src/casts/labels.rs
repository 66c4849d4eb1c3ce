//! Texts as labels of an enumeration.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::DataType as Arrow;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use saki_base::{DataType, Enumeration, Value};
use saki_catalog::SqlError;
use saki_catalog::convert::array_of;

/// A text as a label; one that is none is an error where it is met.
pub fn read(text: Expr, of: Enumeration) -> Expr {
    let read = Read { signature: Signature::any(1, Volatility::Immutable), of, state: of.number() };
    ScalarUDF::from(read).call(vec![text])
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Read {
    signature: Signature,
    of: Enumeration,
    /// That of the enumeration: another has other labels.
    state: u32,
}

impl ScalarUDFImpl for Read {
    fn name(&self) -> &str {
        "enum_in"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(saki_exec::arrow_type(DataType::Enum(self.of)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = DataType::Enum(self.of);
        let read = move |arrays: &[ArrayRef]| -> Result<ArrayRef> {
            let texts = cast(&arrays[0], &Arrow::Utf8)?;
            let value = |text: Option<&str>| match text {
                None => Ok(Value::Null),
                Some(text) => Value::parse(of, text).map_err(SqlError::from),
            };
            let values = texts.as_string::<i32>().iter().map(value).collect::<std::result::Result<Vec<_>, _>>()?;
            Ok(Arc::clone(&array_of(of, &values)))
        };
        make_scalar_function(read, Vec::new())(&args.args)
    }
}
