//! Reads by range, in the order of keys.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};

use saki_base::key::prefix_successor;

use super::{Found, Seen, Transaction};
use crate::chain::Row;
use crate::index::{Cursor, Direction, Index, Observed};
use crate::memory::prefetch::prefetch_row;
use crate::table::{IndexId, Newer, Table};

/// Keys from one to another.
#[derive(Clone, Debug)]
pub struct KeyRange<'k> {
    lower: Bound<Cow<'k, [u8]>>,
    upper: Bound<Cow<'k, [u8]>>,
}

/// Entries that a scan copies out of a leaf at once: few at first, since many scans end early.
pub(super) const FIRST_ENTRIES: usize = 8;
pub(super) const ENTRIES_MAX: usize = 128;

impl<'k> KeyRange<'k> {
    pub const fn all() -> Self {
        Self { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    pub fn between(lower: Bound<&'k [u8]>, upper: Bound<&'k [u8]>) -> Self {
        Self { lower: lower.map(Cow::Borrowed), upper: upper.map(Cow::Borrowed) }
    }

    /// All keys that begin so: with the first columns of a key, these values of them.
    pub fn prefix(prefix: &'k [u8]) -> Self {
        let mut after = prefix.to_vec();
        let upper = if prefix_successor(&mut after) { Bound::Excluded(Cow::Owned(after)) } else { Bound::Unbounded };
        Self { lower: Bound::Included(Cow::Borrowed(prefix)), upper }
    }

    /// Both ends, as trees take them.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.lower.as_ref().map(|key| &**key), self.upper.as_ref().map(|key| &**key))
    }

    pub(super) fn is_empty(&self) -> bool {
        match self.bounds() {
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (Bound::Included(lower) | Bound::Excluded(lower), Bound::Included(upper) | Bound::Excluded(upper)) => {
                lower >= upper
            }
            _ => false,
        }
    }
}

impl Transaction<'_> {
    /// Visits the rows whose primary keys are in a range, until `visit` breaks off.
    pub fn scan<'t, 'n>(
        &'t self,
        table: impl Into<Newer<'n>>,
        range: &KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(Found<'t>) -> ControlFlow<()>,
    ) {
        let newer: Newer<'n> = table.into();
        let primary = &self.inner(newer.table).primary;
        self.each_entry(newer.table, primary, range, direction, |_, row| match self.see(newer, row) {
            Some(found) => visit(found),
            None => ControlFlow::Continue(()),
        });
    }

    /// Visits the keys in a range of which there is something, deletes included, until `visit` breaks off: with `None`
    /// for a delete.
    pub fn scan_all<'t, 'n>(
        &'t self,
        table: impl Into<Newer<'n>>,
        range: &KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&'t [u8], Option<&'t [u8]>) -> ControlFlow<()>,
    ) {
        let newer: Newer<'n> = table.into();
        let primary = &self.inner(newer.table).primary;
        self.each_entry(newer.table, primary, range, direction, |_, row| match self.see_all(newer, row) {
            Seen::Row(found) => visit(found.key, Some(found.body)),
            Seen::Deleted => visit(row.key(), None),
            Seen::Absent => ControlFlow::Continue(()),
        });
    }

    /// Visits the rows whose entries in a secondary index are in a range, in the order of the entries, until `visit`
    /// breaks off. An entry is the index columns and then those of the primary key that are not among them; `visit`
    /// gets it and the row.
    pub fn scan_index<'t, 'n>(
        &'t self,
        table: impl Into<Newer<'n>>,
        index: IndexId,
        range: &KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], Found<'t>) -> ControlFlow<()>,
    ) {
        let newer: Newer<'n> = table.into();
        let inner = self.inner(newer.table);
        let secondary = &inner.secondary[index.0];
        let mut made = Vec::new();
        self.each_entry(newer.table, &secondary.entries, range, direction, |entry, row| match self.see(newer, row) {
            // A row whose indexed columns have changed may be found by the entry of another version than the one seen.
            Some(found)
                if !row.is_reindexed() || inner.has_entry(secondary, found.key, found.body, entry, &mut made) =>
            {
                visit(entry, found)
            }
            _ => ControlFlow::Continue(()),
        });
    }

    /// Visits the rows that entries beginning with `prefix` lead to, seen or not, and remembers none of it.
    pub(super) fn each_entry_with_prefix(&self, index: &Index, prefix: &[u8], mut visit: impl FnMut(&[u8], &Row)) {
        let range = KeyRange::prefix(prefix);
        self.with_cursor(index, &range, Direction::Forward, |cursor, _| {
            while let Some(leaf) = cursor.step(ENTRIES_MAX) {
                // SAFETY: out of the index under the transaction's pin.
                leaf.iter().for_each(|(entry, address)| visit(entry, unsafe { Row::at(address) }));
            }
        });
    }

    fn each_entry<'t>(
        &'t self,
        table: &Table,
        index: &Index,
        range: &KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &'t Row) -> ControlFlow<()>,
    ) {
        if range.is_empty() || table.inner().is_gone(self.snapshot) {
            return;
        }
        self.with_cursor(index, range, direction, |cursor, leaves| {
            let left_at = self.walk(cursor, leaves, &mut visit);
            if self.is_serializable() {
                let (lower, upper) = range.bounds();
                let left_at = left_at.as_deref().map(Bound::Included);
                let read = match direction {
                    Direction::Forward => (lower, left_at.unwrap_or(upper)),
                    Direction::Reverse => (left_at.unwrap_or(lower), upper),
                };
                self.reads.borrow_mut().range(index, table.is_over_base(), read, leaves);
            }
        });
    }

    /// Scans within scans each have memory of their own.
    fn with_cursor(
        &self,
        index: &Index,
        range: &KeyRange<'_>,
        direction: Direction,
        walk: impl FnOnce(&mut Cursor<'_>, &mut Vec<Observed>),
    ) {
        let mut memory = self.scan_memory.take().unwrap_or_default();
        memory.leaves.clear();
        walk(&mut index.cursor(range.bounds(), direction, &mut memory.buffer, &self.pin()), &mut memory.leaves);
        self.scan_memory.set(Some(memory));
    }

    /// Visits rows, noting leaves; the key at which `visit` broke off.
    fn walk<'t>(
        &'t self,
        cursor: &mut Cursor<'_>,
        leaves: &mut Vec<Observed>,
        visit: &mut dyn FnMut(&[u8], &'t Row) -> ControlFlow<()>,
    ) -> Option<Vec<u8>> {
        let mut limit = FIRST_ENTRIES;
        while let Some(leaf) = cursor.step(limit) {
            if leaves.last() != Some(&leaf.observed) {
                leaves.push(leaf.observed);
            }
            leaf.iter().for_each(|(_, address)| prefetch_row(address));
            for (key, address) in leaf.iter() {
                // SAFETY: out of the index under the transaction's pin.
                if visit(key, unsafe { Row::at(address) }).is_break() {
                    return Some(key.to_vec());
                }
            }
            limit = (2 * limit).min(ENTRIES_MAX);
        }
        None
    }
}
