//! The bytes of an array: its elements, each as a nullable column of a key is encoded ([`crate::key`]), one after the
//! other.
//!
//! So arrays are compared by comparing their bytes: element by element, the shorter one first if it is what the other
//! begins with, and NULL behind all values, as PostgreSQL has it. To rows, keys, zones and statistics an array is
//! bytes. As in keys, -0.0 comes back as 0.0, and text of `character(n)` without trailing blanks.
//!
//! Failure model: hostile bytes give a [`KeyError`] or other elements, never a panic.

use crate::key::{KeyColumn, KeyError, KeyLayout, MARKER_NULL, decode_column, encode_column};
use crate::types::{DataType, Element, ValueRef};

const fn column(element: Element) -> KeyColumn {
    KeyColumn { data_type: element.data_type(), nullable: true, descending: false }
}

/// Appends an element to an array's bytes; on an error they are as before.
///
/// # Errors
/// A value of another type, or a decimal of more digits than it has.
pub fn push(element: Element, value: ValueRef<'_>, array: &mut Vec<u8>) -> Result<(), KeyError> {
    encode_column(column(element), value, array)
}

/// Visits the elements of an array in their order.
///
/// # Errors
/// `Malformed` if the bytes are no such array's; the elements before the fault have been visited.
pub fn for_each(element: Element, mut array: &[u8], mut visit: impl FnMut(ValueRef<'_>)) -> Result<(), KeyError> {
    let mut scratch = Vec::new();
    while !array.is_empty() {
        let (value, bytes) = decode_column(column(element), array, &mut scratch)?;
        visit(value);
        array = &array[bytes..];
    }
    Ok(())
}

/// The bytes of each element; those of equal elements are the same.
///
/// # Errors
/// As [`for_each`].
pub fn split(element: Element, mut array: &[u8]) -> Result<Vec<&[u8]>, KeyError> {
    let layout = KeyLayout::new([column(element)]);
    let mut elements = Vec::new();
    while !array.is_empty() {
        let (bytes, rest) = array.split_at(layout.column_width(0, array)?);
        elements.push(bytes);
        array = rest;
    }
    Ok(elements)
}

/// Whether an element, of which these are the bytes, is NULL.
pub fn is_null(element: &[u8]) -> bool {
    *element == [MARKER_NULL]
}

/// Appends an element's text to that of an array, in quotes where it would not be read back without them.
pub fn push_text(element: &str, array: &mut String) {
    let is_special = |c: char| matches!(c, '"' | '\\' | '{' | '}' | ',') || is_blank(c);
    if !element.is_empty() && !element.contains(is_special) && !element.eq_ignore_ascii_case("null") {
        return array.push_str(element);
    }
    array.push('"');
    for c in element.chars() {
        if let '"' | '\\' = c {
            array.push('\\');
        }
        array.push(c);
    }
    array.push('"');
}

/// Of what stands around elements.
pub(crate) const fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// The elements of a type, if it is one of arrays.
pub const fn element_of(data_type: DataType) -> Option<Element> {
    match data_type {
        DataType::Array(element) => Some(element),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn array(element: DataType, values: &[Value]) -> Vec<u8> {
        let (element, mut bytes) = (Element::new(element).unwrap(), Vec::new());
        values.iter().for_each(|value| push(element, value.as_ref(), &mut bytes).unwrap());
        bytes
    }

    #[test]
    fn elements_come_back() {
        for (element, values) in [
            (DataType::Int4, vec![Value::Int4(-5), Value::Null, Value::Int4(5)]),
            (DataType::Text, vec![Value::from(""), Value::from("a\0b"), Value::Null]),
            (DataType::Decimal { precision: 20, scale: 2 }, vec![Value::Decimal(-1)]),
            (DataType::Bool, Vec::new()),
        ] {
            let bytes = array(element, &values);
            let mut read = Vec::new();
            for_each(Element::new(element).unwrap(), &bytes, |value| read.push(Value::from(value))).unwrap();
            assert_eq!(read, values);
            let parts = split(Element::new(element).unwrap(), &bytes).unwrap();
            assert!(parts.iter().map(|part| is_null(part)).eq(values.iter().map(Value::is_null)));
        }
    }

    /// As PostgreSQL orders arrays.
    #[test]
    fn bytes_are_ordered_as_arrays_are() {
        let number = Value::Int4;
        let ascending = [
            vec![],
            vec![number(-1), number(9)],
            vec![number(1)],
            vec![number(1), number(-7)],
            vec![number(1), Value::Null],
            vec![number(2)],
            vec![Value::Null],
        ];
        assert!(ascending.map(|values| array(DataType::Int4, &values)).is_sorted());
        let ascending = [vec![Value::from("a"), Value::from("z")], vec![Value::from("ab")], vec![Value::from("b")]];
        assert!(ascending.map(|values| array(DataType::Text, &values)).is_sorted());
    }

    #[test]
    fn what_is_no_array_is_an_error() {
        let element = Element::new(DataType::Int4).unwrap();
        assert!(for_each(element, &[1, 0, 0], |_| ()).is_err());
        assert!(for_each(element, &[9], |_| ()).is_err());
        assert!(push(element, ValueRef::Int8(1), &mut Vec::new()).is_err());
        assert!(Element::new(DataType::Array(element)).is_none());
    }
}
