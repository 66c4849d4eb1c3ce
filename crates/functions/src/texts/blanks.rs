//! Casts to char(n): so many characters, and none of the blanks at their end, which do not count.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// What the function is called, as PostgreSQL calls the type.
pub const BPCHAR: &str = "bpchar";

/// The function, of a text and a length.
pub fn function() -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Utf8, DataType::Int64], Volatility::Immutable);
    ScalarUDF::from(Blanks { signature })
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Blanks {
    signature: Signature,
}

impl ScalarUDFImpl for Blanks {
    fn name(&self) -> &str {
        BPCHAR
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let cut = |arrays: &[ArrayRef]| -> Result<ArrayRef> {
            let texts = cast(&arrays[0], &DataType::Utf8)?;
            let pairs = texts.as_string::<i32>().iter().zip(arrays[1].as_primitive::<Int64Type>());
            Ok(Arc::new(pairs.map(|(text, length)| Some(shortened(text?, length?))).collect::<StringArray>()))
        };
        make_scalar_function(cut, Vec::new())(&args.args)
    }
}

fn shortened(text: &str, length: i64) -> &str {
    let end = text.char_indices().nth(usize::try_from(length).unwrap_or(0)).map_or(text.len(), |(at, _)| at);
    text[..end].trim_end_matches(' ')
}
