//! Questions about what is in a value: `@>`, `<@`, `?`, `?|`, `?&` (PostgreSQL, section 8.14.3).

use saki_base::json::{DEPTH_MAX, JsonFault, Shape, shape, sort_key, unquoted};
use saki_base::stack::with_room;
use saki_catalog::SqlError;

use super::definition::Takes::{Jsonb, Text, Texts};
use super::definition::{Answer, Definition, Gives, Row, define, failed};

type Result<T> = std::result::Result<T, SqlError>;

pub static FUNCTIONS: &[Definition] = &[
    define("jsonb_contains", &[Jsonb, Jsonb], Gives::Truth, |row| {
        let (whole, part) = (row.text(0)?, row.text(1)?);
        Ok(Answer::Truth(with_room(|| contains(whole, part, DEPTH_MAX, true)).map_err(failed)?))
    }),
    define("jsonb_contained", &[Jsonb, Jsonb], Gives::Truth, |row| {
        let (part, whole) = (row.text(0)?, row.text(1)?);
        Ok(Answer::Truth(with_room(|| contains(whole, part, DEPTH_MAX, true)).map_err(failed)?))
    }),
    define("jsonb_exists", &[Jsonb, Text], Gives::Truth, |row| {
        let (keys, key) = (keys(row)?, row.text(1)?);
        Ok(Answer::Truth(keys.iter().any(|of| of == key)))
    }),
    define("jsonb_exists_any", &[Jsonb, Texts], Gives::Truth, |row| {
        let (keys, asked) = (keys(row)?, row.texts(1, false)?);
        Ok(Answer::Truth(asked.iter().flatten().any(|key| keys.contains(key))))
    }),
    define("jsonb_exists_all", &[Jsonb, Texts], Gives::Truth, |row| {
        let (keys, asked) = (keys(row)?, row.texts(1, false)?);
        Ok(Answer::Truth(asked.iter().flatten().all(|key| keys.contains(key))))
    }),
];

/// Keys of an object, strings of an array, or the string that a value is.
fn keys(row: &Row<'_>) -> Result<Vec<String>> {
    let strings = |values: Vec<&str>| {
        let strings = values.into_iter().filter(|value| value.starts_with('"'));
        strings.map(|string| unquoted(string).map(String::from)).collect::<std::result::Result<Vec<_>, _>>()
    };
    match shape(row.text(0)?).map_err(failed)? {
        Shape::Object(pairs) => Ok(pairs.into_iter().map(|(key, _)| key.into_owned()).collect()),
        Shape::Array(elements) => strings(elements).map_err(failed),
        Shape::Scalar(scalar) => strings(vec![scalar]).map_err(failed),
    }
}

/// Whether the first value has all that the second has. `outermost`: an array may contain a scalar then.
fn contains(whole: &str, part: &str, levels: usize, outermost: bool) -> std::result::Result<bool, JsonFault> {
    let levels = levels.checked_sub(1).ok_or(JsonFault::TooDeep)?;
    Ok(match (shape(whole)?, shape(part)?) {
        (Shape::Object(whole), Shape::Object(part)) => {
            for (key, value) in &part {
                let Some((_, of)) = whole.iter().find(|(of, _)| of == key) else { return Ok(false) };
                if !contains(of, value, levels, false)? {
                    return Ok(false);
                }
            }
            true
        }
        (Shape::Array(whole), Shape::Array(part)) => {
            for value in part {
                if !any(&whole, value, levels)? {
                    return Ok(false);
                }
            }
            true
        }
        (Shape::Array(whole), Shape::Scalar(scalar)) if outermost => any(&whole, scalar, levels)?,
        (Shape::Scalar(one), Shape::Scalar(other)) => is_same(one, other)?,
        _ => false,
    })
}

fn any(elements: &[&str], value: &str, levels: usize) -> std::result::Result<bool, JsonFault> {
    for element in elements {
        if contains(element, value, levels, false)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Numbers are compared by their values.
fn is_same(one: &str, other: &str) -> std::result::Result<bool, JsonFault> {
    Ok(one == other || sort_key(one)? == sort_key(other)?)
}
