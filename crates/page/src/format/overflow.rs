//! Overflow pages: a value too large for a leaf, cut into pieces.
//!
//! ```text
//! data   0        16                                    index  0        16       32
//!        +--------+----------------------------+------+        +--------+--------+--------+--
//!        | header | piece of the value         | zero |        | header | child 0| child 1| …
//!        +--------+----------------------------+------+        +--------+--------+--------+--
//!                  `count` bytes                                         address u64, checksum u64
//! ```
//!
//! The pages of a value are a radix tree: every page except the last of its
//! level is full, so the length alone says which page holds a byte
//! ([`OverflowLayout`]). A value that fits in one data page has no index.

use saki_base::{PageRef, PageSize, TreeId};

use super::header::{HEADER_BYTES, Header, PAGE_REF_BYTES, page_ref_bytes, read_page_ref};
use super::{FormatError, PageExpectation, PageKind};

/// How the pages of a value of a given length are arranged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverflowLayout {
    /// Bytes of the value.
    pub length: u64,
    /// Levels of index pages: 0 if the root is the only data page.
    pub root_level: u8,
    /// Data pages, at least one.
    pub data_pages: u64,
    /// Data and index pages together.
    pub pages: u64,
    page_size: PageSize,
}

impl OverflowLayout {
    /// Bytes of a value in a full data page.
    pub const fn data_bytes(page_size: PageSize) -> usize {
        page_size.bytes() - HEADER_BYTES
    }

    /// Children of a full index page.
    pub const fn fan_out(page_size: PageSize) -> usize {
        (page_size.bytes() - HEADER_BYTES) / PAGE_REF_BYTES
    }

    /// The arrangement of a value of `length` bytes.
    pub const fn for_length(length: u64, page_size: PageSize) -> Self {
        let data_pages = match length.div_ceil(Self::data_bytes(page_size) as u64) {
            0 => 1,
            count => count,
        };
        let mut root_level = 0;
        let mut pages = data_pages;
        let mut level_pages = data_pages;
        while level_pages > 1 {
            level_pages = level_pages.div_ceil(Self::fan_out(page_size) as u64);
            pages += level_pages;
            root_level += 1;
        }
        Self { length, root_level, data_pages, pages, page_size }
    }

    /// Pages of a level: data pages are level 0, the root is level `root_level`.
    pub const fn level_pages(&self, level: u8) -> u64 {
        assert!(level <= self.root_level, "no level lies above the root's");
        let mut pages = self.data_pages;
        let mut below = 0;
        while below < level {
            pages = pages.div_ceil(Self::fan_out(self.page_size) as u64);
            below += 1;
        }
        pages
    }

    /// Children of the `index`th page of an index level (1 to `root_level`).
    pub const fn children(&self, level: u8, index: u64) -> usize {
        assert!(level > 0 && level <= self.root_level, "only index pages have children");
        let fan_out = Self::fan_out(self.page_size) as u64;
        let below = self.level_pages(level - 1).saturating_sub(index.saturating_mul(fan_out));
        if below < fan_out { below as usize } else { fan_out as usize }
    }

    /// Bytes of the value in the `index`th data page.
    pub const fn piece_bytes(&self, index: u64) -> usize {
        let capacity = Self::data_bytes(self.page_size) as u64;
        let rest = self.length.saturating_sub(index.saturating_mul(capacity));
        if rest < capacity { rest as usize } else { capacity as usize }
    }
}

/// Fills `page` with a piece of a value.
///
/// # Panics
/// If the piece is longer than [`OverflowLayout::data_bytes`], or `page` is not
/// of the expected size.
pub fn write_overflow_data(page: &mut [u8], expected: PageExpectation, piece: &[u8]) {
    assert_eq!(page.len(), expected.page_size.bytes(), "a buffer of one page");
    assert!(piece.len() <= OverflowLayout::data_bytes(expected.page_size), "piece exceeds an overflow page");
    let used = HEADER_BYTES + piece.len();
    page[HEADER_BYTES..used].copy_from_slice(piece);
    Header { kind: PageKind::OverflowData, flags: 0, level: 0, tree: expected.tree, count: piece.len(), used }
        .write(page);
}

/// A piece of a value.
#[derive(Clone, Copy, Debug)]
pub struct OverflowDataPage<'a> {
    bytes: &'a [u8],
    header: Header,
}

impl<'a> OverflowDataPage<'a> {
    /// Takes `bytes` for an overflow data page.
    pub fn open(bytes: &'a [u8], expected: PageExpectation) -> Result<Self, FormatError> {
        let header = Header::open(bytes, expected, PageKind::OverflowData)?;
        if header.used - HEADER_BYTES != header.count {
            return header.malformed(0, "the piece is not as long as the content");
        }
        Ok(Self { bytes, header })
    }

    /// The piece of the value.
    #[inline]
    pub fn piece(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..self.header.used]
    }

    /// Checks all that [`Self::open`] does not.
    pub fn verify(&self) -> Result<(), FormatError> {
        if self.header.flags != 0 || self.header.level != 0 {
            return self.header.malformed(0, "flags or level are not zero");
        }
        self.header.verify_unused(self.bytes)
    }
}

/// References to the pieces of a value, or to further index pages.
#[derive(Clone, Copy, Debug)]
pub struct OverflowIndexPage<'a> {
    bytes: &'a [u8],
    header: Header,
}

impl<'a> OverflowIndexPage<'a> {
    /// Takes `bytes` for an overflow index page.
    pub fn open(bytes: &'a [u8], expected: PageExpectation) -> Result<Self, FormatError> {
        let header = Header::open(bytes, expected, PageKind::OverflowIndex)?;
        if header.used - HEADER_BYTES != header.count.saturating_mul(PAGE_REF_BYTES) {
            return header.malformed(0, "the references are not as long as the content");
        }
        if header.count == 0 || header.level == 0 {
            return header.malformed(0, "an index page without children");
        }
        Ok(Self { bytes, header })
    }

    /// 1 if the children are data pages, more if they are index pages.
    #[inline]
    pub fn level(&self) -> u8 {
        self.header.level
    }

    /// Number of children, at least one.
    #[inline]
    pub fn count(&self) -> usize {
        self.header.count
    }

    /// The `index`th child, `index < count()`.
    #[inline]
    pub fn child(&self, index: usize) -> PageRef {
        debug_assert!(index < self.count());
        let content = &self.bytes[..self.header.used];
        read_page_ref(content, HEADER_BYTES + index.min(self.header.count) * PAGE_REF_BYTES)
    }

    /// Checks all that [`Self::open`] does not.
    pub fn verify(&self) -> Result<(), FormatError> {
        if self.header.flags != 0 {
            return self.header.malformed(0, "flags are not zero");
        }
        self.header.verify_unused(self.bytes)
    }
}

/// Gathers the children of one overflow index page.
#[derive(Clone, Debug)]
pub struct OverflowIndexBuilder {
    expected: PageExpectation,
    level: u8,
    references: Vec<u8>,
}

impl OverflowIndexBuilder {
    /// A builder of index pages of `level`, 1 if the children are data pages.
    pub fn new(page_size: PageSize, tree: TreeId, level: u8) -> Self {
        assert!(level > 0, "level 0 is of data pages");
        Self { expected: PageExpectation { page_size, tree }, level, references: Vec::new() }
    }

    /// Adds the next child; `false` if the page is full.
    pub fn try_push(&mut self, child: PageRef) -> bool {
        if self.count() == OverflowLayout::fan_out(self.expected.page_size) {
            return false;
        }
        self.references.extend_from_slice(&page_ref_bytes(child));
        true
    }

    /// Children so far.
    pub fn count(&self) -> usize {
        self.references.len() / PAGE_REF_BYTES
    }

    /// Writes the page; the builder keeps its children until [`Self::reset`].
    pub fn finish_into(&self, page: &mut [u8]) {
        assert_eq!(page.len(), self.expected.page_size.bytes(), "a buffer of one page");
        assert!(!self.references.is_empty(), "an index page without children");
        let used = HEADER_BYTES + self.references.len();
        page[HEADER_BYTES..used].copy_from_slice(&self.references);
        Header {
            kind: PageKind::OverflowIndex,
            flags: 0,
            level: self.level,
            tree: self.expected.tree,
            count: self.count(),
            used,
        }
        .write(page);
    }

    /// Empties the builder; its memory is kept.
    pub fn reset(&mut self) {
        self.references.clear();
    }
}
