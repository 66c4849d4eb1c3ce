//! Reads by key.

use std::ops::Deref;
use std::ptr;

use super::{RowId, Transaction};
use crate::chain::Row;
use crate::error::Error;
use crate::index::{KEY_BYTES_MAX, LANES, Observed};
use crate::memory::prefetch::prefetch_row;
use crate::runner::UNSEEN;
use crate::table::{Newer, Table};

/// A row that a transaction sees: its body, and the handle to write to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found<'a> {
    pub id: RowId,
    /// The columns that are not of the primary key, in the row format.
    pub body: &'a [u8],
    /// Its primary key.
    pub key: &'a [u8],
}

impl Deref for Found<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.body
    }
}

/// What there is at a key in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen<R> {
    /// Nothing: in a table over a base, look there.
    Absent,
    Deleted,
    Row(R),
}

impl<R> Seen<R> {
    /// The row, if there is one.
    pub fn row(self) -> Option<R> {
        match self {
            Self::Row(row) => Some(row),
            Self::Absent | Self::Deleted => None,
        }
    }
}

impl<'a> Seen<&'a [u8]> {
    /// Of a version with that body, if there is a version.
    pub(super) fn of<T>(version: Option<(Option<&'a [u8]>, T)>) -> Self {
        match version {
            None => Self::Absent,
            Some((None, _)) => Self::Deleted,
            Some((Some(body), _)) => Self::Row(body),
        }
    }
}

impl Transaction<'_> {
    /// The row of a key, if there is one.
    #[inline]
    pub fn get(&self, table: &Table, key: &[u8]) -> Option<Found<'_>> {
        self.look(table, key).row()
    }

    /// What there is at a key: the newest version that the transaction sees, its own first. A serializable transaction
    /// answers for it also where it does not count.
    #[inline]
    pub fn look<'t>(&self, table: impl Into<Newer<'t>>, key: &[u8]) -> Seen<Found<'_>> {
        let newer: Newer<'t> = table.into();
        let inner = self.inner(newer.table);
        if key.len() > KEY_BYTES_MAX || inner.is_gone(self.snapshot) {
            return Seen::Absent;
        }
        let (address, leaf) = inner.primary.get_observed(key, &self.pin());
        // The lines of a row that was written once lie side by side: one wait for all.
        address.into_iter().for_each(prefetch_row);
        self.see_place(newer, key, address, leaf)
    }

    /// The rows of many keys at once, which is faster than one after the other: the walks through the index and to the
    /// rows overlap. `found` is called for each key in turn, with its position.
    pub fn get_many<K: AsRef<[u8]>>(&self, table: &Table, keys: &[K], mut found: impl FnMut(usize, Option<Found<'_>>)) {
        let pin = self.pin();
        let primary = &self.inner(table).primary;
        if table.inner().is_gone(self.snapshot) {
            return (0..keys.len()).for_each(|position| found(position, None));
        }
        for (keys, first) in keys.chunks(LANES).zip((0..).step_by(LANES)) {
            let mut places = [None; LANES];
            let place = |at: usize, address, leaf| places[at] = Some((address, leaf));
            primary.get_many_observed(keys.len(), |at| keys[at].as_ref(), place, &pin);
            let addresses = || places.iter().flatten().filter_map(|(address, _)| *address);
            addresses().for_each(prefetch_row);
            // SAFETY: out of the index under the transaction's pin.
            addresses().for_each(|address| unsafe { Row::at(address) }.prefetch_newest());
            for (offset, (key, place)) in keys.iter().zip(places).enumerate() {
                let (address, leaf) = place.expect("every key is told of");
                found(first + offset, self.see_place(table.into(), key.as_ref(), address, leaf).row());
            }
        }
    }

    /// What the transaction sees at a key that was looked up; a serializable one remembers it if it is nothing.
    #[inline]
    fn see_place(&self, newer: Newer<'_>, key: &[u8], address: Option<u64>, leaf: Observed) -> Seen<Found<'_>> {
        let table = newer.table;
        let seen = match address {
            // SAFETY: out of the index under the transaction's pin.
            Some(address) => self.see_all(newer, unsafe { Row::at(address) }),
            None => Seen::Absent,
        };
        // Also where there is a row: it may be about to die, and the key may then come back with another. No row comes
        // to a key that is too long.
        if !matches!(seen, Seen::Row(_)) && self.is_serializable() && key.len() <= KEY_BYTES_MAX {
            self.reads.borrow_mut().absent(&table.inner().primary, table.is_over_base(), key, leaf);
        }
        seen
    }

    /// The row of a handle, as this transaction sees it now: after its own update, the updated one.
    ///
    /// # Errors
    /// `ForeignRow` for a handle of another transaction or table.
    pub fn see_again(&self, table: &Table, id: RowId) -> Result<Option<Found<'_>>, Error> {
        Ok(self.see(table.into(), self.row_of(table, id)?))
    }

    /// The row as the transaction sees it; a serializable one remembers that it did.
    #[inline]
    pub(super) fn see<'a>(&'a self, newer: Newer<'_>, row: &'a Row) -> Option<Found<'a>> {
        self.see_all(newer, row).row()
    }

    /// What the transaction sees of a row; a serializable one remembers that it did.
    #[inline]
    pub(super) fn see_all<'a>(&'a self, newer: Newer<'_>, row: &'a Row) -> Seen<Found<'a>> {
        let table = newer.table;
        // What is seen stays: it is the snapshot's, or the transaction's own.
        let seen = self.runner.participant.visiting(|| row.visible(self.snapshot, self.writer, self.epochs()));
        let Some((version, begin)) = seen else {
            self.remember(table, row, if table.is_over_base() { UNSEEN } else { ptr::null() });
            return Seen::Absent;
        };
        if begin != 0 {
            // A delete is as good as no row, which it becomes when it is cleaned up; but for one that hides a row of a
            // base.
            let is_nothing = version.is_tombstone() && !table.is_over_base();
            self.remember(table, row, if is_nothing { ptr::null() } else { version });
        }
        self.meet_row(version, begin);
        if !newer.counts(begin) {
            return Seen::Absent;
        }
        match version.body() {
            Some(body) => Seen::Row(Found { id: self.row_id(table, row), body, key: row.key() }),
            None => Seen::Deleted,
        }
    }

    #[inline]
    pub(super) fn remember(&self, table: &Table, row: &Row, version: *const crate::chain::Version) {
        if self.is_serializable() {
            self.reads.borrow_mut().row(&table.inner().primary, row, version);
        }
    }
}
