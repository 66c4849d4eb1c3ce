//! What can be wrong with segments.

use std::fmt;

use saki_tree::TreeError;
use saki_volume::VolumeError;

/// A failure of reading or writing segments.
#[derive(Clone, Debug)]
pub enum ColumnsError {
    /// Bytes are not what was written. The caller adds table, segment and column.
    Corrupt(String),
    /// The directory could not be read or written.
    Tree(TreeError),
    /// Runs could not be written.
    Volume(VolumeError),
    /// Runs could not be read.
    Storage(String),
    /// A value that segments cannot hold.
    Unsupported(String),
    Internal(String),
}

impl From<TreeError> for ColumnsError {
    fn from(error: TreeError) -> Self {
        Self::Tree(error)
    }
}

impl From<VolumeError> for ColumnsError {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}

impl fmt::Display for ColumnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(what) => write!(f, "damaged: {what}"),
            Self::Tree(error) => error.fmt(f),
            Self::Volume(error) => error.fmt(f),
            Self::Storage(what) | Self::Unsupported(what) => f.write_str(what),
            Self::Internal(what) => write!(f, "internal error: {what}"),
        }
    }
}

impl std::error::Error for ColumnsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tree(error) => Some(error),
            Self::Volume(error) => Some(error),
            _ => None,
        }
    }
}
