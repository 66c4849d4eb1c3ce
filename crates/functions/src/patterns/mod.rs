//! Patterns of SIMILAR TO as regular expressions, which match the whole text.

mod pattern;
pub mod regexps;
mod replacement;
pub mod search;
pub mod similar;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use saki_catalog::SqlError;

/// What the function is called, as PostgreSQL's.
pub const SIMILAR: &str = "similar_to_escape";

/// The function; its second argument, if there is one, is the character that escapes others: a backslash otherwise.
pub fn function() -> ScalarUDF {
    let signature = Signature::one_of(vec![TypeSignature::String(1), TypeSignature::String(2)], Volatility::Immutable);
    ScalarUDF::from(Similar { signature })
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Similar {
    signature: Signature,
}

impl ScalarUDFImpl for Similar {
    fn name(&self) -> &str {
        SIMILAR
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(expressions, Vec::new())(&args.args)
    }
}

fn expressions(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = arrays.iter().map(|array| Ok(cast(array, &DataType::Utf8)?)).collect::<Result<Vec<_>>>()?;
    let found: StringArray = match &texts[..] {
        [patterns] => {
            patterns.as_string::<i32>().iter().map(|pattern| Some(expression(pattern?, Some('\\')))).collect()
        }
        [patterns, escapes] => {
            let pairs = patterns.as_string::<i32>().iter().zip(escapes.as_string::<i32>());
            let found = pairs.map(|(pattern, escape)| match (pattern, escape) {
                (Some(pattern), Some(escape)) => Ok(Some(expression(pattern, character(escape)?))),
                _ => Ok(None),
            });
            found.collect::<Result<_>>()?
        }
        _ => return Err(SqlError::internal("a pattern without a text").into()),
    };
    Ok(Arc::new(found))
}

/// # Errors
/// 22025 for more than one character.
fn character(escape: &str) -> Result<Option<char>> {
    let mut letters = escape.chars();
    match (letters.next(), letters.next()) {
        (letter, None) => Ok(letter),
        _ => Err(SqlError::data("invalid escape string")
            .code("22025")
            .hint("Escape string must be empty or one character.")
            .into()),
    }
}

/// A pattern as a regular expression: `%` is any text, `_` any character, what is escaped stands for itself.
fn expression(pattern: &str, escape: Option<char>) -> String {
    format!("(?s)^(?:{})$", translated(pattern, escape, Quantifiers::Greedy))
}

/// How much what is repeated matches: as much as it can, or as little.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quantifiers {
    Greedy,
    Lazy,
}

/// The same of a part of a pattern.
fn translated(pattern: &str, escape: Option<char>, quantifiers: Quantifiers) -> String {
    let least = if quantifiers == Quantifiers::Lazy { "?" } else { "" };
    let mut found = String::new();
    let mut letters = pattern.chars();
    let mut is_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            letter if Some(letter) == escape => found.extend(['\\'].into_iter().chain(letters.next())),
            '\\' => found.push_str("\\\\"),
            letter if is_class => {
                found.push(letter);
                is_class = letter != ']';
            }
            '[' => {
                found.push('[');
                is_class = true;
            }
            '%' => found.extend([".*", least]),
            '_' => found.push('.'),
            '(' => found.push_str("(?:"),
            '.' | '^' | '$' => found.extend(['\\', letter]),
            '*' | '+' | '?' | '}' => found.extend([letter.encode_utf8(&mut [0; 4]), least]),
            letter => found.push(letter),
        }
    }
    found
}
