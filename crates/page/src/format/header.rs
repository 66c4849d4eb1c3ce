//! The header all pages begin with.
//!
//! ```text
//! 0      1         2       3       4          8          12
//! +------+---------+-------+-------+----------+----------+----------+
//! | kind | version | flags | level | tree     | count    | used     |
//! | u8   | u8      | u8    | u8    | u32      | u32      | u32      |
//! +------+---------+-------+-------+----------+----------+----------+
//! ```
//!
//! *flags* belong to the kind. *level* counts from 0 for leaves and overflow
//! data upwards. *count* is of entries, children or value bytes. *used* is where
//! the page's content ends; all after it is zero.

use std::fmt;

use saki_base::{PageAddress, PageRef, PageSize, TreeId};

use super::{FORMAT_VERSION, FormatError};

/// Bytes of the common header.
pub(super) const HEADER_BYTES: usize = 16;
/// Bytes of a page reference: address and checksum.
pub(super) const PAGE_REF_BYTES: usize = 16;

const KIND_AT: usize = 0;
const VERSION_AT: usize = 1;
const FLAGS_AT: usize = 2;
const LEVEL_AT: usize = 3;
const TREE_AT: usize = 4;
const COUNT_AT: usize = 8;
const USED_AT: usize = 12;

const _: () = assert!(USED_AT + 4 == HEADER_BYTES);

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

/// What a reader knows of a page before it looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageExpectation {
    pub page_size: PageSize,
    pub tree: TreeId,
}

/// A page's header, read and checked against what was expected of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub kind: PageKind,
    pub flags: u8,
    pub level: u8,
    pub tree: TreeId,
    pub count: usize,
    pub used: usize,
}

impl Header {
    /// Reads the header of a page of kind `kind`. Afterwards the page is as long
    /// as its size says, and `HEADER_BYTES <= used <= page size`.
    #[inline]
    pub(super) fn open(page: &[u8], expected: PageExpectation, kind: PageKind) -> Result<Self, FormatError> {
        if page.len() != expected.page_size.bytes() {
            return Err(FormatError::Size { expected: expected.page_size.bytes(), found: page.len() });
        }
        if page[KIND_AT] != kind as u8 {
            return Err(FormatError::Kind { expected: kind, found: page[KIND_AT] });
        }
        if page[VERSION_AT] != FORMAT_VERSION {
            return Err(FormatError::Version { expected: FORMAT_VERSION, found: page[VERSION_AT] });
        }
        let tree = TreeId(read_u32(page, TREE_AT));
        if tree != expected.tree {
            return Err(FormatError::Tree { expected: expected.tree, found: tree });
        }
        let used = read_u32(page, USED_AT) as usize;
        if used < HEADER_BYTES || used > page.len() {
            return Err(FormatError::Malformed { kind, at: 0, reason: "content ends outside the page" });
        }
        let count = read_u32(page, COUNT_AT) as usize;
        Ok(Self { kind, flags: page[FLAGS_AT], level: page[LEVEL_AT], tree, count, used })
    }

    /// Writes the header and clears all from `used` to the page's end.
    pub(super) fn write(&self, page: &mut [u8]) {
        assert!(self.used >= HEADER_BYTES && self.used <= page.len(), "page content exceeds the page");
        page[KIND_AT] = self.kind as u8;
        page[VERSION_AT] = FORMAT_VERSION;
        page[FLAGS_AT] = self.flags;
        page[LEVEL_AT] = self.level;
        write_u32(page, TREE_AT, self.tree.0);
        write_u32(page, COUNT_AT, self.count as u32);
        write_u32(page, USED_AT, self.used as u32);
        page[self.used..].fill(0);
    }

    /// An error of this page.
    pub(super) const fn malformed<T>(&self, at: usize, reason: &'static str) -> Result<T, FormatError> {
        Err(FormatError::Malformed { kind: self.kind, at, reason })
    }

    /// Checks that the bytes after the content are zero.
    pub(super) fn verify_unused(&self, page: &[u8]) -> Result<(), FormatError> {
        if page[self.used..].iter().any(|byte| *byte != 0) {
            return self.malformed(0, "unused bytes are not zero");
        }
        Ok(())
    }
}

/// The integer at `at`, or 0 if it would lie outside `bytes`: a malformed page
/// must not make a reader panic.
#[inline]
pub(super) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |bytes| u16::from_le_bytes(bytes.try_into().expect("cut to 2 bytes")))
}

#[inline]
pub(super) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().expect("cut to 4 bytes")))
}

#[inline]
pub(super) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("cut to 8 bytes")))
}

#[inline]
pub(super) fn read_page_ref(bytes: &[u8], at: usize) -> PageRef {
    PageRef { address: PageAddress(read_u64(bytes, at)), checksum: read_u64(bytes, at + 8) }
}

pub(super) fn write_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(super) fn write_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(super) fn page_ref_bytes(page_ref: PageRef) -> [u8; PAGE_REF_BYTES] {
    let mut bytes = [0; PAGE_REF_BYTES];
    bytes[..8].copy_from_slice(&page_ref.address.0.to_le_bytes());
    bytes[8..].copy_from_slice(&page_ref.checksum.to_le_bytes());
    bytes
}
