//! The bytes of one column's value.

use crate::interval::Interval;
use crate::types::{DataType, ValueRef};

/// `bytes` as an array. The caller has cut the slice to that length.
#[inline]
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the slice was cut to the width of its type")
}

/// Bytes of a variable-width value as they are stored; `None` if the type is of
/// fixed width or the value is of another type.
#[inline]
pub(super) fn variable_bytes<'a>(data_type: DataType, value: ValueRef<'a>) -> Option<&'a [u8]> {
    match (data_type, value) {
        (DataType::Text | DataType::Varchar(_) | DataType::Json | DataType::Jsonb, ValueRef::Text(text)) => {
            Some(text.as_bytes())
        }
        (DataType::Char(_), ValueRef::Text(text)) => Some(text.trim_end_matches(' ').as_bytes()),
        (DataType::Bytea | DataType::Array(_), ValueRef::Bytea(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Whether `value` is of the fixed-width type `data_type`.
#[inline]
pub(super) fn fits_fixed(data_type: DataType, value: ValueRef<'_>) -> bool {
    matches!(
        (data_type, value),
        (DataType::Bool, ValueRef::Bool(_))
            | (DataType::Int2, ValueRef::Int2(_))
            | (DataType::Int4, ValueRef::Int4(_))
            | (DataType::Int8 | DataType::Enum(_), ValueRef::Int8(_))
            | (DataType::Float4, ValueRef::Float4(_))
            | (DataType::Float8, ValueRef::Float8(_))
            | (DataType::Decimal { .. }, ValueRef::Decimal(_))
            | (DataType::Date, ValueRef::Date(_))
            | (DataType::Timestamp, ValueRef::Timestamp(_))
            | (DataType::Timestamptz, ValueRef::Timestamptz(_))
            | (DataType::Time, ValueRef::Time(_))
            | (DataType::Interval, ValueRef::Interval(_))
            | (DataType::Uuid, ValueRef::Uuid(_))
    )
}

/// Writes a fixed-width value that [`fits_fixed`]; a NULL leaves the zeroes.
#[inline]
pub(super) fn write_fixed(data_type: DataType, value: ValueRef<'_>, place: &mut [u8]) {
    match value {
        ValueRef::Bool(value) => place[0] = value as u8,
        ValueRef::Int2(value) => place.copy_from_slice(&value.to_le_bytes()),
        ValueRef::Int4(value) | ValueRef::Date(value) => place.copy_from_slice(&value.to_le_bytes()),
        ValueRef::Int8(value) | ValueRef::Timestamp(value) | ValueRef::Timestamptz(value) | ValueRef::Time(value) => {
            place.copy_from_slice(&value.to_le_bytes());
        }
        ValueRef::Float4(value) => place.copy_from_slice(&value.to_le_bytes()),
        ValueRef::Float8(value) => place.copy_from_slice(&value.to_le_bytes()),
        // Two's complement: the low bytes of an i128 are the i64.
        ValueRef::Decimal(value) => place.copy_from_slice(&value.to_le_bytes()[..place.len()]),
        ValueRef::Interval(value) => place.copy_from_slice(&value.to_le_bytes()),
        ValueRef::Uuid(value) => place.copy_from_slice(&value),
        ValueRef::Null => {}
        ValueRef::Text(_) | ValueRef::Bytea(_) => unreachable!("{data_type} is of fixed width"),
    }
}

/// The value of a column from its bytes in the row format, as
/// [`RowRef::bytes_of`](super::RowRef::bytes_of) gives them; an error says what is wrong with them.
#[inline]
pub fn read_value<'a>(data_type: DataType, bytes: &'a [u8]) -> Result<ValueRef<'a>, &'static str> {
    if data_type.fixed_width().is_some_and(|width| width != bytes.len()) {
        return Err("value is not as wide as its type");
    }
    Ok(match data_type {
        DataType::Bool => match bytes[0] {
            0 => ValueRef::Bool(false),
            1 => ValueRef::Bool(true),
            _ => return Err("boolean is neither 0 nor 1"),
        },
        DataType::Int2 => ValueRef::Int2(i16::from_le_bytes(array(bytes))),
        DataType::Int4 => ValueRef::Int4(i32::from_le_bytes(array(bytes))),
        DataType::Int8 | DataType::Enum(_) => ValueRef::Int8(i64::from_le_bytes(array(bytes))),
        DataType::Float4 => ValueRef::Float4(f32::from_le_bytes(array(bytes))),
        DataType::Float8 => ValueRef::Float8(f64::from_le_bytes(array(bytes))),
        DataType::Decimal { .. } if bytes.len() == 8 => ValueRef::Decimal(i64::from_le_bytes(array(bytes)).into()),
        DataType::Decimal { .. } => ValueRef::Decimal(i128::from_le_bytes(array(bytes))),
        DataType::Date => ValueRef::Date(i32::from_le_bytes(array(bytes))),
        DataType::Timestamp => ValueRef::Timestamp(i64::from_le_bytes(array(bytes))),
        DataType::Timestamptz => ValueRef::Timestamptz(i64::from_le_bytes(array(bytes))),
        DataType::Time => ValueRef::Time(i64::from_le_bytes(array(bytes))),
        DataType::Interval => ValueRef::Interval(Interval::from_le_bytes(array(bytes))),
        DataType::Uuid => ValueRef::Uuid(array(bytes)),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            match std::str::from_utf8(bytes) {
                Ok(text) => ValueRef::Text(text),
                Err(_) => return Err("text is not UTF-8"),
            }
        }
        DataType::Bytea | DataType::Array(_) => ValueRef::Bytea(bytes),
    })
}
