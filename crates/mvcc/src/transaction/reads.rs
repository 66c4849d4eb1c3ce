//! What a serializable transaction has read, and whether it would read the same again.
//!
//! Rows are remembered with the version that was seen. Ranges, and keys that were not there, are remembered with the versions of
//! the index leaves that are responsible for them: while these are the same, no key has come into the range. A leaf may also
//! change for reasons that do not matter (a neighbour's key, a split, a row that is not committed), so a range whose leaves
//! have changed is looked through again, and fails only for a row in it that was not read before and is there now.

use std::collections::HashSet;
use std::ops::{Bound, Range};
use std::ptr::{self, NonNull};

use crate::chain::{Row, Version, Writer};
use crate::epoch::{Epochs, Pin};
use crate::index::{Direction, Index, LeafChange, Observed, ScanBuffer};

/// The read set.
#[derive(Default)]
pub struct Reads {
    rows: Vec<RowRead>,
    leaves: Vec<Observed>,
    ranges: Vec<RangeRead>,
    /// The bounds of the ranges.
    keys: Vec<u8>,
}

/// In place of a version: none was seen, and a delete is not as good.
pub const UNSEEN: *const Version = ptr::without_provenance(1);

/// A row, and the version of it that was seen; null for none or a delete, where these are the same, and else [`UNSEEN`] for none.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
struct RowRead {
    row: NonNull<Row>,
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

/// Leaves, of those last read, that an own insert is looked for in: for others the range is looked through again.
const RECENT_LEAVES: usize = 8;

/// From whose view, and when, the reads are to be the same.
#[derive(Clone, Copy)]
pub struct Viewpoint<'a> {
    pub timestamp: u64,
    pub writer: Writer,
    pub epochs: &'a Epochs,
    pub pin: &'a Pin<'a>,
}

impl Reads {
    #[inline]
    pub fn row(&mut self, row: &Row, version: *const Version) {
        self.rows.push(RowRead { row: row.into(), version });
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
        self.leaves.clear();
        self.ranges.clear();
        self.keys.clear();
    }

    /// Whether all rows that were read are as they were.
    pub fn rows_hold(&self, view: Viewpoint<'_>) -> bool {
        self.rows.iter().all(|read| {
            // SAFETY: rows that the transaction read are kept by its pin.
            let before = unsafe { read.row.as_ref() }.before(view.timestamp, view.writer, view.epochs);
            before.is_ok_and(|version| match version {
                None => read.version.is_null() || read.version == UNSEEN,
                Some(version) => ptr::eq(version, read.version) || version.is_tombstone() && read.version.is_null(),
            })
        })
    }

    /// Whether no row has come into a range that was read.
    pub fn ranges_hold(&self, view: Viewpoint<'_>) -> bool {
        if self.leaves.iter().all(|leaf| leaf.is_unchanged(view.pin)) {
            return true;
        }
        let seen: HashSet<RowRead> = self.rows.iter().copied().collect();
        let ends = self.ranges.iter().skip(1).map(|range| range.first_leaf).chain([self.leaves.len()]);
        std::iter::zip(&self.ranges, ends).all(|(range, end)| {
            let is_unchanged = self.leaves[range.first_leaf..end].iter().all(|leaf| leaf.is_unchanged(view.pin));
            is_unchanged || self.range_holds(range, &seen, view)
        })
    }

    fn range_holds(&self, range: &RangeRead, seen: &HashSet<RowRead>, view: Viewpoint<'_>) -> bool {
        let key = |bound: &Bound<Range<usize>>| bound.clone().map(|key| &self.keys[key]);
        let mut buffer = ScanBuffer::default();
        // SAFETY: indexes live as long as their tables, which the database keeps, and a dropped one as long as transactions of before.
        let index = unsafe { range.index.as_ref() };
        let mut cursor =
            index.cursor((key(&range.lower), key(&range.upper)), Direction::Forward, &mut buffer, view.pin);
        while let Some(leaf) = cursor.step(usize::MAX) {
            let holds = leaf.iter().all(|(_, address)| {
                // SAFETY: out of the index under the pin.
                let row = unsafe { Row::at(address) };
                match row.before(view.timestamp, view.writer, view.epochs) {
                    Err(_) => false,
                    Ok(None) => true,
                    Ok(Some(version)) => {
                        version.is_tombstone() && !range.tells_deletes
                            || seen.contains(&RowRead { row: row.into(), version })
                    }
                }
            });
            if !holds {
                return false;
            }
        }
        true
    }

    fn keep(&mut self, key: &[u8]) -> Range<usize> {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        start..self.keys.len()
    }
}
