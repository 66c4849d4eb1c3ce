//! Sorted entries in a page, what leaf and inner pages are made of.
//!
//! ```text
//! 0        16              24      offsets_at                      used        page size
//! +--------+---------------+-------+-------+--------+--------------+-----------+
//! | header | their header  | extra |offsets| prefix | entries      | zero      |
//! | 16     | 8             |       | 2 x n |        | in key order |           |
//! +--------+---------------+-------+-------+--------+--------------+-----------+
//!            |
//!            +-- prefix length u16, fixed length u16, stride u16, wrap u16
//!
//! entry:  [suffix length: 0, 1 or 2 bytes] suffix [tag: 0 or 1 byte] value
//! ```
//!
//! *extra* is the inner page's first child; a leaf has none. An entry's key is
//! the page's prefix followed by its suffix. What all entries have in common is
//! said once, in the header:
//!
//! - The **prefix** is a common one of all keys: the longest, unless entries have come and gone since the page was
//!   built (`patch.rs`).
//! - The **suffix length** is in the entry only if neither all suffixes nor all
//!   values are equally long (two bits of the flags, [`KeyLength`]); *fixed
//!   length* is that common length, of the suffix or of tag and value.
//! - **Offsets** (start of each entry, from the page's start) are there only if
//!   the entries differ in length; else *stride* is that length. Entries lie
//!   one after the other, so each ends where the next begins.
//! - Offsets are two bytes even in a page of 128 KiB: starts only grow, so those
//!   from entry *wrap* on are meant plus 65 536, and no earlier one is.
//! - **Tags** are there only if some entry's tag is not zero.
//!
//! `entries_builder.rs` writes them, `patch.rs` changes them. The proof is in `tests.rs`: against a model, and with
//! damaged pages.

use std::cmp::Ordering;

use saki_base::PageSize;
use saki_base::bytes::u16_at;

use super::header::{HEADER_BYTES, Header};
use super::{FormatError, PageExpectation, PageKind, inline_value_bytes_max, key_bytes_max};

/// Bytes of page header and entries' header.
pub(super) const ENTRIES_HEADER_BYTES: usize = HEADER_BYTES + 8;
pub(super) const PREFIX_LENGTH_AT: usize = HEADER_BYTES;
pub(super) const FIXED_LENGTH_AT: usize = HEADER_BYTES + 2;
pub(super) const STRIDE_AT: usize = HEADER_BYTES + 4;
pub(super) const WRAP_AT: usize = HEADER_BYTES + 6;

pub(super) const OFFSET_BYTES: usize = 2;
/// What offsets from entry *wrap* on are short of.
pub(super) const OFFSET_WRAP: usize = 1 << 16;

/// Flag: entries differ in length and have offsets.
pub(super) const FLAG_OFFSETS: u8 = 0b0001;
/// Flags: how a suffix's length is known ([`KeyLength`]).
pub(super) const FLAG_KEY_LENGTH_SHIFT: u8 = 1;
const FLAG_KEY_LENGTH_MASK: u8 = 0b0110;
/// Flag: entries have a tag.
pub(super) const FLAG_TAGGED: u8 = 0b1000;
const FLAGS_KNOWN: u8 = FLAG_OFFSETS | FLAG_KEY_LENGTH_MASK | FLAG_TAGGED;

/// Largest content of one entry beside its key: tag and value or, in an
/// inner page, a page reference.
const fn entry_bytes_max(page_size: PageSize) -> usize {
    // Suffix length, suffix, tag, value.
    2 + key_bytes_max(page_size) + 1 + inline_value_bytes_max(page_size)
}

const _: () = {
    let mut bytes = saki_base::PAGE_BYTES_MIN;
    while bytes <= saki_base::PAGE_BYTES_MAX {
        let Ok(page_size) = PageSize::new(bytes) else { unreachable!() };
        // Two of the largest entries fit, so a bulk load or a split always advances.
        assert!(
            ENTRIES_HEADER_BYTES + 2 * (OFFSET_BYTES + entry_bytes_max(page_size)) <= page_size.bytes(),
            "a page takes two entries of any size"
        );
        // Prefix length, fixed length and stride are two bytes each.
        assert!(entry_bytes_max(page_size) <= u16::MAX as usize);
        // One wrap reaches the last byte.
        assert!(page_size.bytes() <= 2 * OFFSET_WRAP);
        bytes *= 2;
    }
};

/// How a reader knows how long an entry's suffix is. The numbers are on pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum KeyLength {
    /// All suffixes are of the fixed length.
    FixedSuffix = 0,
    /// All values (with their tags) are of the fixed length; the suffix is the rest.
    FixedValue = 1,
    /// In a byte before the suffix.
    Byte = 2,
    /// In two bytes before the suffix.
    TwoBytes = 3,
}

impl KeyLength {
    const fn from_flags(flags: u8) -> Self {
        match (flags & FLAG_KEY_LENGTH_MASK) >> FLAG_KEY_LENGTH_SHIFT {
            0 => Self::FixedSuffix,
            1 => Self::FixedValue,
            2 => Self::Byte,
            _ => Self::TwoBytes,
        }
    }

    /// Bytes of the length in every entry.
    pub(super) const fn width(self) -> usize {
        match self {
            Self::FixedSuffix | Self::FixedValue => 0,
            Self::Byte => 1,
            Self::TwoBytes => 2,
        }
    }
}

/// A page's entries. Accessors take an index below `count()`; for any other, as for
/// a malformed page, they return something empty or meaningless, without panic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries<'a> {
    page: &'a [u8],
    header: Header,
    prefix: &'a [u8],
    key_length: KeyLength,
    fixed_length: usize,
    offsets_at: usize,
    entries_at: usize,
    stride: usize,
    wrap: usize,
}

impl<'a> Entries<'a> {
    /// Takes `page` for a page of kind `kind` with entries whose offsets are at `offsets_at`.
    #[inline]
    pub(super) fn open(
        page: &'a [u8],
        expected: PageExpectation,
        kind: PageKind,
        offsets_at: usize,
    ) -> Result<Self, FormatError> {
        let header = Header::open(page, expected, kind)?;
        let has_offsets = header.flags & FLAG_OFFSETS != 0;
        let prefix_at = offsets_at + if has_offsets { header.count.saturating_mul(OFFSET_BYTES) } else { 0 };
        let entries_at = prefix_at.saturating_add(u16_at(page, PREFIX_LENGTH_AT).unwrap_or(0) as usize);
        if entries_at > header.used {
            return header.malformed(0, "offsets and prefix exceed the content");
        }
        let stride = u16_at(page, STRIDE_AT).unwrap_or(0) as usize;
        if !has_offsets && header.count.saturating_mul(stride) != header.used - entries_at {
            return header.malformed(0, "entries of equal length do not fill the content");
        }
        Ok(Self {
            page,
            header,
            prefix: &page[prefix_at..entries_at],
            key_length: KeyLength::from_flags(header.flags),
            fixed_length: u16_at(page, FIXED_LENGTH_AT).unwrap_or(0) as usize,
            offsets_at,
            entries_at,
            stride,
            wrap: u16_at(page, WRAP_AT).unwrap_or(0) as usize,
        })
    }

    #[inline]
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.header.count
    }

    #[inline]
    pub(super) fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// Whether entries begin their values with a tag.
    #[inline]
    pub(super) fn tagged(&self) -> bool {
        self.header.flags & FLAG_TAGGED != 0
    }

    #[inline]
    pub(super) fn has_offsets(&self) -> bool {
        self.header.flags & FLAG_OFFSETS != 0
    }

    /// Where an entry starts; where the last one ends for `index == count()`.
    #[inline]
    pub(super) fn entry_start(&self, index: usize) -> usize {
        if index >= self.header.count {
            return self.header.used;
        }
        if self.has_offsets() {
            let offset = u16_at(self.page, self.offsets_at + index * OFFSET_BYTES).unwrap_or(0) as usize;
            offset + if index >= self.wrap { OFFSET_WRAP } else { 0 }
        } else {
            self.entries_at + index * self.stride
        }
    }

    /// Bytes of the page, as long as they are content.
    #[inline]
    pub(super) fn bytes(&self, range: std::ops::Range<usize>) -> Option<&'a [u8]> {
        self.page.get(..self.header.used)?.get(range)
    }

    #[inline]
    pub(super) fn key_length(&self) -> KeyLength {
        self.key_length
    }

    /// Of suffixes, or of tags and values, where they are equally long.
    #[inline]
    pub(super) fn fixed_length(&self) -> usize {
        self.fixed_length
    }

    /// Of all entries, where they are equally long.
    #[inline]
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    #[inline]
    pub(super) fn offsets_at(&self) -> usize {
        self.offsets_at
    }

    /// All bytes of an entry.
    #[inline]
    fn entry(&self, index: usize) -> &'a [u8] {
        if index >= self.header.count {
            return &[];
        }
        self.page.get(self.entry_start(index)..self.entry_start(index + 1)).unwrap_or_default()
    }

    /// An entry's suffix, and its tag and value.
    #[inline]
    fn split(&self, index: usize) -> Option<(&'a [u8], &'a [u8])> {
        let entry = self.entry(index);
        match self.key_length {
            KeyLength::FixedSuffix => entry.split_at_checked(self.fixed_length),
            KeyLength::FixedValue => entry.split_at_checked(entry.len().checked_sub(self.fixed_length)?),
            KeyLength::Byte => entry.get(1..)?.split_at_checked(entry[0] as usize),
            KeyLength::TwoBytes => entry.get(2..)?.split_at_checked(u16_at(entry, 0)? as usize),
        }
    }

    /// An entry's key without the page's prefix.
    #[inline]
    pub(super) fn suffix(&self, index: usize) -> &'a [u8] {
        self.split(index).unwrap_or_default().0
    }

    /// An entry's tag (zero if the page has none) and value.
    #[inline]
    pub(super) fn tag_and_value(&self, index: usize) -> (u8, &'a [u8]) {
        let rest = self.split(index).unwrap_or_default().1;
        match rest.split_first() {
            Some((tag, value)) if self.tagged() => (*tag, value),
            _ => (0, rest),
        }
    }

    /// Replaces `key` by an entry's whole key.
    #[inline]
    pub(super) fn key_into(&self, index: usize, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.prefix);
        key.extend_from_slice(self.suffix(index));
    }

    /// Compares an entry's key with `key`.
    #[inline]
    pub(super) fn compare(&self, index: usize, key: &[u8]) -> Ordering {
        match self.after_prefix(key) {
            Ok(rest) => self.suffix(index).cmp(rest),
            Err(ordering) => ordering,
        }
    }

    /// What follows the page's prefix in `key`; or, if `key` does not start with
    /// it, how every key of the page compares with `key`.
    #[inline]
    fn after_prefix<'k>(&self, key: &'k [u8]) -> Result<&'k [u8], Ordering> {
        match key.split_at_checked(self.prefix.len()) {
            Some((head, rest)) => match self.prefix.cmp(head) {
                Ordering::Equal => Ok(rest),
                ordering => Err(ordering),
            },
            // A key that ends inside the prefix is less than what it begins.
            None => Err(self.prefix.cmp(key)),
        }
    }

    /// The first entry whose key is not less than `key`.
    #[inline]
    pub(super) fn lower_bound(&self, key: &[u8]) -> usize {
        match self.after_prefix(key) {
            Ok(rest) => {
                let head = head(rest);
                self.partition(0, self.count(), |suffix| compare_suffix(suffix, head, rest).is_lt())
            }
            Err(Ordering::Less) => self.count(),
            Err(_) => 0,
        }
    }

    /// The first entry whose key is greater than `key`.
    #[inline]
    pub(super) fn upper_bound(&self, key: &[u8]) -> usize {
        match self.after_prefix(key) {
            Ok(rest) => {
                let head = head(rest);
                self.partition(0, self.count(), |suffix| compare_suffix(suffix, head, rest).is_le())
            }
            Err(Ordering::Less) => self.count(),
            Err(_) => 0,
        }
    }

    /// The first entry at or after `from` whose key does not start with `prefix`.
    pub(super) fn upper_bound_prefix(&self, prefix: &[u8], from: usize) -> usize {
        let count = self.count();
        let Some(rest) = prefix.strip_prefix(self.prefix) else {
            return if self.prefix.starts_with(prefix) { count } else { from };
        };
        // Few entries share a prefix, as a rule: look ahead 1, 2, 4, … before
        // halving what is left.
        let mut low = from;
        let mut step = 1;
        while low < count && step <= count - low && self.suffix(low + step - 1).starts_with(rest) {
            low += step;
            step *= 2;
        }
        let high = count.min(low.saturating_add(step - 1)).max(low);
        self.partition(low, high, |suffix| suffix.starts_with(rest))
    }

    /// The first entry of `low..high` that is not `before`, given that those
    /// that are come first; `high` if there is none.
    #[inline]
    fn partition(&self, mut low: usize, mut high: usize, before: impl Fn(&[u8]) -> bool) -> usize {
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.suffix(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Checks everything about the entries that `open` does not; O(count).
    pub(super) fn verify(&self, page_size: PageSize) -> Result<(), FormatError> {
        if self.header.flags & !FLAGS_KNOWN != 0 {
            return self.header.malformed(0, "unknown flags");
        }
        self.header.verify_unused(self.page)?;
        let mut expected_start = self.entries_at;
        for index in 0..self.count() {
            let (start, end) = (self.entry_start(index), self.entry_start(index + 1));
            if start != expected_start || end < start || end > self.header.used {
                return self.header.malformed(index, "entry is not where the one before it ends");
            }
            expected_start = end;
            let Some((suffix, rest)) = self.split(index) else {
                return self.header.malformed(index, "suffix or value is longer than the entry");
            };
            if self.prefix.len() + suffix.len() > key_bytes_max(page_size) {
                return self.header.malformed(index, "key is too long");
            }
            if self.tagged() && rest.is_empty() {
                return self.header.malformed(index, "entry without a tag");
            }
            if index > 0 && self.suffix(index - 1) >= suffix {
                return self.header.malformed(index, "keys are not strictly ascending");
            }
        }
        if expected_start != self.header.used {
            return self.header.malformed(self.count(), "content goes on after the last entry");
        }
        Ok(())
    }
}

/// The first eight bytes as a number, zeroes where there are fewer: two that
/// differ are in the order of the bytes.
#[inline]
fn head(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*eight);
    }
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            // The two overlap in bytes that are the same in both.
            let missing = 8 - bytes.len();
            u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << (8 * missing)
        }
        _ => bytes.iter().rev().fold(0, |head, byte| head >> 8 | u64::from(*byte) << 56),
    }
}

/// Compares a suffix with a key's rest, whose head is given. Heads decide most
/// comparisons of a search, without a call.
#[inline]
fn compare_suffix(suffix: &[u8], rest_head: u64, rest: &[u8]) -> Ordering {
    head(suffix).cmp(&rest_head).then_with(|| suffix.cmp(rest))
}
