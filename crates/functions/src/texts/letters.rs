//! `upper`, `lower` and `initcap`, letter by letter: what several letters would be, as of `ß`, stays.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::string;
use datafusion::functions::unicode;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// The functions.
pub fn functions() -> [ScalarUDF; 3] {
    [string::upper(), string::lower(), unicode::initcap()].map(|of_ascii| {
        let write = match of_ascii.name() {
            "upper" => upper,
            "lower" => lower,
            _ => initcap,
        };
        let signature = Signature::string(1, Volatility::Immutable);
        ScalarUDF::from(Letters { of_ascii, write, signature })
    })
}

#[derive(Debug)]
struct Letters {
    /// The planner's, which is as good for texts of ASCII, and faster.
    of_ascii: Arc<ScalarUDF>,
    write: fn(&str) -> String,
    signature: Signature,
}

impl PartialEq for Letters {
    fn eq(&self, other: &Self) -> bool {
        self.of_ascii == other.of_ascii
    }
}

impl Eq for Letters {}

impl std::hash::Hash for Letters {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.of_ascii.hash(state);
    }
}

impl ScalarUDFImpl for Letters {
    fn name(&self) -> &str {
        self.of_ascii.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_ascii = match &args.args[..] {
            [ColumnarValue::Array(texts)] => {
                texts.as_string_opt::<i32>().is_some_and(arrow_array::GenericStringArray::is_ascii)
            }
            _ => false,
        };
        if is_ascii {
            return self.of_ascii.invoke_with_args(args);
        }
        let written = |arrays: &[ArrayRef]| -> Result<ArrayRef> {
            let texts = cast(&arrays[0], &DataType::Utf8)?;
            let texts = texts.as_string::<i32>().iter().map(|text| text.map(self.write));
            Ok(Arc::new(texts.collect::<StringArray>()))
        };
        make_scalar_function(written, Vec::new())(&args.args)
    }
}

fn upper(text: &str) -> String {
    text.chars().map(upper_of).collect()
}

fn lower(text: &str) -> String {
    text.chars().map(lower_of).collect()
}

/// A word is letters and digits.
fn initcap(text: &str) -> String {
    let mut in_word = false;
    let letters = text.chars().map(|letter| {
        let written = if in_word { lower_of(letter) } else { upper_of(letter) };
        in_word = letter.is_alphanumeric();
        written
    });
    letters.collect()
}

fn upper_of(letter: char) -> char {
    let mut all = letter.to_uppercase();
    all.next().filter(|_| all.next().is_none()).unwrap_or(letter)
}

/// Of `İ` it is the `i` without its mark.
fn lower_of(letter: char) -> char {
    letter.to_lowercase().next().unwrap_or(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_letter_becomes_one() {
        assert_eq!((upper("ßaŉﬁǆ").as_str(), lower("İΑΣ").as_str()), ("ßAŉﬁǄ", "iασ"));
        assert_eq!(initcap("ßA éCOLE o'neil 2ND"), "ßa École O'Neil 2nd");
    }
}
