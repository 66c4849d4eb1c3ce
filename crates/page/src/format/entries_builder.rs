//! Writes entries (`entries.rs`): entries are gathered until the page is full.
//!
//! Which of the savings a page can use (prefix, fixed lengths, no offsets, no tags)
//! depends on all of its entries, and one more entry can end one of them. So the
//! builder keeps the few numbers that decide ([`Shape`]) and works out from them,
//! for every entry, exactly how long the page would be.

use saki_base::bytes::put_u16;
use saki_base::{PageSize, TreeId};

use super::entries::{
    FIXED_LENGTH_AT, FLAG_KEY_LENGTH_SHIFT, FLAG_OFFSETS, FLAG_TAGGED, KeyLength, OFFSET_BYTES, OFFSET_WRAP,
    PREFIX_LENGTH_AT, STRIDE_AT, WRAP_AT,
};
use super::header::Header;
use super::{PageKind, key_bytes_max};

/// All that decides how many bytes entries take.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    count: usize,
    /// Of the longest common prefix of all keys.
    prefix_length: usize,
    /// Shortest, longest and all keys, in bytes.
    key_min: usize,
    key_max: usize,
    key_bytes: usize,
    /// Shortest, longest and all values, in bytes, tags not counted.
    value_min: usize,
    value_max: usize,
    value_bytes: usize,
    tagged: bool,
}

impl Shape {
    /// The shape with one more entry.
    #[inline]
    fn with(&self, prefix_length: usize, key: usize, value: usize, tag: u8) -> Self {
        let first = self.count == 0;
        Self {
            count: self.count + 1,
            prefix_length,
            key_min: if first { key } else { self.key_min.min(key) },
            key_max: self.key_max.max(key),
            key_bytes: self.key_bytes + key,
            value_min: if first { value } else { self.value_min.min(value) },
            value_max: self.value_max.max(value),
            value_bytes: self.value_bytes + value,
            tagged: self.tagged || tag != 0,
        }
    }

    #[inline]
    fn key_length(&self) -> KeyLength {
        if self.key_min == self.key_max {
            KeyLength::FixedSuffix
        } else if self.value_min == self.value_max {
            KeyLength::FixedValue
        } else if self.key_max - self.prefix_length <= u8::MAX as usize {
            KeyLength::Byte
        } else {
            KeyLength::TwoBytes
        }
    }

    #[inline]
    fn has_offsets(&self) -> bool {
        self.key_min != self.key_max || self.value_min != self.value_max
    }

    fn fixed_length(&self) -> usize {
        match self.key_length() {
            KeyLength::FixedSuffix => self.key_min - self.prefix_length,
            KeyLength::FixedValue => self.value_min + self.tagged as usize,
            KeyLength::Byte | KeyLength::TwoBytes => 0,
        }
    }

    /// Length of each entry, 0 if they differ.
    fn stride(&self) -> usize {
        if self.has_offsets() { 0 } else { self.key_min - self.prefix_length + self.tagged as usize + self.value_min }
    }

    /// Bytes of offsets, prefix and entries: exactly what [`EntriesBuilder::finish_into`] writes.
    #[inline]
    fn bytes(&self) -> usize {
        let offset = if self.has_offsets() { OFFSET_BYTES } else { 0 };
        let per_entry = offset + self.key_length().width() + self.tagged as usize;
        let suffix_bytes = self.key_bytes - self.count * self.prefix_length;
        self.prefix_length + self.count * per_entry + suffix_bytes + self.value_bytes
    }
}

/// An entry's bytes in [`EntriesBuilder::content`]: its key, then its value, from
/// where the entry before ends.
#[derive(Clone, Copy, Debug)]
struct Ends {
    key: u32,
    value: u32,
    tag: u8,
}

/// Gathers the entries of one page. The prefix is known only when the last key
/// is, so entries are kept whole and put in place by [`Self::finish_into`].
#[derive(Clone, Debug)]
pub(super) struct EntriesBuilder {
    page_size: PageSize,
    tree: TreeId,
    kind: PageKind,
    offsets_at: usize,
    shape: Shape,
    content: Vec<u8>,
    ends: Vec<Ends>,
}

impl EntriesBuilder {
    pub(super) fn new(page_size: PageSize, tree: TreeId, kind: PageKind, offsets_at: usize) -> Self {
        let shape = Shape::default();
        Self { page_size, tree, kind, offsets_at, shape, content: Vec::new(), ends: Vec::new() }
    }

    /// Adds an entry; `false`, and nothing is changed, if the page is full.
    #[inline]
    pub(super) fn try_push(&mut self, key: &[u8], tag: u8, value: &[u8]) -> bool {
        assert!(key.len() <= key_bytes_max(self.page_size), "key of {} bytes is too long", key.len());
        let prefix_length = match self.ends.first() {
            None => key.len(),
            Some(first) => {
                assert!(self.last_key() < Some(key), "keys are not strictly ascending");
                // Keys ascend, so what the first and the last have in common, all have.
                common_prefix_length(&self.content[..self.shape.prefix_length.min(first.key as usize)], key)
            }
        };
        let shape = self.shape.with(prefix_length, key.len(), value.len(), tag);
        if self.offsets_at + shape.bytes() > self.page_size.bytes() {
            return false;
        }
        self.shape = shape;
        self.content.extend_from_slice(key);
        let key_end = self.content.len() as u32;
        self.content.extend_from_slice(value);
        self.ends.push(Ends { key: key_end, value: self.content.len() as u32, tag });
        true
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn first_key(&self) -> Option<&[u8]> {
        self.ends.first().map(|ends| &self.content[..ends.key as usize])
    }

    #[inline]
    pub(super) fn last_key(&self) -> Option<&[u8]> {
        let last = self.ends.last()?;
        let start = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before].value);
        Some(&self.content[start as usize..last.key as usize])
    }

    /// Bytes of the page with the entries so far, headers included.
    pub(super) fn bytes_used(&self) -> usize {
        self.offsets_at + self.shape.bytes()
    }

    /// Writes the page, all but what lies between their header and offsets.
    pub(super) fn finish_into(&self, level: u8, page: &mut [u8]) {
        assert_eq!(page.len(), self.page_size.bytes(), "a buffer of one page");
        assert!(self.bytes_used() <= page.len(), "{} bytes do not fit in a page", self.bytes_used());
        assert_eq!(self.ends.len(), self.shape.count, "the shape is of other entries");
        let shape = &self.shape;
        let offsets_bytes = if shape.has_offsets() { OFFSET_BYTES * shape.count } else { 0 };
        let prefix_at = self.offsets_at + offsets_bytes;
        let mut at = prefix_at + shape.prefix_length;
        page[prefix_at..at].copy_from_slice(&self.content[..shape.prefix_length]);

        let mut wrap = shape.count;
        let mut start = 0;
        for (index, ends) in self.ends.iter().enumerate() {
            if shape.has_offsets() {
                put_u16(page, self.offsets_at + index * OFFSET_BYTES, (at % OFFSET_WRAP) as u16);
                if at >= OFFSET_WRAP && wrap == shape.count {
                    wrap = index;
                }
            }
            let suffix = &self.content[start + shape.prefix_length..ends.key as usize];
            let value = &self.content[ends.key as usize..ends.value as usize];
            match shape.key_length() {
                KeyLength::FixedSuffix | KeyLength::FixedValue => {}
                KeyLength::Byte => page[at] = suffix.len() as u8,
                KeyLength::TwoBytes => put_u16(page, at, suffix.len() as u16),
            }
            at += shape.key_length().width();
            page[at..at + suffix.len()].copy_from_slice(suffix);
            at += suffix.len();
            if shape.tagged {
                page[at] = ends.tag;
                at += 1;
            }
            page[at..at + value.len()].copy_from_slice(value);
            at += value.len();
            start = ends.value as usize;
        }
        assert_eq!(at, self.bytes_used(), "the page is as long as was promised");

        put_u16(page, PREFIX_LENGTH_AT, shape.prefix_length as u16);
        put_u16(page, FIXED_LENGTH_AT, shape.fixed_length() as u16);
        put_u16(page, STRIDE_AT, shape.stride() as u16);
        put_u16(page, WRAP_AT, if shape.has_offsets() { wrap as u16 } else { 0 });
        let flags = if shape.has_offsets() { FLAG_OFFSETS } else { 0 }
            | (shape.key_length() as u8) << FLAG_KEY_LENGTH_SHIFT
            | if shape.tagged { FLAG_TAGGED } else { 0 };
        Header { kind: self.kind, flags, level, tree: self.tree, count: shape.count, used: at }.write(page);
    }

    /// Empties the builder; its memory is kept.
    pub(super) fn reset(&mut self) {
        self.shape = Shape::default();
        self.content.clear();
        self.ends.clear();
    }
}

/// Bytes that `left` and `right` have in common at their start.
#[inline]
pub(super) fn common_prefix_length(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}
