//! Format codes of a list: none means text for all, one means it for all, else there is one each.

use super::frontend::Numbers;
use crate::failure::{Failure, Result};
use crate::types::Format;

/// The formats of codes.
///
/// # Errors
/// A code that means nothing.
pub fn read(codes: Numbers<'_, 2>) -> Result<Vec<Format>> {
    let unknown = |code| Failure::new("08P01", format!("unsupported format code: {code}"));
    codes.iter().map(|code| Format::of_code(code).ok_or_else(|| unknown(code))).collect()
}

/// One format per column.
///
/// # Errors
/// If there are neither none, one nor as many as columns.
pub fn of_columns(formats: &[Format], columns: usize) -> Result<Vec<Format>> {
    match formats {
        [] => Ok(vec![Format::Text; columns]),
        [one] => Ok(vec![*one; columns]),
        each if each.len() == columns => Ok(each.to_vec()),
        each => Err(Failure::new("08P01", format!("{} formats for {columns} values", each.len()))),
    }
}
