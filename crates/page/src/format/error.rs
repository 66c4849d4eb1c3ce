//! What is wrong with a page.

use std::fmt;

use saki_base::TreeId;

use super::kind::PageKind;

/// A page that is not what was expected, or not well formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormatError {
    /// The bytes handed in are not one page.
    Size { expected: usize, found: usize },
    /// A page of another kind, or no page at all.
    Kind { expected: PageKind, found: u8 },
    /// A page of a format that this version does not know.
    Version { expected: u8, found: u8 },
    /// A page of another tree.
    Tree { expected: TreeId, found: TreeId },
    /// A page of the right kind whose content contradicts itself; `at` is the
    /// index of an entry, or 0 where the page as a whole is meant.
    Malformed { kind: PageKind, at: usize, reason: &'static str },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { expected, found } => write!(f, "expected a page of {expected} bytes, found {found} bytes"),
            Self::Kind { expected, found } => match PageKind::from_byte(*found) {
                Some(found) => write!(f, "expected {expected}, found {found}"),
                None => write!(f, "expected {expected}, found no known page (kind {found:#04x})"),
            },
            Self::Version { expected, found } => write!(f, "expected page format {expected}, found {found}"),
            Self::Tree { expected, found } => write!(f, "expected a page of {expected}, found one of {found}"),
            Self::Malformed { kind, at, reason } => write!(f, "malformed {kind}: entry {at}: {reason}"),
        }
    }
}

impl std::error::Error for FormatError {}
