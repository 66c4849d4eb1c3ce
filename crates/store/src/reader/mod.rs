//! What a snapshot sees of a table: the newer rows of its delta over the rows of its base.
//!
//! ```text
//!   point, range, prefix of an index ─► TableReader ─► delta: versions that count ─┐ hides by key
//!   pipelines over trees ─► TreeOverlay ──┤            base:  the generation's ◄───┘
//!   scans of columns ─► SegmentOverlay ───┤
//!   merges ─► changes ────────────────────┘
//! ```
//!
//! # The rule
//! A snapshot is a generation and a moment, and the generation says up to which commit its base has everything:
//! `merged_through`. Of the delta those versions count that began later, up to the moment, and the pending ones of a
//! transaction that reads its own writes. Everything else is the generation's to answer.
//!
//! So what the generation holds is never asked of the delta, and rows that a merge has brought to the base may leave
//! the delta at any time: between two looks of one statement, and whether the one asks what is hidden and the other
//! what there is, nobody can tell.
//!
//! # The exception
//! A resident table's rows stay in the delta after a merge, equal to those of the base, and are read there: all
//! versions count.

mod base;
mod eyes;
mod index;
mod memory;
mod newer;
mod overlay;
mod range;
mod segments;
mod snapshot;

#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;

use saki_mvcc::{Newer, Seen};

use crate::delta::Delta;
use saki_catalog::{Result, Table};

pub use base::{BaseRange, BaseReader};
pub use eyes::Eyes;
pub use index::IndexEntries;
pub use memory::{Entry, Missed, Missing};
pub use newer::NewerRows;
pub use overlay::TreeOverlay;
pub use range::{Short, Shortly};
pub use segments::SegmentOverlay;
pub use snapshot::Snapshot;

/// What there is at a key, as far as memory tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point<T> {
    Nowhere,
    Row(T),
    /// On a page that is not in memory.
    Away,
}

/// Reads a table as a snapshot sees it. `E`: whose eyes, at which moment.
pub struct TableReader<'r, E> {
    table: &'r Table,
    delta: &'r Delta,
    newer: Newer<'r>,
    eyes: &'r E,
}

impl<'r, E: Eyes> TableReader<'r, E> {
    /// Of a table and its delta in one snapshot, at the moment of `eyes`, which was taken after the generation.
    ///
    /// # Panics
    /// If they are not of one snapshot: rows would be missing.
    #[inline]
    pub fn new(table: &'r Table, delta: &'r Delta, eyes: &'r E) -> Self {
        assert!(delta.rows.id() == table.delta, "table {:?} is read with the delta of another layout", table.name);
        assert!(
            table.merged_through <= eyes.timestamp(),
            "table {:?} is read at {}, before {}, up to which its generation has everything",
            table.name,
            eyes.timestamp(),
            table.merged_through
        );
        Self { table, delta, newer: delta.rows.newer_than(since(table)), eyes }
    }

    /// Shows what the delta has at a key that counts.
    #[inline]
    pub(crate) fn look<T>(&self, key: &[u8], with: impl FnOnce(Seen<&[u8]>) -> T) -> T {
        self.eyes.look(self.newer, key, with)
    }

    /// Whether the delta has a row or a deletion that hides what the base has at a key.
    #[inline]
    pub(crate) fn hides(&self, key: &[u8]) -> bool {
        self.look(key, |seen| !matches!(seen, Seen::Absent))
    }

    /// Shows the row of a key, if that takes no page that is not in memory.
    ///
    /// # Errors
    /// Those of the base's pages.
    #[inline]
    pub fn get_cached<T>(&self, base: &BaseReader<'_>, key: &[u8], show: impl FnOnce(&[u8]) -> T) -> Result<Point<T>> {
        let newest = self.look(key, |seen| match seen {
            Seen::Row(body) => Ok(Point::Row(show(body))),
            Seen::Deleted => Ok(Point::Nowhere),
            Seen::Absent => Err(show),
        });
        let show = match newest {
            Ok(point) => return Ok(point),
            Err(show) => show,
        };
        let mut row = Vec::new();
        Ok(match base.get_cached(&self.table.root, key, &mut row)? {
            Some(true) => Point::Row(show(&row)),
            Some(false) => Point::Nowhere,
            None => Point::Away,
        })
    }

    /// The row of a key. Waits for storage.
    ///
    /// # Errors
    /// Those of storage.
    pub fn get(&self, base: &mut BaseReader<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let newest = self.look(key, |seen| match seen {
            Seen::Absent => None,
            Seen::Deleted => Some(None),
            Seen::Row(body) => Some(Some(body.to_vec())),
        });
        match newest {
            Some(row) => Ok(row),
            None => base.get(&self.table.root, key),
        }
    }
}

/// Versions that began later count: see the rule, and its exception.
fn since(table: &Table) -> u64 {
    if table.resident { 0 } else { table.merged_through }
}
