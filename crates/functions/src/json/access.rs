//! Parts of values: `->`, `->>`, `#>`, `#>>`, and what a value is.

use std::borrow::Cow;

use saki_base::json::{Kind, Shape, kind, shape, unquoted};
use saki_catalog::SqlError;

use super::definition::Takes::{Either, Json, Place, Texts};
use super::definition::{Answer, Definition, Gives, Row, define, failed};

type Result<T> = std::result::Result<T, SqlError>;

/// `->`, called as PostgreSQL's function behind it.
pub static GET: Definition = define("json_get", &[Either, Place], Gives::Same, |row| Ok(got(row)?.into()));
/// `->>`
pub static GET_TEXT: Definition =
    define("json_get_text", &[Either, Place], Gives::Text, |row| Ok(as_text(got(row)?)?.into()));
/// `#>`
pub static AT: Definition = define("json_at_path", &[Either, Texts], Gives::Same, |row| Ok(found(row, false)?.into()));
/// `#>>`
pub static AT_TEXT: Definition =
    define("json_at_path_text", &[Either, Texts], Gives::Text, |row| Ok(as_text(found(row, false)?)?.into()));

const fn path(name: &'static str, gives: Gives, text: bool) -> Definition {
    let body: super::definition::Body = match text {
        true => |row| Ok(as_text(found(row, true)?)?.into()),
        false => |row| Ok(found(row, true)?.into()),
    };
    Definition { name, takes: &[Either, Texts], variadic: true, gives, body }
}

pub static FUNCTIONS: &[Definition] = &[
    path("json_extract_path", Gives::Same, false),
    path("jsonb_extract_path", Gives::Same, false),
    path("json_extract_path_text", Gives::Text, true),
    path("jsonb_extract_path_text", Gives::Text, true),
    define("json_typeof", &[Json], Gives::Text, |row| Ok(Answer::text(kind(row.text(0)?).name()))),
    define("jsonb_typeof", &[Either], Gives::Text, |row| Ok(Answer::text(kind(row.text(0)?).name()))),
    define("json_array_length", &[Json], Gives::Integer, length),
    define("jsonb_array_length", &[Either], Gives::Integer, length),
];

/// # Errors
/// 22023 for what is no array.
fn length<'a>(row: &Row<'a>) -> Result<Answer<'a>> {
    let what = match shape(row.text(0)?).map_err(failed)? {
        Shape::Array(elements) => return Ok(Answer::Integer(elements.len() as i32)),
        Shape::Object(_) => "a non-array",
        Shape::Scalar(_) => "a scalar",
    };
    Err(SqlError::data(format!("cannot get array length of {what}")).code("22023"))
}

fn got<'a>(row: &Row<'a>) -> Result<Option<Cow<'a, str>>> {
    let value = row.text(0)?;
    let part = match row.integer(1) {
        Some(place) => element(value, place)?,
        None => field(value, row.text(1)?)?,
    };
    Ok(part.map(Cow::Borrowed))
}

fn found<'a>(row: &Row<'a>, variadic: bool) -> Result<Option<Cow<'a, str>>> {
    let mut value = row.text(0)?.trim_ascii();
    for step in row.texts(1, variadic)? {
        let Some(part) = (match step {
            Some(step) => at_step(value, &step)?,
            None => None,
        }) else {
            return Ok(None);
        };
        value = part;
    }
    Ok(Some(Cow::Borrowed(value)))
}

/// The value that a step of a path leads to: of an array, by its place.
pub fn at_step<'t>(value: &'t str, step: &str) -> Result<Option<&'t str>> {
    match kind(value) {
        Kind::Object => field(value, step),
        Kind::Array => match step.trim_ascii().parse() {
            Ok(place) => element(value, place),
            Err(_) => Ok(None),
        },
        _ => Ok(None),
    }
}

/// The value of a key, the last one that is given for it.
fn field<'t>(value: &'t str, key: &str) -> Result<Option<&'t str>> {
    if kind(value) != Kind::Object {
        return Ok(None);
    }
    match shape(value).map_err(failed)? {
        Shape::Object(pairs) => Ok(pairs.into_iter().rfind(|(of, _)| of == key).map(|(_, value)| value)),
        _ => Ok(None),
    }
}

/// The element at a place from 0 on, or below 0 from the end.
fn element(value: &str, place: i64) -> Result<Option<&str>> {
    if kind(value) != Kind::Array {
        return Ok(None);
    }
    match shape(value).map_err(failed)? {
        Shape::Array(elements) => Ok(placed(place, elements.len()).and_then(|at| elements.get(at).copied())),
        _ => Ok(None),
    }
}

/// A place that may be counted from the end; `None` before the first.
pub fn placed(place: i64, count: usize) -> Option<usize> {
    usize::try_from(if place < 0 { place.checked_add(count as i64)? } else { place }).ok()
}

/// A value as `->>` gives it: a string without its quotes, NULL for null.
///
/// # Errors
/// 22P05 for a string that no text holds.
pub fn as_text(value: Option<Cow<'_, str>>) -> Result<Option<Cow<'_, str>>> {
    let Some(value) = value else { return Ok(None) };
    match kind(&value) {
        Kind::Null => Ok(None),
        Kind::String => Ok(Some(match value {
            Cow::Borrowed(text) => unquoted(text.trim_ascii()).map_err(failed)?,
            Cow::Owned(text) => Cow::Owned(unquoted(text.trim_ascii()).map_err(failed)?.into_owned()),
        })),
        _ => Ok(Some(value)),
    }
}
