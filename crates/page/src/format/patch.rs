//! Entries of which few are changed, made of the old page by copying what stays: without looking at an entry that does
//! not change.
//!
//! ```text
//!   old page   │offsets│ prefix │ a b c d e f g h │
//!                                 └──┬──┘ x └─┬─┘      d is replaced, or removed, or x comes before it
//!   new page   │offsets│ prefix │ a b c   x   e f g h │
//! ```
//!
//! It works as long as the new entries are of the shape that the page's header says of all of them. Otherwise, and
//! where the page would get too full, it is built anew. The prefix is kept: one that all keys have in common, if no
//! longer the longest.

use saki_base::bytes::put_u16;

use super::LeafPage;
use super::entries::{
    Entries, FIXED_LENGTH_AT, FLAG_OFFSETS, KeyLength, OFFSET_BYTES, OFFSET_WRAP, PREFIX_LENGTH_AT, STRIDE_AT, WRAP_AT,
};
use super::header::Header;

/// One change of a page's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edit<'e> {
    /// The entry that goes, or before which the new one comes.
    pub at: usize,
    /// Whether entry `at` goes.
    pub removes: bool,
    /// The new entry: key, and value as an inline one.
    pub puts: Option<(&'e [u8], &'e [u8])>,
}

impl LeafPage<'_> {
    /// Writes the page with its entries changed, every byte of it, and returns how many bytes its content has; `None`,
    /// with anything on the page, if it has to be built anew: an entry is of another shape, or they do not fit, or none
    /// is left.
    ///
    /// Edits ascend by `at`; with their keys, the page's must ascend strictly; values are not too long for a leaf.
    pub fn patch(&self, edits: &[Edit<'_>], page: &mut [u8]) -> Option<usize> {
        let entries = self.entries();
        let removed = edits.iter().filter(|edit| edit.removes).count();
        let put = edits.iter().filter(|edit| edit.puts.is_some()).count();
        let count = (entries.count() + put).checked_sub(removed).filter(|count| *count > 0)?;
        let mut patch = Patch::begin(entries, count, page)?;
        let mut next = 0;
        for edit in edits {
            patch.copy(next, edit.at)?;
            if let Some((key, value)) = edit.puts {
                patch.put(key, value)?;
            }
            next = edit.at + usize::from(edit.removes);
        }
        patch.copy(next, entries.count())?;
        patch.finish(count)
    }
}

/// A page in the making.
struct Patch<'p, 'o> {
    old: &'o Entries<'o>,
    page: &'p mut [u8],
    /// Entries so far, and where the next one goes.
    count: usize,
    at: usize,
    /// The first entry whose offset is short of [`OFFSET_WRAP`].
    wrap: Option<usize>,
}

impl<'p, 'o> Patch<'p, 'o> {
    /// Puts the prefix in its place before `count` entries.
    fn begin(old: &'o Entries<'o>, count: usize, page: &'p mut [u8]) -> Option<Self> {
        let prefix_at = old.offsets_at() + if old.has_offsets() { count * OFFSET_BYTES } else { 0 };
        let at = prefix_at + old.prefix().len();
        page.get_mut(prefix_at..at)?.copy_from_slice(old.prefix());
        Some(Self { old, page, count: 0, at, wrap: None })
    }

    /// Takes over the entries `from..until`.
    fn copy(&mut self, from: usize, until: usize) -> Option<()> {
        if from == until {
            return Some(());
        }
        let start = self.old.entry_start(from);
        let bytes = self.old.bytes(start..self.old.entry_start(until))?;
        self.page.get_mut(self.at..self.at + bytes.len())?.copy_from_slice(bytes);
        if self.old.has_offsets() {
            for entry in from..until {
                self.offset(self.at + self.old.entry_start(entry).checked_sub(start)?);
            }
        }
        self.at += bytes.len();
        Some(())
    }

    /// Adds an entry, if it is of the page's shape.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let old = self.old;
        let suffix = key.strip_prefix(old.prefix())?;
        let tag = usize::from(old.tagged());
        let length = old.key_length().width() + suffix.len() + tag + value.len();
        let fits = match old.key_length() {
            KeyLength::FixedSuffix => suffix.len() == old.fixed_length(),
            KeyLength::FixedValue => tag + value.len() == old.fixed_length(),
            KeyLength::Byte => suffix.len() <= u8::MAX.into(),
            KeyLength::TwoBytes => true,
        };
        if !fits || !old.has_offsets() && length != old.stride() {
            return None;
        }
        let entry = self.page.get_mut(self.at..self.at + length)?;
        let (head, rest) = entry.split_at_mut(old.key_length().width());
        match old.key_length() {
            KeyLength::FixedSuffix | KeyLength::FixedValue => {}
            KeyLength::Byte => head[0] = suffix.len() as u8,
            KeyLength::TwoBytes => put_u16(head, 0, suffix.len() as u16),
        }
        let (start, end) = rest.split_at_mut(suffix.len());
        start.copy_from_slice(suffix);
        // The tag of an inline value is zero.
        end[..tag].fill(0);
        end[tag..].copy_from_slice(value);
        if old.has_offsets() {
            self.offset(self.at);
        }
        self.at += length;
        Some(())
    }

    fn offset(&mut self, start: usize) {
        put_u16(self.page, self.old.offsets_at() + self.count * OFFSET_BYTES, (start % OFFSET_WRAP) as u16);
        if start >= OFFSET_WRAP {
            self.wrap.get_or_insert(self.count);
        }
        self.count += 1;
    }

    fn finish(self, count: usize) -> Option<usize> {
        let Self { old, page, at, wrap, .. } = self;
        let header = old.header();
        assert!(at <= page.len(), "a patched page of {at} bytes");
        put_u16(page, PREFIX_LENGTH_AT, old.prefix().len() as u16);
        put_u16(page, FIXED_LENGTH_AT, old.fixed_length() as u16);
        put_u16(page, STRIDE_AT, old.stride() as u16);
        put_u16(page, WRAP_AT, if header.flags & FLAG_OFFSETS == 0 { 0 } else { wrap.unwrap_or(count) as u16 });
        Header { count, used: at, ..*header }.write(page);
        Some(at)
    }
}
