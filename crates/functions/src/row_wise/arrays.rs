//! What arrays measure and share.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use datafusion::common::{Result, ScalarValue};
use saki_catalog::SqlError;

use super::definition::Takes::{self, Integer};
use super::definition::{Definition, Gives, define, integer};

/// The function behind `&&` of arrays, called as PostgreSQL's.
pub static OVERLAP: Definition = define("arrayoverlap", &[Takes::Array, Takes::Array], Gives::Truth, |values| {
    let (mut left, mut right) = (HashSet::new(), Vec::new());
    leaves(&elements(values, 0), &mut |value| left.extend([value]))?;
    leaves(&elements(values, 1), &mut |value| right.push(value))?;
    Ok(ScalarValue::Boolean(Some(right.iter().any(|value| left.contains(value)))))
});

pub const FUNCTIONS: &[Definition] = &[
    define("array_dims", &[Takes::Array], Gives::Text, |values| {
        let dimensions = lengths(elements(values, 0)).iter().map(|length| format!("[1:{length}]")).collect::<String>();
        Ok(ScalarValue::Utf8(Some(dimensions).filter(|dimensions| !dimensions.is_empty())))
    }),
    define("array_ndims", &[Takes::Array], Gives::Integer, |values| {
        let dimensions = lengths(elements(values, 0)).len() as i32;
        Ok(ScalarValue::Int32(Some(dimensions).filter(|dimensions| *dimensions > 0)))
    }),
    define("trim_array", &[Takes::Array, Integer], Gives::First, |values| {
        let (of, count) = (elements(values, 0), integer(values, 1));
        let Some(left) = usize::try_from(count).ok().and_then(|count| of.len().checked_sub(count)) else {
            let message = format!("number of elements to trim must be between 0 and {}", of.len());
            return Err(SqlError::data(message).code("2202E").into());
        };
        let kept = (0..left).map(|at| ScalarValue::try_from_array(&of, at)).collect::<Result<Vec<_>>>()?;
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&kept, of.data_type())))
    }),
];

/// How long an array is in each of its dimensions; an empty one has none.
fn lengths(mut level: ArrayRef) -> Vec<usize> {
    let mut lengths = Vec::new();
    while !level.is_empty() {
        lengths.push(level.len());
        match level.as_list_opt::<i32>() {
            Some(lists) if lists.is_valid(0) => level = lists.value(0),
            _ => break,
        }
    }
    lengths
}

/// The elements of an array.
fn elements(values: &[ScalarValue], at: usize) -> ArrayRef {
    match values.get(at) {
        Some(ScalarValue::List(list)) => list.value(0),
        _ => unreachable!("arguments are what the function takes"),
    }
}

/// The values of an array of any number of dimensions, without NULLs.
fn leaves(of: &ArrayRef, each: &mut impl FnMut(ScalarValue)) -> Result<()> {
    for at in (0..of.len()).filter(|at| of.is_valid(*at)) {
        match of.as_list_opt::<i32>() {
            Some(lists) => leaves(&lists.value(at), each)?,
            None => each(ScalarValue::try_from_array(of, at)?),
        }
    }
    Ok(())
}
