//! What can be wrong with segments.

use std::fmt;

/// A failure of reading or writing segments.
#[derive(Clone, Debug)]
pub enum ColumnsError {
    /// Bytes are not what was written. The caller adds table, segment and column.
    Corrupt(String),
    Tree(String),
    Storage(String),
    /// A value that segments cannot hold.
    Unsupported(String),
    Internal(String),
}

impl fmt::Display for ColumnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(what) => write!(f, "damaged: {what}"),
            Self::Tree(what) | Self::Storage(what) | Self::Unsupported(what) => f.write_str(what),
            Self::Internal(what) => write!(f, "internal error: {what}"),
        }
    }
}

impl std::error::Error for ColumnsError {}
