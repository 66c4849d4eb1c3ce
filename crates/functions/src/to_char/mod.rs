//! `to_char` of numbers and `to_number`, by PostgreSQL's template patterns; of times `to_char` is that of
//! [`saki_times`].

mod number;
mod read;
mod template;
mod to_number;
mod writer;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type};
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use self::number::Number;
use self::template::Template;
pub use self::to_number::{settled, to_number};
use saki_catalog::SqlError;

const NAME: &str = "to_char";

/// The function, under its name; there is none if there is none of times.
pub fn function() -> Option<ScalarUDF> {
    let of_times = saki_times::all().find(|function| function.name() == NAME)?;
    Some(ScalarUDF::from(ToChar { of_times: Arc::new(of_times), signature: Signature::any(2, Volatility::Stable) }))
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct ToChar {
    of_times: Arc<ScalarUDF>,
    signature: Signature,
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(of) if is_number(of) => Ok(DataType::Utf8),
            _ => self.of_times.return_type(types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.first() {
            Some(value) if is_number(&value.data_type()) => make_scalar_function(texts, Vec::new())(&args.args),
            _ => self.of_times.invoke_with_args(args),
        }
    }
}

fn texts(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let [numbers, templates] = arrays else { return Err(SqlError::internal("to_char takes two arguments").into()) };
    let templates = cast(templates, &DataType::Utf8)?;
    let mut last: Option<(String, Template)> = None;
    let mut write = |number: Number, text: &str| -> Result<String, SqlError> {
        if last.as_ref().is_none_or(|(known, _)| known != text) {
            last = Some((text.to_owned(), Template::read(text)?));
        }
        Ok(last.as_ref().map_or_else(String::new, |(_, template)| writer::written(template, &number)))
    };
    let templates = templates.as_string::<i32>().iter();
    let texts = if numbers.data_type().is_floating() {
        let floats = cast(numbers, &DataType::Float64)?;
        let pairs = floats.as_primitive::<Float64Type>().iter().zip(templates);
        pairs
            .map(|pair| match pair {
                (Some(float), Some(text)) => write(Number::Float(float), text).map(Some),
                _ => Ok(None),
            })
            .collect::<Result<StringArray, SqlError>>()?
    } else {
        let scale = if let DataType::Decimal128(_, scale) = numbers.data_type() { *scale } else { 0 };
        let decimals = cast(numbers, &DataType::Decimal128(38, scale))?;
        let pairs = decimals.as_primitive::<Decimal128Type>().iter().zip(templates);
        pairs
            .map(|pair| match pair {
                (Some(digits), Some(text)) => write(Number::Decimal(digits, scale), text).map(Some),
                _ => Ok(None),
            })
            .collect::<Result<StringArray, SqlError>>()?
    };
    Ok(Arc::new(texts))
}
