//! What a serializable transaction has read, and whether it would read the same again.
//!
//! Rows are remembered with the version that was seen. Ranges, and keys that were not there, are remembered with the
//! versions of the index leaves that are responsible for them: while these are the same, no key has come into the
//! range. A leaf may also change for reasons that do not matter (a neighbour's key, a split, a row that is not
//! committed), so a range whose leaves have changed is looked through again, and fails only for a row in it that was
//! not read before and is there now.
//!
//! A row that is in the base as well may leave memory after it was read ([`release`](super::release)). That changes
//! nothing of it, and whoever writes to it from then on makes a new row of its key. So its key is read in its place: a
//! range of one key, without a row.
//!
//! Validation comes between the timestamp of a commit and its stamps, where others wait for it. So many reads are
//! validated before ([`Reads::hold_after`]), and then only what others have committed since is looked at
//! ([`Reads::hold_since`]): whether it is of a row that was read, or lies in a range that was.

use std::ops::{Bound, Range};
use std::ptr::{self, NonNull};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::spans::{Span, Spans};
use crate::chain::{Row, Version, Writer};
use crate::epoch::{Epochs, Pin};
use crate::index::{Direction, Index, LeafChange, Observed, ScanBuffer};
use crate::table::{Inner, Table};

/// The read set.
#[derive(Default)]
pub struct Reads {
    rows: Vec<RowRead>,
    /// Positions in `rows`, by the rows' addresses and each reading once: of the first so many of them.
    by_address: HashTable<u32>,
    indexed: usize,
    leaves: Vec<Observed>,
    ranges: Vec<RangeRead>,
    /// The bounds of the ranges.
    keys: Vec<u8>,
    /// What all that was read of.
    tables: Vec<Table>,
}

/// In place of a version: none was seen, and a delete is not as good.
pub const UNSEEN: *const Version = ptr::without_provenance(1);

/// A row of a primary index, and the version of it that was seen; null for none or a delete, where these are the same,
/// and else [`UNSEEN`] for none.
#[derive(PartialEq, Eq, Clone, Copy)]
struct RowRead {
    row: NonNull<Row>,
    primary: NonNull<Index>,
    version: *const Version,
}

/// A range of keys of an index; that of a table that is dropped meanwhile is kept until the transaction has ended.
struct RangeRead {
    index: NonNull<Index>,
    lower: Bound<Range<usize>>,
    upper: Bound<Range<usize>>,
    /// A delete that comes into it is a change.
    tells_deletes: bool,
    /// The leaves from this one on, up to the next range's, are responsible for it.
    first_leaf: usize,
}

/// So many rows and leaves are worth to be validated before the timestamp: below it takes some microseconds.
const MANY: usize = if cfg!(debug_assertions) { 4 } else { 1 << 10 };

/// Leaves, of those last read, that an own insert is looked for in: for others the range is looked through again.
const RECENT_LEAVES: usize = 8;

/// So many rows are looked through where a range has to be read again beside a timestamp.
const LOOKED_THROUGH: usize = MANY;

/// Whether reads would give the same again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validity {
    Holds,
    Changed,
    /// To know it takes more than others should wait for.
    Unclear,
}

/// From whose observer, and when, the reads are to be the same.
#[derive(Clone, Copy)]
pub struct Observer<'a> {
    pub timestamp: u64,
    pub writer: Writer,
    pub epochs: &'a Epochs,
    pub pin: &'a Pin<'a>,
}

impl Reads {
    /// Something of this table is read.
    #[inline]
    pub fn of(&mut self, table: &Table) {
        let is_it = |known: &Table| known.id() == table.id();
        if !self.tables.last().is_some_and(is_it) && !self.tables.iter().any(is_it) {
            self.tables.push(table.clone());
        }
    }

    /// Whether no other table has taken the place of one that was read. A write to the other one comes after it was
    /// said that it has: if that is not seen after the timestamp was taken, the timestamp is before the write's.
    pub fn tables_hold(&self, reader: Writer) -> bool {
        self.tables.iter().all(|table| table.answers(reader))
    }

    #[inline]
    pub fn row(&mut self, primary: &Index, row: &Row, version: *const Version) {
        self.rows.push(RowRead { row: row.into(), primary: primary.into(), version });
    }

    /// A key that `leaf` does not have.
    pub fn absent(&mut self, index: &Index, tells_deletes: bool, key: &[u8], leaf: Observed) {
        self.range(index, tells_deletes, (Bound::Included(key), Bound::Included(key)), &[leaf]);
    }

    /// A range, and the leaves that are responsible for it. `tells_deletes`: a delete is not as good as no row.
    pub fn range(
        &mut self,
        index: &Index,
        tells_deletes: bool,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        leaves: &[Observed],
    ) {
        let range = RangeRead {
            index: index.into(),
            lower: lower.map(|key| self.keep(key)),
            upper: upper.map(|key| self.keep(key)),
            tells_deletes,
            first_leaf: self.leaves.len(),
        };
        self.ranges.push(range);
        self.leaves.extend_from_slice(leaves);
    }

    /// Leaves that the transaction's own insert has changed go on being protected as they are now.
    #[inline]
    pub fn own_insert(&mut self, changes: &mut Vec<LeafChange>) {
        let recent = self.leaves.len().saturating_sub(RECENT_LEAVES);
        for change in changes.drain(..) {
            // After a split the range is looked through again.
            let unsplit = change.made.is_none();
            let observed = self.leaves[recent..].iter_mut().filter(|leaf| unsplit && **leaf == change.before);
            observed.for_each(|leaf| *leaf = change.after);
        }
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        if self.indexed > 0 {
            // Its memory is not kept: clearing it would cost later ones, however few they read.
            self.by_address = HashTable::new();
            self.indexed = 0;
        }
        self.leaves.clear();
        self.ranges.clear();
        self.keys.clear();
        self.tables.clear();
    }

    /// Whether there is so much that it should be validated before the timestamp.
    pub fn are_many(&self) -> bool {
        self.rows.len() + self.leaves.len() >= MANY
    }

    /// Whether all rows that were read are as they were.
    pub fn rows_hold(&mut self, observer: Observer<'_>) -> bool {
        (0..self.rows.len()).all(|at| self.rows[at].holds(observer) || self.is_released(at, observer))
    }

    /// Whether a row has left memory as it was, and is written by nobody since: then its key is read in its place.
    #[cold]
    fn is_released(&mut self, at: usize, observer: Observer<'_>) -> bool {
        let RowRead { row, primary, .. } = self.rows[at];
        // SAFETY: as in `RowRead::holds`, and as in `range_holds`.
        let (row, primary) = unsafe { (row.as_ref(), primary.as_ref()) };
        // Only what everyone sees is released: a row that was seen and is dead had not changed until then.
        if row.head().is_some() {
            return false;
        }
        let (address, leaf) = primary.get_observed(row.key(), observer.pin);
        // SAFETY: out of the index under the pin.
        let newer = address.map(|address| unsafe { Row::at(address) });
        let is_alone = newer
            .is_none_or(|row| matches!(row.before(observer.timestamp, observer.writer, observer.epochs), Ok(None)));
        if is_alone {
            // A dead row has no version, and never will.
            self.rows[at].version = ptr::null();
            self.absent(primary, true, row.key(), leaf);
        }
        is_alone
    }

    /// How many rows have left memory, of each table that was read.
    pub fn released(&self) -> Vec<u64> {
        self.tables.iter().map(|table| table.inner().counters.released()).collect()
    }

    /// Whether rows of a table that was read have left memory since `released` were.
    pub fn are_released_since(&self, released: &[u64], table: &Inner) -> bool {
        let mut counted = self.tables.iter().zip(released);
        counted.any(|(read, before)| ptr::eq(read.inner(), table) && table.counters.released() != *before)
    }

    /// Whether no row has come into a range that was read; looks through `allowance` rows at most.
    pub fn ranges_hold(&mut self, observer: Observer<'_>, mut allowance: usize) -> Validity {
        if self.leaves.iter().all(|leaf| leaf.is_unchanged(observer.pin)) {
            return Validity::Holds;
        }
        self.index();
        for at in 0..self.ranges.len() {
            if self.leaves_of(at).iter().all(|leaf| leaf.is_unchanged(observer.pin)) {
                continue;
            }
            match self.range_holds(&self.ranges[at], observer, &mut allowance) {
                Validity::Holds => {}
                other => return other,
            }
        }
        Validity::Holds
    }

    /// Whether few reads would give the same right before `observer`'s timestamp, which is taken.
    pub fn few_hold(&mut self, observer: Observer<'_>) -> Validity {
        if self.rows_hold(observer) { self.ranges_hold(observer, LOOKED_THROUGH) } else { Validity::Changed }
    }

    /// Whether all reads would give the same at `observer`'s timestamp, which is not that of a commit to come: later
    /// ones may come before it.
    pub fn hold_after(&mut self, observer: Observer<'_>) -> bool {
        self.rows_hold(observer) && self.ranges_hold(observer, usize::MAX) == Validity::Holds
    }

    /// Gets ready for [`hold_since`](Self::hold_since), so that it depends on what was noted and not on what was read.
    pub fn spans(&mut self) -> Spans {
        self.index();
        Spans::new(self.ranges.len(), |position| self.span(position))
    }

    /// Whether the reads, which held at `since`, would give the same right before `observer`'s timestamp, as far as the
    /// row at an address of a table is concerned, which is kept by the observer's pin. All earlier commits have ended.
    /// `spans` are of these reads.
    pub fn hold_since(&self, since: u64, (table, row): (&Inner, usize), spans: &Spans, observer: Observer<'_>) -> bool {
        if !self.of_row(row).all(|read| read.holds(observer)) {
            return false;
        }
        // SAFETY: by the caller's promise.
        let row = unsafe { Row::at(row as u64) };
        let has = |index: &Index, key: &[u8]| spans.have(address_of(index), key, |position| self.span(position));
        let mut is_newest = true;
        row.committed_between(since, observer.timestamp, observer.writer, observer.epochs).all(|version| {
            // What was in between is as if it had never been; but it costs nothing to be careful with entries.
            let tells = std::mem::take(&mut is_newest) && (version.body().is_some() || table.definition.over_base);
            // Bytes that are no entry were refused when it was written.
            let made = version.body().and_then(|body| table.entries_of(row.key(), body).ok()).unwrap_or_default();
            !(tells && has(&table.primary, row.key()))
                && made.iter().all(|(index, entry)| !has(&table.secondary[*index].entries, entry))
        })
    }

    fn span(&self, position: u32) -> Span<'_> {
        let range = &self.ranges[position as usize];
        let [lower, upper] = [&range.lower, &range.upper].map(|bound| bound.clone().map(|key| &self.keys[key]));
        Span { index: range.index.addr().get(), lower, upper }
    }

    /// The leaves that are responsible for a range.
    fn leaves_of(&self, at: usize) -> &[Observed] {
        let end = self.ranges.get(at + 1).map_or(self.leaves.len(), |next| next.first_leaf);
        &self.leaves[self.ranges[at].first_leaf..end]
    }

    /// Looks through a range: whether there is no row in it that was not read.
    fn range_holds(&self, range: &RangeRead, observer: Observer<'_>, allowance: &mut usize) -> Validity {
        let key = |bound: &Bound<Range<usize>>| bound.clone().map(|key| &self.keys[key]);
        let mut buffer = ScanBuffer::default();
        // SAFETY: indexes live as long as their tables, which the database keeps, and a dropped one as long as
        // transactions of before.
        let index = unsafe { range.index.as_ref() };
        let mut cursor =
            index.cursor((key(&range.lower), key(&range.upper)), Direction::Forward, &mut buffer, observer.pin);
        while let Some(leaf) = cursor.step(usize::MAX) {
            for (_, address) in leaf.iter() {
                let Some(less) = allowance.checked_sub(1) else { return Validity::Unclear };
                *allowance = less;
                // SAFETY: out of the index under the pin.
                let row = unsafe { Row::at(address) };
                let holds = match row.before(observer.timestamp, observer.writer, observer.epochs) {
                    Err(_) => false,
                    Ok(None) => true,
                    Ok(Some(version)) if version.is_tombstone() && !range.tells_deletes => true,
                    Ok(Some(version)) => self.has(row, version),
                };
                if !holds {
                    return Validity::Changed;
                }
            }
        }
        Validity::Holds
    }

    /// What was read of the row at an address. For reads that are all indexed.
    fn of_row(&self, address: usize) -> impl Iterator<Item = &RowRead> {
        debug_assert_eq!(self.indexed, self.rows.len(), "a row is looked for before all are indexed");
        let positions = self.by_address.iter_hash(hash_of(address));
        positions.map(|position| &self.rows[*position as usize]).filter(move |read| read.address() == address)
    }

    fn has(&self, row: &Row, version: &Version) -> bool {
        self.of_row(ptr::from_ref(row).addr()).any(|read| ptr::eq(read.version, version))
    }

    /// Has rows found by their addresses.
    fn index(&mut self) {
        let Self { rows, by_address, indexed, .. } = self;
        let hash = |position: &u32| hash_of(rows[*position as usize].address());
        by_address.reserve(rows.len() - *indexed, hash);
        for (position, read) in (0..).zip(&*rows).skip(*indexed) {
            let is_known = |known: &u32| rows[*known as usize] == *read;
            if let Entry::Vacant(place) = by_address.entry(hash_of(read.address()), is_known, hash) {
                place.insert(position);
            }
        }
        *indexed = rows.len();
    }

    fn keep(&mut self, key: &[u8]) -> Range<usize> {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        start..self.keys.len()
    }
}

fn address_of(index: &Index) -> usize {
    ptr::from_ref(index).addr()
}

fn hash_of(address: usize) -> u64 {
    // Addresses differ in their middle bits; tables look at the highest and the lowest.
    let mixed = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

impl RowRead {
    fn address(&self) -> usize {
        self.row.addr().get()
    }

    /// Whether the row is as it was.
    #[inline]
    fn holds(&self, observer: Observer<'_>) -> bool {
        // SAFETY: rows that the transaction read are kept by its pin.
        let before = unsafe { self.row.as_ref() }.before(observer.timestamp, observer.writer, observer.epochs);
        before.is_ok_and(|version| match version {
            None => self.version.is_null() || self.version == UNSEEN,
            Some(version) => ptr::eq(version, self.version) || version.is_tombstone() && self.version.is_null(),
        })
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;

    /// A runner keeps the memory for its next transaction.
    #[test]
    fn nothing_is_left_of_what_was_read() {
        let epochs = Epochs::new(0, 1);
        let participant = epochs.join().expect("a place");
        participant.announce(0);
        let pin = Pin::of_announced(&participant);
        let index = Index::new();
        let mut reads = Reads::default();
        reads.absent(&index, false, b"key", index.get_observed(b"key", &pin).1);
        assert_eq!((reads.ranges.len(), reads.leaves.len(), reads.keys.len()), (1, 1, 2 * 3));
        reads.clear();
        assert_eq!((reads.ranges.len(), reads.leaves.len(), reads.keys.len()), (0, 0, 0));
        assert!(!reads.are_many() && reads.rows.is_empty() && reads.tables.is_empty());
    }
}
