//! Bytes as text and back, `encode` and `decode`, and characters by their numbers, `chr`.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use saki_base::{DataType as Stored, Value};

use saki_catalog::SqlError;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line of base64.
const LINE: usize = 76;

/// The functions, under the names that they replace.
pub fn functions() -> [ScalarUDF; 3] {
    let exact = |types: &[DataType]| Signature::exact(types.to_vec(), Volatility::Immutable);
    [
        // A text without a type is one of bytes.
        (Kind::Encode, Signature::any(2, Volatility::Immutable)),
        (Kind::Decode, exact(&[DataType::Utf8, DataType::Utf8])),
        (Kind::Chr, exact(&[DataType::Int64])),
    ]
    .map(|(kind, signature)| ScalarUDF::from(Encoding { kind, signature }))
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Encode,
    Decode,
    Chr,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Encoding {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Encoding {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Encode => "encode",
            Kind::Decode => "decode",
            Kind::Chr => "chr",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.kind == Kind::Decode { DataType::Binary } else { DataType::Utf8 })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let found = |arrays: &[ArrayRef]| -> Result<ArrayRef> {
            match (self.kind, arrays) {
                (Kind::Encode, [values, formats]) => encoded_all(values, formats),
                (Kind::Decode, [texts, formats]) => decoded_all(texts, formats),
                (Kind::Chr, [numbers]) => characters(numbers),
                _ => Err(SqlError::internal(format!("{} of {} arguments", self.name(), arrays.len())).into()),
            }
        };
        make_scalar_function(found, Vec::new())(&args.args)
    }
}

fn encoded_all(values: &ArrayRef, formats: &ArrayRef) -> Result<ArrayRef> {
    let formats = cast(formats, &DataType::Utf8)?;
    let formats = formats.as_string::<i32>().iter();
    let texts = match values.data_type() {
        DataType::Binary => {
            let both = |(bytes, format): (Option<&[u8]>, Option<&str>)| {
                bytes.zip(format).map(|(bytes, format)| encoded(bytes, format)).transpose()
            };
            values.as_binary::<i32>().iter().zip(formats).map(both).collect::<Result<StringArray>>()
        }
        _ => {
            let values = cast(values, &DataType::Utf8)?;
            let both = |(text, format): (Option<&str>, Option<&str>)| {
                text.zip(format).map(|(text, format)| encoded(&bytea(text)?, format)).transpose()
            };
            values.as_string::<i32>().iter().zip(formats).map(both).collect::<Result<StringArray>>()
        }
    };
    Ok(Arc::new(texts?))
}

fn decoded_all(texts: &ArrayRef, formats: &ArrayRef) -> Result<ArrayRef> {
    let mut values = BinaryBuilder::new();
    for (text, format) in texts.as_string::<i32>().iter().zip(formats.as_string::<i32>()) {
        match (text, format) {
            (Some(text), Some(format)) => values.append_value(decoded(text, format)?),
            _ => values.append_null(),
        }
    }
    Ok(Arc::new(values.finish()))
}

/// # Errors
/// 22023 for a format that there is not.
fn encoded(bytes: &[u8], format: &str) -> Result<String> {
    let mut text = String::new();
    match format.to_ascii_lowercase().as_str() {
        "hex" => {
            for byte in bytes {
                let _ = write!(text, "{byte:02x}");
            }
        }
        "escape" => {
            for byte in bytes {
                let _ = match byte {
                    b'\\' => write!(text, "\\\\"),
                    0 | 128.. => write!(text, "\\{byte:03o}"),
                    byte => write!(text, "{}", char::from(*byte)),
                };
            }
        }
        "base64" => {
            let mut column = 0;
            for group in bytes.chunks(3) {
                let of = |at: usize| usize::from(group.get(at).copied().unwrap_or(0));
                let bits = of(0) << 16 | of(1) << 8 | of(2);
                for (at, shift) in [18, 12, 6, 0].into_iter().enumerate() {
                    text.push(if at <= group.len() { char::from(BASE64[bits >> shift & 63]) } else { '=' });
                }
                column += 4;
                if column >= LINE {
                    text.push('\n');
                    column = 0;
                }
            }
        }
        _ => return Err(unknown_format(format)),
    }
    Ok(text)
}

/// # Errors
/// 22023 for a format that there is not, and for text that is not of it.
fn decoded(text: &str, format: &str) -> Result<Vec<u8>> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => {
            let digits: String = text.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
            let refused = |message: String| SqlError::data(message).code("22023");
            if let Some(other) = digits.chars().find(|digit| !digit.is_ascii_hexdigit()) {
                return Err(refused(format!("invalid hexadecimal digit: \"{other}\"")).into());
            }
            if digits.len() % 2 == 1 {
                return Err(refused("invalid hexadecimal data: odd number of digits".to_owned()).into());
            }
            bytea(&format!("\\x{digits}"))
        }
        "escape" => bytea(text),
        "base64" => from_base64(text),
        _ => Err(unknown_format(format)),
    }
}

/// The bytes that a text stands for.
pub(crate) fn bytea(text: &str) -> Result<Vec<u8>> {
    match Value::parse(Stored::Bytea, text).map_err(SqlError::from)? {
        Value::Bytea(bytes) => Ok(bytes),
        _ => Err(SqlError::internal("bytes that are none").into()),
    }
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let invalid =
        |message: String| -> datafusion::common::DataFusionError { SqlError::data(message).code("22023").into() };
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    let mut padding = 0;
    for letter in text.bytes().filter(|letter| !b" \t\r\n".contains(letter)) {
        let value = match (letter, BASE64.iter().position(|known| *known == letter)) {
            (b'=', _) => {
                padding += 1;
                continue;
            }
            (_, Some(value)) if padding == 0 => value as u32,
            _ => {
                let letter = char::from(letter);
                return Err(invalid(format!("invalid symbol \"{letter}\" found while decoding base64 sequence")));
            }
        };
        bits = bits << 6 | value;
        count += 1;
        if count == 4 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    match (count, padding) {
        (0, 0) => {}
        (2, 2) => bytes.push((bits >> 4) as u8),
        (3, 1) => bytes.extend_from_slice(&((bits >> 2) as u16).to_be_bytes()),
        _ => return Err(invalid("invalid base64 end sequence".to_owned())),
    }
    Ok(bytes)
}

fn unknown_format(format: &str) -> datafusion::common::DataFusionError {
    SqlError::data(format!("unrecognized encoding: \"{format}\""))
        .code("22023")
        .hint("the encodings are hex, base64 and escape")
        .into()
}

fn characters(numbers: &ArrayRef) -> Result<ArrayRef> {
    let texts = numbers.as_primitive::<Int64Type>().iter().map(|number| number.map(character).transpose());
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

/// # Errors
/// 54000 for what no text can hold, 22023 for a number below zero.
fn character(number: i64) -> Result<String> {
    let refused = |code, message: String| Err(SqlError::data(message).code(code).into());
    match u32::try_from(number).ok().map(char::from_u32) {
        Some(Some('\0')) => refused("54000", "null character not permitted".to_owned()),
        Some(Some(letter)) => Ok(letter.to_string()),
        _ if number < 0 => refused("22023", "character number must be positive".to_owned()),
        _ if number > 0x10_FFFF => refused("54000", format!("requested character too large for encoding: {number}")),
        _ => refused("54000", format!("requested character not valid for encoding: {number}")),
    }
}
