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

use saki_base::bytes::{put_u32, put_u64, u32_at, u64_at};
use saki_base::{PageAddress, PageRef, PageSize, TreeId};

use super::kind::{KIND_AT, PageKind};
use super::{FORMAT_VERSION, FormatError};

/// Bytes of the common header.
pub(super) const HEADER_BYTES: usize = 16;
/// Bytes of a page reference: address and checksum.
pub(super) const PAGE_REF_BYTES: usize = 16;

const VERSION_AT: usize = 1;
const FLAGS_AT: usize = 2;
const LEVEL_AT: usize = 3;
const TREE_AT: usize = 4;
const COUNT_AT: usize = 8;
const USED_AT: usize = 12;

const _: () = assert!(USED_AT + 4 == HEADER_BYTES);

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
        let tree = TreeId(u32_at(page, TREE_AT).unwrap_or(0));
        if tree != expected.tree {
            return Err(FormatError::Tree { expected: expected.tree, found: tree });
        }
        let used = u32_at(page, USED_AT).unwrap_or(0) as usize;
        if used < HEADER_BYTES || used > page.len() {
            return Err(FormatError::Malformed { kind, at: 0, reason: "content ends outside the page" });
        }
        let count = u32_at(page, COUNT_AT).unwrap_or(0) as usize;
        Ok(Self { kind, flags: page[FLAGS_AT], level: page[LEVEL_AT], tree, count, used })
    }

    /// Writes the header and clears all from `used` to the page's end.
    pub(super) fn write(&self, page: &mut [u8]) {
        assert!(self.used >= HEADER_BYTES && self.used <= page.len(), "page content exceeds the page");
        page[KIND_AT] = self.kind as u8;
        page[VERSION_AT] = FORMAT_VERSION;
        page[FLAGS_AT] = self.flags;
        page[LEVEL_AT] = self.level;
        put_u32(page, TREE_AT, self.tree.0);
        put_u32(page, COUNT_AT, self.count as u32);
        put_u32(page, USED_AT, self.used as u32);
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

/// The reference at `at`, or one that refers nowhere if it would lie outside.
#[inline]
pub(super) fn read_page_ref(bytes: &[u8], at: usize) -> PageRef {
    PageRef { address: PageAddress(u64_at(bytes, at).unwrap_or(0)), checksum: u64_at(bytes, at + 8).unwrap_or(0) }
}

pub(super) fn page_ref_bytes(page_ref: PageRef) -> [u8; PAGE_REF_BYTES] {
    let mut bytes = [0; PAGE_REF_BYTES];
    put_u64(&mut bytes, 0, page_ref.address.0);
    put_u64(&mut bytes, 8, page_ref.checksum);
    bytes
}
