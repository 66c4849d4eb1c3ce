//! A run with few entries changed, made of the old page by copying what stays: without looking at an entry that does not change.
//!
//! ```text
//!   old page   │ slots │ prefix │ a b c d e f g h │
//!                                 └──┬──┘ x └─┬─┘      d is replaced, or removed, or x comes before it
//!   new page   │ slots │ prefix │ a b c   x   e f g h │
//! ```
//!
//! It works as long as the new entries are of the shape that the page's header says of all of them. Otherwise, and where the page would
//! get too full, it is built anew. The prefix is kept: one that all keys have in common, if no longer the longest.

use super::LeafView;
use super::header::{Header, write_u16};
use super::run::{
    FIXED_LENGTH_AT, FLAG_SLOTTED, KeyLength, PREFIX_LENGTH_AT, RunView, SLOT_BYTES, SLOT_WRAP, STRIDE_AT, WRAP_AT,
};

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

impl LeafView<'_> {
    /// Writes the page with its entries changed, every byte of it, and returns how many bytes its content has; `None`, with
    /// anything on the page, if it has to be built anew: an entry is of another shape, or they do not fit, or none is left.
    ///
    /// Edits ascend by `at`; with their keys, the page's must ascend strictly; values are not too long for a leaf.
    pub fn patch(&self, edits: &[Edit<'_>], page: &mut [u8]) -> Option<usize> {
        let run = self.run();
        let removed = edits.iter().filter(|edit| edit.removes).count();
        let put = edits.iter().filter(|edit| edit.puts.is_some()).count();
        let count = (run.count() + put).checked_sub(removed).filter(|count| *count > 0)?;
        let mut patch = Patch::begin(run, count, page)?;
        let mut next = 0;
        for edit in edits {
            patch.copy(next, edit.at)?;
            if let Some((key, value)) = edit.puts {
                patch.put(key, value)?;
            }
            next = edit.at + usize::from(edit.removes);
        }
        patch.copy(next, run.count())?;
        patch.finish(count)
    }
}

/// A page in the making.
struct Patch<'p, 'o> {
    old: &'o RunView<'o>,
    page: &'p mut [u8],
    /// Entries so far, and where the next one goes.
    count: usize,
    at: usize,
    /// The first entry whose slot is short of [`SLOT_WRAP`].
    wrap: Option<usize>,
}

impl<'p, 'o> Patch<'p, 'o> {
    /// Puts the prefix in its place before `count` entries.
    fn begin(old: &'o RunView<'o>, count: usize, page: &'p mut [u8]) -> Option<Self> {
        let prefix_at = old.slots_at() + if old.slotted() { count * SLOT_BYTES } else { 0 };
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
        if self.old.slotted() {
            for entry in from..until {
                self.slot(self.at + self.old.entry_start(entry).checked_sub(start)?);
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
        if !fits || !old.slotted() && length != old.stride() {
            return None;
        }
        let entry = self.page.get_mut(self.at..self.at + length)?;
        let (head, rest) = entry.split_at_mut(old.key_length().width());
        match old.key_length() {
            KeyLength::FixedSuffix | KeyLength::FixedValue => {}
            KeyLength::Byte => head[0] = suffix.len() as u8,
            KeyLength::TwoBytes => write_u16(head, 0, suffix.len() as u16),
        }
        let (start, end) = rest.split_at_mut(suffix.len());
        start.copy_from_slice(suffix);
        // The tag of an inline value is zero.
        end[..tag].fill(0);
        end[tag..].copy_from_slice(value);
        if old.slotted() {
            self.slot(self.at);
        }
        self.at += length;
        Some(())
    }

    fn slot(&mut self, start: usize) {
        write_u16(self.page, self.old.slots_at() + self.count * SLOT_BYTES, (start % SLOT_WRAP) as u16);
        if start >= SLOT_WRAP {
            self.wrap.get_or_insert(self.count);
        }
        self.count += 1;
    }

    fn finish(self, count: usize) -> Option<usize> {
        let Self { old, page, at, wrap, .. } = self;
        let header = old.header();
        write_u16(page, PREFIX_LENGTH_AT, old.prefix().len() as u16);
        write_u16(page, FIXED_LENGTH_AT, old.fixed_length() as u16);
        write_u16(page, STRIDE_AT, old.stride() as u16);
        write_u16(page, WRAP_AT, if header.flags & FLAG_SLOTTED == 0 { 0 } else { wrap.unwrap_or(count) as u16 });
        Header { count, used: at, ..*header }.write(page);
        Some(at)
    }
}
