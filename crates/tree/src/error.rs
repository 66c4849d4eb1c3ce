//! What can go wrong, by what the caller may do about it.

use std::fmt;

use saki_base::{PageRef, TreeId};
use saki_page::{FormatError, PageError, StoreError};
use saki_volume::VolumeError;

/// A tree could not be read or written.
#[derive(Clone, Debug)]
pub enum TreeError {
    /// A page could not be had: it is rotten, or its device failed.
    Page { tree: TreeId, error: PageError },
    /// A page is whole but not what its parent says it is.
    Malformed { tree: TreeId, page: PageRef, device: String, what: String },
    /// Writing failed.
    Volume(VolumeError),
    /// No lane could be opened.
    Store(StoreError),
    /// Keys must ascend and do not.
    OutOfOrder { tree: TreeId, previous: Vec<u8>, key: Vec<u8> },
    /// The same key twice where it may come once.
    DuplicateKey { tree: TreeId, key: Vec<u8> },
    /// The key is too long for a page of this size.
    KeyTooLong { tree: TreeId, bytes: usize, bytes_max: usize },
}

impl TreeError {
    pub(crate) fn malformed(tree: TreeId, page: PageRef, device: String, error: FormatError) -> Self {
        Self::Malformed { tree, page, device, what: error.to_string() }
    }
}

impl From<VolumeError> for TreeError {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}

impl From<StoreError> for TreeError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A key for a message: hexadecimal, cut after 24 bytes.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take(24) {
            write!(f, "{byte:02x}")?;
        }
        if self.0.len() > 24 { write!(f, "… ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page { tree, error } => write!(f, "{tree}: {error}"),
            Self::Malformed { tree, page, device, what } => {
                write!(f, "{tree}: {} on {device}: {what}; run `saki check` and restore from a copy", page.address)
            }
            Self::Volume(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::OutOfOrder { tree, previous, key } => {
                write!(f, "{tree}: keys must ascend, but {} came after {}", Hex(key), Hex(previous))
            }
            Self::DuplicateKey { tree, key } => write!(f, "{tree}: key {} comes twice", Hex(key)),
            Self::KeyTooLong { tree, bytes, bytes_max } => {
                write!(f, "index row size {bytes} exceeds maximum {bytes_max} for {tree}")
            }
        }
    }
}

impl std::error::Error for TreeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Page { error, .. } => Some(error),
            Self::Volume(error) => Some(error),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}
