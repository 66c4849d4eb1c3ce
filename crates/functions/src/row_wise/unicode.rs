//! Normalization forms of Unicode (UAX 15).

use datafusion::common::{Result, ScalarValue};
use saki_catalog::SqlError;
use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfd, is_nfkc, is_nfkd};

use super::definition::Takes::Text;
use super::definition::{Definition, Gives, define, text};

pub const FUNCTIONS: &[Definition] = &[
    define("normalize", &[Text, Text], Gives::Text, |values| {
        let letters = text(values, 0).chars();
        let normal: String = match form(values)? {
            Form::C => letters.nfc().collect(),
            Form::D => letters.nfd().collect(),
            Form::Kc => letters.nfkc().collect(),
            Form::Kd => letters.nfkd().collect(),
        };
        Ok(ScalarValue::Utf8(Some(normal)))
    })
    .with_optional(1),
    define("is_normalized", &[Text, Text], Gives::Truth, |values| {
        let of = text(values, 0);
        let is_normal = match form(values)? {
            Form::C => is_nfc(of),
            Form::D => is_nfd(of),
            Form::Kc => is_nfkc(of),
            Form::Kd => is_nfkd(of),
        };
        Ok(ScalarValue::Boolean(Some(is_normal)))
    })
    .with_optional(1),
];

enum Form {
    C,
    D,
    Kc,
    Kd,
}

fn form(values: &[ScalarValue]) -> Result<Form> {
    if values.len() < 2 {
        return Ok(Form::C);
    }
    Ok(match text(values, 1).to_ascii_uppercase().as_str() {
        "NFC" => Form::C,
        "NFD" => Form::D,
        "NFKC" => Form::Kc,
        "NFKD" => Form::Kd,
        _ => {
            let message = format!("invalid normalization form: {}", text(values, 1));
            return Err(SqlError::data(message).code("22023").into());
        }
    })
}
