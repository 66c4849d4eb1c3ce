//! What pages there are.

use std::fmt;

/// Where a page says what it is.
pub(super) const KIND_AT: usize = 0;

/// What a page is. The numbers are letters, so that a hex dump shows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PageKind {
    Leaf = b'L',
    Inner = b'I',
    OverflowData = b'D',
    OverflowIndex = b'X',
}

impl PageKind {
    /// The kind written as `byte`.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            b'L' => Some(Self::Leaf),
            b'I' => Some(Self::Inner),
            b'D' => Some(Self::OverflowData),
            b'X' => Some(Self::OverflowIndex),
            _ => None,
        }
    }

    /// The kind a page claims to be; `None` if it is of no known one.
    pub fn of(page: &[u8]) -> Option<Self> {
        page.get(KIND_AT).copied().and_then(Self::from_byte)
    }
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaf => "a leaf page",
            Self::Inner => "an inner page",
            Self::OverflowData => "an overflow data page",
            Self::OverflowIndex => "an overflow index page",
        })
    }
}
