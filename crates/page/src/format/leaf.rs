//! Leaf pages: the entries of a tree, sorted by key.
//!
//! The layout is that of entries (`entries.rs`), level 0. An entry's value is the rest of a
//! row in the row format, or empty. A value longer than
//! [`inline_value_bytes_max`] lies in overflow pages, and the entry has their
//! [`OverflowRef`] instead; the entries of a page that has such a value carry a
//! tag, 0 for inline and 1 for overflow. Pages without pay nothing.
//!
//! ```text
//! overflow reference:  length u64 | address of the root u64 | checksum of the root u64
//! ```

use std::cmp::Ordering;

use saki_base::bytes::{put_u64, u64_at};
use saki_base::{PageRef, PageSize, TreeId};

use super::entries::{ENTRIES_HEADER_BYTES, Entries};
use super::entries_builder::EntriesBuilder;
use super::header::{PAGE_REF_BYTES, page_ref_bytes, read_page_ref};
use super::{FormatError, PageExpectation, PageKind, inline_value_bytes_max};

const TAG_INLINE: u8 = 0;
const TAG_OVERFLOW: u8 = 1;
const OVERFLOW_REF_BYTES: usize = 8 + PAGE_REF_BYTES;

/// Where a value in overflow pages is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverflowRef {
    /// Bytes of the value; [`super::OverflowLayout::for_length`] gives its pages.
    pub length: u64,
    /// The only data page, or the topmost index page.
    pub root: PageRef,
}

/// The value of a leaf entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeafValue<'a> {
    Inline(&'a [u8]),
    Overflow(OverflowRef),
}

/// A leaf page. Accessors take an index below [`Self::count`].
#[derive(Clone, Copy, Debug)]
pub struct LeafPage<'a> {
    entries: Entries<'a>,
    page_size: PageSize,
}

impl<'a> LeafPage<'a> {
    /// Takes `bytes` for a leaf page; O(1).
    #[inline]
    pub fn open(bytes: &'a [u8], expected: PageExpectation) -> Result<Self, FormatError> {
        let entries = Entries::open(bytes, expected, PageKind::Leaf, ENTRIES_HEADER_BYTES)?;
        Ok(Self { entries, page_size: expected.page_size })
    }

    /// Number of entries.
    #[inline]
    pub fn count(&self) -> usize {
        self.entries.count()
    }

    #[inline]
    pub(super) fn entries(&self) -> &Entries<'a> {
        &self.entries
    }

    /// What all keys begin with.
    #[inline]
    pub fn prefix(&self) -> &'a [u8] {
        self.entries.prefix()
    }

    /// An entry's key without the prefix.
    #[inline]
    pub fn suffix(&self, index: usize) -> &'a [u8] {
        self.entries.suffix(index)
    }

    /// Replaces `key` by an entry's whole key.
    #[inline]
    pub fn key_into(&self, index: usize, key: &mut Vec<u8>) {
        self.entries.key_into(index, key);
    }

    /// An entry's value.
    #[inline]
    pub fn value(&self, index: usize) -> LeafValue<'a> {
        match self.entries.tag_and_value(index) {
            (TAG_INLINE, value) => LeafValue::Inline(value),
            (_, value) => LeafValue::Overflow(OverflowRef {
                length: u64_at(value, 0).unwrap_or(0),
                root: read_page_ref(value, 8),
            }),
        }
    }

    /// The first entry whose key is not less than `key`.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.entries.lower_bound(key)
    }

    /// The first entry at or after `from` whose key does not start with
    /// `prefix`: with [`Self::lower_bound`] of the prefix, all entries that do.
    #[inline]
    pub fn upper_bound_prefix(&self, prefix: &[u8], from: usize) -> usize {
        self.entries.upper_bound_prefix(prefix, from)
    }

    /// Compares an entry's key with `key`.
    #[inline]
    pub fn compare(&self, index: usize, key: &[u8]) -> Ordering {
        self.entries.compare(index, key)
    }

    /// Checks everything that [`Self::open`] does not, O(count): places, lengths
    /// and tags of entries, keys strictly ascending.
    pub fn verify(&self) -> Result<(), FormatError> {
        let header = self.entries.header();
        if header.level != 0 {
            return header.malformed(0, "level is not zero");
        }
        self.entries.verify(self.page_size)?;
        for index in 0..self.count() {
            match self.entries.tag_and_value(index) {
                (TAG_INLINE, value) if value.len() <= inline_value_bytes_max(self.page_size) => {}
                (TAG_OVERFLOW, value) if value.len() == OVERFLOW_REF_BYTES => {}
                (TAG_INLINE, _) => return header.malformed(index, "inline value is too long"),
                (TAG_OVERFLOW, _) => return header.malformed(index, "overflow reference is not of its length"),
                _ => return header.malformed(index, "unknown tag"),
            }
        }
        Ok(())
    }
}

/// Gathers the entries of one leaf page.
#[derive(Clone, Debug)]
pub struct LeafBuilder {
    entries: EntriesBuilder,
    page_size: PageSize,
}

impl LeafBuilder {
    /// A builder of leaf pages.
    pub fn new(page_size: PageSize, tree: TreeId) -> Self {
        Self { entries: EntriesBuilder::new(page_size, tree, PageKind::Leaf, ENTRIES_HEADER_BYTES), page_size }
    }

    /// Adds an entry; `false`, and nothing is changed, if the page is full. A page
    /// takes at least two entries.
    ///
    /// # Panics
    /// If the key is not greater than the last one or longer than
    /// [`super::key_bytes_max`], or an inline value is longer than
    /// [`inline_value_bytes_max`].
    #[inline]
    pub fn try_push(&mut self, key: &[u8], value: LeafValue<'_>) -> bool {
        match value {
            LeafValue::Inline(value) => {
                assert!(
                    value.len() <= inline_value_bytes_max(self.page_size),
                    "value of {} bytes belongs in overflow pages",
                    value.len()
                );
                self.entries.try_push(key, TAG_INLINE, value)
            }
            LeafValue::Overflow(overflow) => {
                let mut bytes = [0; OVERFLOW_REF_BYTES];
                put_u64(&mut bytes, 0, overflow.length);
                bytes[8..].copy_from_slice(&page_ref_bytes(overflow.root));
                self.entries.try_push(key, TAG_OVERFLOW, &bytes)
            }
        }
    }

    /// Entries so far.
    pub fn count(&self) -> usize {
        self.entries.count()
    }

    /// Key of the first entry.
    pub fn first_key(&self) -> Option<&[u8]> {
        self.entries.first_key()
    }

    /// Key of the last entry.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.entries.last_key()
    }

    /// Bytes of the page that the entries so far need, headers included.
    pub fn bytes_used(&self) -> usize {
        self.entries.bytes_used()
    }

    /// Writes the page, every byte of it; the builder keeps its entries until [`Self::reset`].
    ///
    /// # Panics
    /// If `page` is not of the page size.
    pub fn finish_into(&self, page: &mut [u8]) {
        self.entries.finish_into(0, page);
    }

    /// Empties the builder; its memory is kept.
    pub fn reset(&mut self) {
        self.entries.reset();
    }
}
