//! SQL types as the storage layers see them.

pub mod enumeration;

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::enumeration::Enumeration;
use crate::time::interval::{INTERVAL_BYTES, Interval};

/// Largest precision that a decimal stored in 8 bytes can have.
pub const DECIMAL64_PRECISION_MAX: u8 = 18;
/// Largest precision of any decimal.
pub const DECIMAL_PRECISION_MAX: u8 = 38;

/// A column's type. Widths and encodings are in [`crate::row`] and [`crate::key`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum DataType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// `precision` digits, `scale` of them after the point; 8 bytes up to
    /// [`DECIMAL64_PRECISION_MAX`] digits, 16 above.
    Decimal {
        precision: u8,
        scale: u8,
    },
    Text,
    /// At most so many characters.
    Varchar(u32),
    /// Blank-padded to so many characters when read; stored without the padding.
    Char(u32),
    Bytea,
    /// Days since 1970-01-01, 4 bytes.
    Date,
    /// Microseconds since 1970-01-01 00:00:00 without time zone, 8 bytes.
    Timestamp,
    /// Microseconds since 1970-01-01 00:00:00 UTC, 8 bytes.
    Timestamptz,
    /// Microseconds since midnight, 8 bytes; a day, 24:00:00, at most.
    Time,
    /// Months, days and microseconds, 16 bytes.
    Interval,
    Uuid,
    /// JSON as it was written.
    Json,
    /// JSON in the one form of [`crate::json`].
    Jsonb,
    /// A label of an enumeration: the label's number, 8 bytes.
    Enum(Enumeration),
    /// An array of one dimension, whose bytes are those of [`crate::value::array`].
    Array(Element),
}

impl DataType {
    /// Bytes of a value in the row format, `None` for variable length.
    pub const fn fixed_width(self) -> Option<usize> {
        match self {
            Self::Bool => Some(1),
            Self::Int2 => Some(2),
            Self::Int4 | Self::Float4 | Self::Date => Some(4),
            Self::Int8 | Self::Float8 | Self::Timestamp | Self::Timestamptz | Self::Time | Self::Enum(_) => Some(8),
            Self::Decimal { precision, .. } => {
                if precision <= DECIMAL64_PRECISION_MAX {
                    Some(8)
                } else {
                    Some(16)
                }
            }
            Self::Interval => Some(INTERVAL_BYTES),
            Self::Uuid => Some(16),
            Self::Text | Self::Varchar(_) | Self::Char(_) | Self::Bytea | Self::Json | Self::Jsonb | Self::Array(_) => {
                None
            }
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("boolean"),
            Self::Int2 => f.write_str("smallint"),
            Self::Int4 => f.write_str("integer"),
            Self::Int8 => f.write_str("bigint"),
            Self::Float4 => f.write_str("real"),
            Self::Float8 => f.write_str("double precision"),
            Self::Decimal { precision, scale } => write!(f, "numeric({precision},{scale})"),
            Self::Text => f.write_str("text"),
            Self::Varchar(n) => write!(f, "character varying({n})"),
            Self::Char(n) => write!(f, "character({n})"),
            Self::Bytea => f.write_str("bytea"),
            Self::Date => f.write_str("date"),
            Self::Timestamp => f.write_str("timestamp without time zone"),
            Self::Timestamptz => f.write_str("timestamp with time zone"),
            Self::Time => f.write_str("time without time zone"),
            Self::Interval => f.write_str("interval"),
            Self::Uuid => f.write_str("uuid"),
            Self::Json => f.write_str("json"),
            Self::Jsonb => f.write_str("jsonb"),
            Self::Enum(of) => f.write_str(of.name()),
            Self::Array(element) => write!(f, "{}[]", element.data_type()),
        }
    }
}

/// The type of an array's elements: any but arrays and enumerations.
///
/// Each that the process has met is kept for good, so that [`DataType`] stays a small value that can be copied.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Element(&'static DataType);

static KNOWN: LazyLock<Mutex<HashMap<DataType, Element>>> = LazyLock::new(Mutex::default);

impl Element {
    /// `None`: there are no arrays of these.
    pub fn new(data_type: DataType) -> Option<Self> {
        if let DataType::Array(_) | DataType::Enum(_) = data_type {
            return None;
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        Some(*known.entry(data_type).or_insert_with(|| Self(Box::leak(Box::new(data_type)))))
    }

    /// The type of one element.
    pub const fn data_type(self) -> DataType {
        *self.0
    }
}

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Element {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let data_type = DataType::deserialize(deserializer)?;
        Self::new(data_type).ok_or_else(|| serde::de::Error::custom(format!("an array of {data_type}")))
    }
}

/// A named, typed column.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
}

/// A value borrowed from wherever it lies (a page, a row, an Arrow array).
/// Decimals are unscaled integers; dates and timestamps as in [`DataType`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ValueRef<'a> {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    /// Also the number of an enumeration's label.
    Int8(i64),
    Float4(f32),
    Float8(f64),
    Decimal(i128),
    /// Text, varchar, char, json and jsonb.
    Text(&'a str),
    /// Also an array.
    Bytea(&'a [u8]),
    Date(i32),
    Timestamp(i64),
    Timestamptz(i64),
    Time(i64),
    Interval(Interval),
    Uuid([u8; 16]),
}

impl ValueRef<'_> {
    /// What kind of value this is, for messages.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Bool(_) => "boolean",
            Self::Int2(_) => "smallint",
            Self::Int4(_) => "integer",
            Self::Int8(_) => "bigint",
            Self::Float4(_) => "real",
            Self::Float8(_) => "double precision",
            Self::Decimal(_) => "numeric",
            Self::Text(_) => "text",
            Self::Bytea(_) => "bytea",
            Self::Date(_) => "date",
            Self::Timestamp(_) => "timestamp without time zone",
            Self::Timestamptz(_) => "timestamp with time zone",
            Self::Time(_) => "time without time zone",
            Self::Interval(_) => "interval",
            Self::Uuid(_) => "uuid",
        }
    }
}

/// `10^precision`: every unscaled decimal of that precision lies strictly
/// between this and its negative. Precisions above [`DECIMAL_PRECISION_MAX`]
/// count as that.
#[inline]
pub const fn decimal_limit(precision: u8) -> i128 {
    const LIMITS: [i128; DECIMAL_PRECISION_MAX as usize + 1] = {
        let mut limits = [1_i128; DECIMAL_PRECISION_MAX as usize + 1];
        let mut digits = 1;
        while digits < limits.len() {
            limits[digits] = limits[digits - 1] * 10;
            digits += 1;
        }
        limits
    };
    if precision > DECIMAL_PRECISION_MAX { LIMITS[DECIMAL_PRECISION_MAX as usize] } else { LIMITS[precision as usize] }
}

const _: () = assert!(
    decimal_limit(DECIMAL64_PRECISION_MAX) <= i64::MAX as i128,
    "a decimal of that precision must fit in 8 bytes"
);
