//! An owned value beside [`ValueRef`], and the order of values.
//!
//! Text to value is in `parse.rs`, value to text in `display.rs`.

pub mod array;
pub mod compare_op;
pub mod display;
pub mod pattern;

use std::cmp::Ordering;

use crate::time::interval::Interval;
use crate::types::ValueRef;

/// A value that owns its bytes; otherwise as [`ValueRef`].
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    /// Also the number of an enumeration's label.
    Int8(i64),
    Float4(f32),
    Float8(f64),
    /// The unscaled integer.
    Decimal(i128),
    /// Text, varchar and char.
    Text(String),
    /// Also an array.
    Bytea(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00:00.
    Timestamp(i64),
    /// Microseconds since 1970-01-01 00:00:00 UTC.
    Timestamptz(i64),
    /// Microseconds since midnight.
    Time(i64),
    Interval(Interval),
    Uuid([u8; 16]),
}

impl Value {
    /// The value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Bool(value) => ValueRef::Bool(*value),
            Self::Int2(value) => ValueRef::Int2(*value),
            Self::Int4(value) => ValueRef::Int4(*value),
            Self::Int8(value) => ValueRef::Int8(*value),
            Self::Float4(value) => ValueRef::Float4(*value),
            Self::Float8(value) => ValueRef::Float8(*value),
            Self::Decimal(value) => ValueRef::Decimal(*value),
            Self::Text(value) => ValueRef::Text(value),
            Self::Bytea(value) => ValueRef::Bytea(value),
            Self::Date(value) => ValueRef::Date(*value),
            Self::Timestamp(value) => ValueRef::Timestamp(*value),
            Self::Timestamptz(value) => ValueRef::Timestamptz(*value),
            Self::Time(value) => ValueRef::Time(*value),
            Self::Interval(value) => ValueRef::Interval(*value),
            Self::Uuid(value) => ValueRef::Uuid(*value),
        }
    }

    /// Whether this is NULL.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Bool(value) => Self::Bool(value),
            ValueRef::Int2(value) => Self::Int2(value),
            ValueRef::Int4(value) => Self::Int4(value),
            ValueRef::Int8(value) => Self::Int8(value),
            ValueRef::Float4(value) => Self::Float4(value),
            ValueRef::Float8(value) => Self::Float8(value),
            ValueRef::Decimal(value) => Self::Decimal(value),
            ValueRef::Text(value) => Self::Text(value.to_owned()),
            ValueRef::Bytea(value) => Self::Bytea(value.to_owned()),
            ValueRef::Date(value) => Self::Date(value),
            ValueRef::Timestamp(value) => Self::Timestamp(value),
            ValueRef::Timestamptz(value) => Self::Timestamptz(value),
            ValueRef::Time(value) => Self::Time(value),
            ValueRef::Interval(value) => Self::Interval(value),
            ValueRef::Uuid(value) => Self::Uuid(value),
        }
    }
}

/// Rust types that mean one SQL type only.
macro_rules! value_from {
    ($($variant:ident($native:ty)),* $(,)?) => {
        $(impl From<$native> for Value {
            fn from(value: $native) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

value_from! {
    Bool(bool), Int2(i16), Int4(i32), Int8(i64), Float4(f32), Float8(f64),
    Text(String), Text(&str), Bytea(Vec<u8>), Bytea(&[u8]),
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The total order of values of one type: as SQL's `ORDER BY` has it, floats in
/// PostgreSQL's order (-0 equals 0, NaN is greatest and equals NaN), text by its
/// bytes, intervals by their length, NULL last. Values of different types are ordered by type, so that the
/// order is total.
pub fn compare(left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
    match (left, right) {
        (ValueRef::Bool(left), ValueRef::Bool(right)) => left.cmp(&right),
        (ValueRef::Int2(left), ValueRef::Int2(right)) => left.cmp(&right),
        (ValueRef::Int4(left), ValueRef::Int4(right)) => left.cmp(&right),
        (ValueRef::Int8(left), ValueRef::Int8(right)) => left.cmp(&right),
        (ValueRef::Float4(left), ValueRef::Float4(right)) => compare_floats(left.into(), right.into()),
        (ValueRef::Float8(left), ValueRef::Float8(right)) => compare_floats(left, right),
        (ValueRef::Decimal(left), ValueRef::Decimal(right)) => left.cmp(&right),
        (ValueRef::Text(left), ValueRef::Text(right)) => left.cmp(right),
        (ValueRef::Bytea(left), ValueRef::Bytea(right)) => left.cmp(right),
        (ValueRef::Date(left), ValueRef::Date(right)) => left.cmp(&right),
        (ValueRef::Timestamp(left), ValueRef::Timestamp(right)) => left.cmp(&right),
        (ValueRef::Timestamptz(left), ValueRef::Timestamptz(right)) => left.cmp(&right),
        (ValueRef::Time(left), ValueRef::Time(right)) => left.cmp(&right),
        (ValueRef::Interval(left), ValueRef::Interval(right)) => left.length().cmp(&right.length()),
        (ValueRef::Uuid(left), ValueRef::Uuid(right)) => left.cmp(&right),
        _ => type_rank(left).cmp(&type_rank(right)),
    }
}

fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

const fn type_rank(value: ValueRef<'_>) -> u8 {
    match value {
        ValueRef::Bool(_) => 0,
        ValueRef::Int2(_) => 1,
        ValueRef::Int4(_) => 2,
        ValueRef::Int8(_) => 3,
        ValueRef::Float4(_) => 4,
        ValueRef::Float8(_) => 5,
        ValueRef::Decimal(_) => 6,
        ValueRef::Text(_) => 7,
        ValueRef::Bytea(_) => 8,
        ValueRef::Date(_) => 9,
        ValueRef::Timestamp(_) => 10,
        ValueRef::Timestamptz(_) => 11,
        ValueRef::Time(_) => 12,
        ValueRef::Interval(_) => 13,
        ValueRef::Uuid(_) => 14,
        ValueRef::Null => u8::MAX,
    }
}
