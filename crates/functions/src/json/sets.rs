//! Functions that return sets, as lists that are unnested.

use saki_base::json::{Shape, shape};
use saki_catalog::SqlError;

use super::access::as_text;
use super::definition::Takes::{Json, Jsonb};
use super::definition::{Answer, Definition, Gives, Row, Takes, define, failed};

type Result<T> = std::result::Result<T, SqlError>;

/// A set-returning function, and its columns: what they are called in FROM, and the functions that give each as a list.
pub const SETS: &[(&str, &[(&str, &str)])] = &[
    ("json_array_elements", &[("value", "json_elements")]),
    ("jsonb_array_elements", &[("value", "jsonb_elements")]),
    ("json_array_elements_text", &[("value", "json_elements_text")]),
    ("jsonb_array_elements_text", &[("value", "jsonb_elements_text")]),
    ("json_object_keys", &[("", "json_keys")]),
    ("jsonb_object_keys", &[("", "jsonb_keys")]),
    ("json_each", &[("key", "json_each_keys"), ("value", "json_values")]),
    ("jsonb_each", &[("key", "jsonb_each_keys"), ("value", "jsonb_values")]),
    ("json_each_text", &[("key", "json_each_keys"), ("value", "json_values_text")]),
    ("jsonb_each_text", &[("key", "jsonb_each_keys"), ("value", "jsonb_values_text")]),
];

const JSON_ONLY: &[Takes] = &[Json];
const JSONB_ONLY: &[Takes] = &[Jsonb];

pub static FUNCTIONS: &[Definition] = &[
    define("json_elements", JSON_ONLY, Gives::Sames, elements),
    define("jsonb_elements", JSONB_ONLY, Gives::Sames, elements),
    define("json_elements_text", JSON_ONLY, Gives::Texts, element_texts),
    define("jsonb_elements_text", JSONB_ONLY, Gives::Texts, element_texts),
    define("json_keys", JSON_ONLY, Gives::Texts, |row| keys(row, "json_object_keys")),
    define("jsonb_keys", JSONB_ONLY, Gives::Texts, |row| keys(row, "jsonb_object_keys")),
    define("json_each_keys", JSON_ONLY, Gives::Texts, |row| keys(row, "json_each")),
    define("jsonb_each_keys", JSONB_ONLY, Gives::Texts, |row| keys(row, "jsonb_each")),
    define("json_values", JSON_ONLY, Gives::Sames, values),
    define("jsonb_values", JSONB_ONLY, Gives::Sames, values),
    define("json_values_text", JSON_ONLY, Gives::Texts, value_texts),
    define("jsonb_values_text", JSONB_ONLY, Gives::Texts, value_texts),
];

fn elements<'a>(row: &Row<'a>) -> Result<Answer<'a>> {
    Ok(Answer::List(array(row)?.into_iter().map(|element| Some(element.into())).collect()))
}

fn element_texts<'a>(row: &Row<'a>) -> Result<Answer<'a>> {
    let texts = array(row)?.into_iter().map(|element| as_text(Some(element.into())));
    Ok(Answer::List(texts.collect::<Result<_>>()?))
}

fn keys<'a>(row: &Row<'a>, name: &str) -> Result<Answer<'a>> {
    let message = match (shape(row.text(0)?).map_err(failed)?, name) {
        (Shape::Object(pairs), _) => {
            return Ok(Answer::List(pairs.into_iter().map(|(key, _)| Some(key)).collect()));
        }
        (_, "jsonb_each") => format!("cannot call {name} on a non-object"),
        (Shape::Array(_), "json_each") => "cannot deconstruct an array as an object".to_owned(),
        (Shape::Scalar(_), "json_each") => "cannot deconstruct a scalar".to_owned(),
        (Shape::Array(_), _) => format!("cannot call {name} on an array"),
        (Shape::Scalar(_), _) => format!("cannot call {name} on a scalar"),
    };
    Err(SqlError::data(message).code("22023"))
}

fn values<'a>(row: &Row<'a>) -> Result<Answer<'a>> {
    Ok(Answer::List(pair_values(row)?.into_iter().map(|value| Some(value.into())).collect()))
}

fn value_texts<'a>(row: &Row<'a>) -> Result<Answer<'a>> {
    let texts = pair_values(row)?.into_iter().map(|value| as_text(Some(value.into())));
    Ok(Answer::List(texts.collect::<Result<_>>()?))
}

/// Values of an object; what is none is refused with its keys.
fn pair_values<'a>(row: &Row<'a>) -> Result<Vec<&'a str>> {
    match shape(row.text(0)?).map_err(failed)? {
        Shape::Object(pairs) => Ok(pairs.into_iter().map(|(_, value)| value).collect()),
        _ => Ok(Vec::new()),
    }
}

/// # Errors
/// 22023 for what is no array.
fn array<'a>(row: &Row<'a>) -> Result<Vec<&'a str>> {
    let message = match (shape(row.text(0)?).map_err(failed)?, row.is_json(0)) {
        (Shape::Array(elements), _) => return Ok(elements),
        (Shape::Object(_), true) => "cannot call json_array_elements on a non-array",
        (Shape::Scalar(_), true) => "cannot call json_array_elements on a scalar",
        (Shape::Object(_), false) => "cannot extract elements from an object",
        (Shape::Scalar(_), false) => "cannot extract elements from a scalar",
    };
    Err(SqlError::data(message).code("22023"))
}
