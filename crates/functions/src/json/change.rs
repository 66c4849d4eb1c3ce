//! Values made of values: `||`, `-`, `#-`, `jsonb_set` and their like.

use std::borrow::Cow;

use saki_base::json::{DEPTH_MAX, JsonFault, Kind, Pairs, Shape, kind, shape, write_quoted};
use saki_base::stack::with_room;
use saki_catalog::SqlError;

use super::access::placed;
use super::definition::Takes::{Either, Integer, Jsonb, Text, Texts, Truth};
use super::definition::{Answer, Definition, Gives, Row, define, failed};

type Result<T> = std::result::Result<T, SqlError>;

pub static FUNCTIONS: &[Definition] = &[
    define("jsonb_concat", &[Jsonb, Jsonb], Gives::Jsonb, |row| Ok(Answer::text(joined(row.text(0)?, row.text(1)?)?))),
    define("jsonb_delete_key", &[Jsonb, Text], Gives::Jsonb, |row| {
        let key = row.text(1)?.to_owned();
        Ok(Answer::text(without(row.text(0)?, &[Some(key)])?))
    }),
    define("jsonb_delete_keys", &[Jsonb, Texts], Gives::Jsonb, |row| {
        Ok(Answer::text(without(row.text(0)?, &row.texts(1, false)?)?))
    }),
    define("jsonb_delete_element", &[Jsonb, Integer], Gives::Jsonb, |row| {
        Ok(Answer::text(without_element(row.text(0)?, row.integer(1).unwrap_or(0))?))
    }),
    define("jsonb_delete_path", &[Jsonb, Texts], Gives::Jsonb, |row| {
        let (value, path) = (row.text(0)?, row.texts(1, false)?);
        refuse_scalar(value, "delete path in")?;
        Ok(Answer::text(with_room(|| changed(value, &path, 0, &Change::Delete))?))
    }),
    define("jsonb_set", &[Jsonb, Texts, Jsonb, Truth], Gives::Jsonb, |row| {
        let change = Change::Set { value: row.text(2)?, create: row.truth(3).unwrap_or(true) };
        let (value, path) = (row.text(0)?, row.texts(1, false)?);
        refuse_scalar(value, "set path in")?;
        Ok(Answer::text(with_room(|| changed(value, &path, 0, &change))?))
    }),
    define("jsonb_insert", &[Jsonb, Texts, Jsonb, Truth], Gives::Jsonb, |row| {
        let change = Change::Insert { value: row.text(2)?, after: row.truth(3).unwrap_or(false) };
        let (value, path) = (row.text(0)?, row.texts(1, false)?);
        refuse_scalar(value, "set path in")?;
        Ok(Answer::text(with_room(|| changed(value, &path, 0, &change))?))
    }),
    define("jsonb_pretty", &[Jsonb], Gives::Text, |row| Ok(Answer::text(pretty(row.text(0)?)))),
    define("json_strip_nulls", &[Either], Gives::Same, stripped),
    define("jsonb_strip_nulls", &[Either], Gives::Same, stripped),
];

/// # Errors
/// 22023 for a scalar.
fn refuse_scalar(value: &str, what: &str) -> Result<()> {
    match kind(value).is_scalar() {
        true => Err(SqlError::data(format!("cannot {what} scalar")).code("22023")),
        false => Ok(()),
    }
}

/// An array of texts that are in the one form.
pub fn write_array<T: AsRef<str>>(elements: impl IntoIterator<Item = T>, out: &mut String) {
    out.push('[');
    for (at, element) in elements.into_iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(element.as_ref());
    }
    out.push(']');
}

fn array<T: AsRef<str>>(elements: impl IntoIterator<Item = T>) -> String {
    let mut out = String::new();
    write_array(elements, &mut out);
    out
}

fn object<'t>(pairs: impl IntoIterator<Item = (Cow<'t, str>, &'t str)>) -> String {
    let (mut out, mut all) = (String::new(), Pairs::default());
    pairs.into_iter().for_each(|(key, value)| all.push(key, value));
    all.write(&mut out);
    out
}

/// Two objects as one, or else the elements of both: what is no array is one element.
fn joined(left: &str, right: &str) -> Result<String> {
    let (left_shape, right_shape) = (shape(left).map_err(failed)?, shape(right).map_err(failed)?);
    if let (Shape::Object(left), Shape::Object(right)) = (&left_shape, &right_shape) {
        return Ok(object(left.iter().chain(right).cloned()));
    }
    let elements = |value, shape| match shape {
        Shape::Array(elements) => elements,
        _ => vec![value],
    };
    let elements = [elements(left, left_shape), elements(right, right_shape)].concat();
    Ok(array(elements))
}

/// # Errors
/// 22023 for a scalar.
fn without(value: &str, keys: &[Option<String>]) -> Result<String> {
    refuse_scalar(value, "delete from")?;
    let is_named = |key: &str| keys.iter().flatten().any(|named| named == key);
    Ok(match shape(value).map_err(failed)? {
        Shape::Object(pairs) => object(pairs.into_iter().filter(|(key, _)| !is_named(key))),
        Shape::Array(elements) => {
            let quoted: Vec<String> = keys.iter().flatten().map(|key| quoted(key)).collect();
            array(elements.into_iter().filter(|element| !quoted.iter().any(|key| key == element)))
        }
        Shape::Scalar(scalar) => scalar.to_owned(),
    })
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_quoted(text, &mut out);
    out
}

/// # Errors
/// 22023 for what is no array.
fn without_element(value: &str, place: i64) -> Result<String> {
    refuse_scalar(value, "delete from")?;
    match shape(value).map_err(failed)? {
        Shape::Array(mut elements) => {
            if let Some(at) = placed(place, elements.len()).filter(|at| *at < elements.len()) {
                elements.remove(at);
            }
            Ok(array(elements))
        }
        _ => Err(SqlError::data("cannot delete from object using integer index").code("22023")),
    }
}

/// What is done at the end of a path.
enum Change<'v> {
    Delete,
    Set { value: &'v str, create: bool },
    Insert { value: &'v str, after: bool },
}

/// A value with a change at the end of a path; as it is where the path leads nowhere. `step` of its steps are gone.
///
/// # Errors
/// 22P02 for a step into an array that is no integer, 22004 for a NULL step.
fn changed(value: &str, path: &[Option<String>], step: usize, change: &Change<'_>) -> Result<String> {
    if step >= DEPTH_MAX {
        return Err(failed(JsonFault::TooDeep));
    }
    let Some(key) = path.get(step) else { return Ok(value.to_owned()) };
    let is_last = step + 1 == path.len();
    let key = key
        .as_ref()
        .ok_or_else(|| SqlError::data(format!("path element at position {} is null", step + 1)).code("22004"))?;
    match shape(value).map_err(failed)? {
        Shape::Object(mut pairs) => {
            let at = pairs.iter().position(|(of, _)| of == key);
            let inner;
            match (at, is_last) {
                (Some(at), false) => {
                    inner = changed(pairs[at].1, path, step + 1, change)?;
                    pairs[at].1 = &inner;
                }
                (at, true) => change_pair(&mut pairs, at, key, change)?,
                (None, false) => {}
            }
            Ok(object(pairs))
        }
        Shape::Array(mut elements) => {
            let place: i64 = key.trim_ascii().parse().map_err(|_| {
                SqlError::data(format!("path element at position {} is not an integer: \"{key}\"", step + 1))
                    .code("22P02")
            })?;
            let inner;
            if is_last {
                change_element(&mut elements, place, change);
            } else if let Some(at) = placed(place, elements.len()).filter(|at| *at < elements.len()) {
                inner = changed(elements[at], path, step + 1, change)?;
                elements[at] = &inner;
            }
            Ok(array(elements))
        }
        Shape::Scalar(scalar) => Ok(scalar.to_owned()),
    }
}

/// # Errors
/// 22023 for a key that is there and is to be inserted.
fn change_pair<'t>(
    pairs: &mut Vec<(Cow<'t, str>, &'t str)>,
    at: Option<usize>,
    key: &'t str,
    change: &Change<'t>,
) -> Result<()> {
    match (change, at) {
        (Change::Delete, Some(at)) => drop(pairs.remove(at)),
        (Change::Set { value, .. }, Some(at)) => pairs[at].1 = value,
        (Change::Set { value, create: true } | Change::Insert { value, .. }, None) => pairs.push((key.into(), value)),
        (Change::Insert { .. }, Some(_)) => {
            return Err(SqlError::data("cannot replace existing key")
                .code("22023")
                .hint("Try using the function jsonb_set to replace key value."));
        }
        _ => {}
    }
    Ok(())
}

fn change_element<'t>(elements: &mut Vec<&'t str>, place: i64, change: &Change<'t>) {
    let count = elements.len();
    let at = placed(place, count);
    let inside = at.filter(|at| *at < count);
    match (change, inside) {
        (Change::Delete, Some(at)) => drop(elements.remove(at)),
        (Change::Set { value, .. }, Some(at)) => elements[at] = value,
        (Change::Insert { value, after }, Some(at)) => elements.insert(at + usize::from(*after), value),
        // Before the first is at the beginning, behind the last at the end.
        (Change::Set { value, create: true } | Change::Insert { value, .. }, None) => {
            elements.insert(if at.is_none() { 0 } else { count }, value);
        }
        _ => {}
    }
}

/// With a line for each value, indented by four blanks a level.
fn pretty(value: &str) -> String {
    let mut out = String::with_capacity(value.len() * 2);
    let (mut level, mut in_string, mut is_escaped) = (0_usize, false, false);
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", level));
    };
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            _ if in_string => {
                out.push(letter);
                in_string = is_escaped || letter != '"';
                is_escaped = letter == '\\' && !is_escaped;
            }
            '[' | '{' => {
                out.push(letter);
                level += 1;
                line(&mut out, level);
                // Of what is empty the two lines are one.
                if let Some(']' | '}') = letters.peek() {
                    level -= 1;
                    out.truncate(out.trim_end().len());
                    line(&mut out, level);
                    out.extend(letters.next());
                }
            }
            ']' | '}' => {
                level = level.saturating_sub(1);
                line(&mut out, level);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                line(&mut out, level);
                letters.next_if_eq(&' ');
            }
            '"' => {
                in_string = true;
                out.push(letter);
            }
            _ => out.push(letter),
        }
    }
    out
}

fn stripped<'a>(row: &Row<'a>) -> Result<Answer<'a>> {
    let mut out = String::new();
    let (value, tight) = (row.text(0)?, row.is_json(0));
    with_room(|| strip(value, tight, DEPTH_MAX, &mut out)).map_err(failed)?;
    Ok(Answer::text(out))
}

/// Without pairs whose value is null; `json` is written without blanks.
fn strip(value: &str, tight: bool, levels: usize, out: &mut String) -> std::result::Result<(), JsonFault> {
    let levels = levels.checked_sub(1).ok_or(JsonFault::TooDeep)?;
    let (comma, colon) = if tight { (",", ":") } else { (", ", ": ") };
    match shape(value)? {
        Shape::Scalar(scalar) => out.push_str(scalar),
        Shape::Array(elements) => {
            out.push('[');
            for (at, element) in elements.into_iter().enumerate() {
                out.push_str(if at > 0 { comma } else { "" });
                strip(element, tight, levels, out)?;
            }
            out.push(']');
        }
        Shape::Object(pairs) => {
            out.push('{');
            let kept = pairs.into_iter().filter(|(_, value)| kind(value) != Kind::Null);
            for (at, (key, value)) in kept.enumerate() {
                out.push_str(if at > 0 { comma } else { "" });
                write_quoted(&key, out);
                out.push_str(colon);
                strip(value, tight, levels, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}
