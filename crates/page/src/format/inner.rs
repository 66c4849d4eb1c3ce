//! Inner pages: the children of a tree's node and the keys that separate them.
//!
//! The layout is that of entries (`entries.rs`) with the first child before the offsets; each
//! further child is an entry whose key is its separator and whose value is its
//! page reference.
//!
//! ```text
//! 24                      40
//! +-----------------------+-------+--------+----------------------------------+
//! | first child           |offsets| prefix | separator 1, child 1, separator 2, …
//! | address, checksum u64 |       |        |
//! +-----------------------+-------+--------+----------------------------------+
//!
//!       child 0   │  child 1    │  child 2
//!    keys < sep 1 │ sep 1 <= …  │ sep 2 <= …
//! ```
//!
//! A separator is the shortest key that tells its child from the one before
//! ([`shortest_separator`]), so inner pages stay wide. The first child needs
//! none: what its keys are not less than, the page's parent knows.

use std::ops::Range;

use saki_base::{PageRef, PageSize, TreeId};

use super::entries::{ENTRIES_HEADER_BYTES, Entries};
use super::entries_builder::{EntriesBuilder, common_prefix_length};
use super::header::{PAGE_REF_BYTES, page_ref_bytes, read_page_ref};
use super::{FormatError, PageExpectation, PageKind, key_bytes_max};

const FIRST_CHILD_AT: usize = ENTRIES_HEADER_BYTES;
const OFFSETS_AT: usize = FIRST_CHILD_AT + PAGE_REF_BYTES;

/// Fewest children of a page that is full.
const CHILDREN_MIN: usize = 6;
const _: () = {
    let Ok(page_size) = PageSize::new(saki_base::PAGE_BYTES_MIN) else { unreachable!() };
    // Larger pages have the same share of header, or less. Values are of one
    // length, so an entry is at most offset, separator and reference.
    let entry_max = 2 + key_bytes_max(page_size) + PAGE_REF_BYTES;
    assert!(OFFSETS_AT + (CHILDREN_MIN - 1) * entry_max <= page_size.bytes());
};

/// An inner page. Children count from 0 to `count() - 1`.
#[derive(Clone, Copy, Debug)]
pub struct InnerPage<'a> {
    /// Entry `i` is separator and reference of child `i + 1`.
    entries: Entries<'a>,
    bytes: &'a [u8],
    page_size: PageSize,
}

impl<'a> InnerPage<'a> {
    /// Takes `bytes` for an inner page; O(1).
    #[inline]
    pub fn open(bytes: &'a [u8], expected: PageExpectation) -> Result<Self, FormatError> {
        let entries = Entries::open(bytes, expected, PageKind::Inner, OFFSETS_AT)?;
        if entries.header().level == 0 {
            return entries.header().malformed(0, "level is zero");
        }
        Ok(Self { entries, bytes, page_size: expected.page_size })
    }

    /// 1 if the children are leaves, more if they are inner pages; exactly one
    /// more than the level of its inner children.
    #[inline]
    pub fn level(&self) -> u8 {
        self.entries.header().level
    }

    /// Number of children, at least one.
    #[inline]
    pub fn count(&self) -> usize {
        self.entries.count() + 1
    }

    /// Reference to a child.
    #[inline]
    pub fn child(&self, index: usize) -> PageRef {
        match index.checked_sub(1) {
            None => read_page_ref(self.bytes, FIRST_CHILD_AT),
            Some(entry) => read_page_ref(self.entries.tag_and_value(entry).1, 0),
        }
    }

    /// What all separators begin with.
    #[inline]
    pub fn prefix(&self) -> &'a [u8] {
        self.entries.prefix()
    }

    /// Replaces `separator` by the separator of child `index`: no key below that
    /// child is less. Empty for the first child.
    #[inline]
    pub fn separator_into(&self, index: usize, separator: &mut Vec<u8>) {
        match index.checked_sub(1) {
            None => separator.clear(),
            Some(entry) => self.entries.key_into(entry, separator),
        }
    }

    /// The only child below which `key` can be.
    #[inline]
    pub fn child_for(&self, key: &[u8]) -> usize {
        self.entries.upper_bound(key)
    }

    /// The children below which there can be keys of `low..high_exclusive`;
    /// `None` is no bound. Empty if the range is.
    pub fn child_range(&self, low: Option<&[u8]>, high_exclusive: Option<&[u8]>) -> Range<usize> {
        let start = low.map_or(0, |low| self.child_for(low));
        let end = match high_exclusive {
            None => self.count(),
            Some(high) if high <= low.unwrap_or_default() => start,
            Some(high) => self.entries.lower_bound(high) + 1,
        };
        // Only a malformed page, with unsorted separators, can give less than start.
        start..end.max(start)
    }

    /// The children below which there can be keys that start with `prefix`; at least one.
    #[inline]
    pub fn children_with_prefix(&self, prefix: &[u8]) -> Range<usize> {
        let start = self.child_for(prefix);
        // Entry `start` is the separator of child `start + 1`.
        start..self.entries.upper_bound_prefix(prefix, start) + 1
    }

    /// Checks everything that [`Self::open`] does not, O(count): places and
    /// lengths of entries, separators strictly ascending and not empty.
    pub fn verify(&self) -> Result<(), FormatError> {
        self.entries.verify(self.page_size)?;
        for entry in 0..self.entries.count() {
            if self.entries.tag_and_value(entry).1.len() != PAGE_REF_BYTES || self.entries.tagged() {
                return self.entries.header().malformed(entry, "page reference is not of its length");
            }
        }
        if self.entries.count() > 0 && self.entries.prefix().is_empty() && self.entries.suffix(0).is_empty() {
            return self.entries.header().malformed(0, "separator is empty");
        }
        Ok(())
    }
}

/// Gathers the children of one inner page.
#[derive(Clone, Debug)]
pub struct InnerBuilder {
    entries: EntriesBuilder,
    level: u8,
    first_child: Option<PageRef>,
    first_separator: Vec<u8>,
}

impl InnerBuilder {
    /// A builder of inner pages of `level`, 1 if the children are leaves.
    ///
    /// # Panics
    /// If `level` is 0.
    pub fn new(page_size: PageSize, tree: TreeId, level: u8) -> Self {
        assert!(level > 0, "level 0 is of leaves");
        let entries = EntriesBuilder::new(page_size, tree, PageKind::Inner, OFFSETS_AT);
        Self { entries, level, first_child: None, first_separator: Vec::new() }
    }

    /// Adds the next child; `false`, and nothing is changed, if the page is full.
    /// A page takes at least six children. The first child's separator is not
    /// stored in the page: it is kept as [`Self::first_separator`], for the parent.
    ///
    /// # Panics
    /// If the separator is not greater than the last one, or longer than
    /// [`super::key_bytes_max`].
    #[inline]
    pub fn try_push(&mut self, separator: &[u8], child: PageRef) -> bool {
        if self.first_child.is_none() {
            self.first_child = Some(child);
            self.first_separator.clear();
            self.first_separator.extend_from_slice(separator);
            return true;
        }
        assert!(self.entries.count() > 0 || self.first_separator.as_slice() < separator, "separators do not ascend");
        self.entries.try_push(separator, 0, &page_ref_bytes(child))
    }

    /// Children so far.
    pub fn count(&self) -> usize {
        self.entries.count() + usize::from(self.first_child.is_some())
    }

    /// The separator that the first child was pushed with: the one of this whole page in its parent.
    pub fn first_separator(&self) -> Option<&[u8]> {
        self.first_child.map(|_| self.first_separator.as_slice())
    }

    /// Bytes of the page that the children so far need, headers included.
    pub fn bytes_used(&self) -> usize {
        self.entries.bytes_used()
    }

    /// Writes the page, every byte of it; the builder keeps its children until [`Self::reset`].
    ///
    /// # Panics
    /// If there is no child, or `page` is not of the page size.
    pub fn finish_into(&self, page: &mut [u8]) {
        let first_child = self.first_child.expect("an inner page has children");
        self.entries.finish_into(self.level, page);
        page[FIRST_CHILD_AT..OFFSETS_AT].copy_from_slice(&page_ref_bytes(first_child));
    }

    /// Empties the builder; its memory is kept.
    pub fn reset(&mut self) {
        self.entries.reset();
        self.first_child = None;
    }
}

/// Replaces `separator` by the shortest key that is greater than `left_last`
/// and not greater than `right_first`, where `left_last < right_first`.
pub fn shortest_separator(left_last: &[u8], right_first: &[u8], separator: &mut Vec<u8>) {
    debug_assert!(left_last < right_first, "no separator fits between keys that do not ascend");
    let length = (common_prefix_length(left_last, right_first) + 1).min(right_first.len());
    separator.clear();
    separator.extend_from_slice(&right_first[..length]);
}
