//! What is wrong with a row.

use std::fmt;

use crate::types::DataType;

/// Largest row, in bytes (1 GiB).
pub const ROW_BYTES_MAX: usize = 1 << 30;

// Four-byte end offsets reach every byte of the largest row.
const _: () = assert!(ROW_BYTES_MAX <= u32::MAX as usize);

/// A row that cannot be written or read. Columns count from 0 in schema order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowError {
    /// The row's bytes are not of its layout.
    Malformed {
        reason: &'static str,
    },
    /// The bytes of one column are not of its type.
    MalformedColumn {
        column: usize,
        reason: &'static str,
    },
    /// The layout has no such column.
    NoColumn {
        column: usize,
        count: usize,
    },
    /// Another number of values than of columns.
    ColumnCount {
        expected: usize,
        found: usize,
    },
    WrongType {
        column: usize,
        expected: DataType,
        found: &'static str,
    },
    NullInNotNull {
        column: usize,
    },
    /// More digits than the declared precision.
    DecimalOverflow {
        column: usize,
        precision: u8,
    },
    /// The row would be larger than [`ROW_BYTES_MAX`].
    TooLarge {
        bytes: usize,
    },
}

#[inline]
pub(super) const fn malformed<T>(reason: &'static str) -> Result<T, RowError> {
    Err(RowError::Malformed { reason })
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { reason } => write!(f, "malformed row: {reason}"),
            Self::MalformedColumn { column, reason } => write!(f, "malformed row: column {column}: {reason}"),
            Self::NoColumn { column, count } => write!(f, "row has {count} columns, none with index {column}"),
            Self::ColumnCount { expected, found } => write!(f, "row has {expected} columns, found {found} values"),
            Self::WrongType { column, expected, found } => {
                write!(f, "column {column} is of type {expected}, found a value of type {found}")
            }
            Self::NullInNotNull { column } => write!(f, "column {column} is NOT NULL, found NULL"),
            Self::DecimalOverflow { column, precision } => {
                write!(f, "column {column} holds {precision} digits, found a numeric with more")
            }
            Self::TooLarge { bytes } => write!(f, "row of {bytes} bytes, at most {ROW_BYTES_MAX} are possible"),
        }
    }
}

impl std::error::Error for RowError {}
