//! Writes: each makes a pending version and installs it at once, so that a conflict shows at the write.

use std::ptr::NonNull;

use saki_base::Critical;

use super::{RowId, Transaction};
use crate::chain::{Begin, NEVER, Newest, Refused, Row, Version};
use crate::epoch::Pin;
use crate::error::Error;
use crate::index::Occupied;
use crate::runner::{Entries, Write};
use crate::sync::{Backoff, Ordering, fence};
use crate::table::{Secondary, Table};

/// Until a write is noted nobody would take it back.
const INSTALLING: &str = "making a row's newest version";

impl Transaction<'_> {
    /// Adds a row; its handle.
    ///
    /// # Errors
    /// `Duplicate` if there is one of this key, or of these values in a unique index; `Conflict` if another transaction
    /// is about to add or has just changed it; `KeyTooLong`, `RowTooLarge`, `Malformed`, `Memory`; `Name` if the table
    /// was dropped. The transaction goes on, without the row.
    pub fn insert(&mut self, table: &Table, key: &[u8], body: &[u8]) -> Result<RowId, Error> {
        self.prepare_write(table, key, body)?;
        self.visiting(|transaction| transaction.insert_or_revive(table, key, body))
    }

    fn insert_or_revive(&mut self, table: &Table, key: &[u8], body: &[u8]) -> Result<RowId, Error> {
        let mut backoff = Backoff::default();
        loop {
            match self.insert_new(table, key, Some(body))? {
                Inserted::Row(row) => return Ok(row),
                Inserted::Occupied(row) => match self.insert_over(table, row, body) {
                    Err(Refusal::Dead) => backoff.wait(),
                    Err(Refusal::Error(error)) => return Err(error),
                    Ok(()) => return Ok(self.row_id(table, row)),
                },
            }
        }
    }

    /// Adds a row, or gives the row of this key a new body.
    ///
    /// # Errors
    /// As `insert`, but for a `Duplicate` primary key.
    pub fn put(&mut self, table: &Table, key: &[u8], body: &[u8]) -> Result<RowId, Error> {
        match self.get(table, key).map(|found| found.id) {
            Some(id) => self.update(table, id, body).map(|()| id),
            None => self.insert(table, key, body),
        }
    }

    /// Gives a row a new body.
    ///
    /// # Errors
    /// `Conflict` if another transaction writes the row or wrote it since the snapshot; `NoRow` if it is deleted;
    /// `ForeignRow`, `Duplicate` in a unique index, `RowTooLarge`, `Malformed`, `Memory`. The transaction goes on, the
    /// row as it was.
    pub fn update(&mut self, table: &Table, id: RowId, body: &[u8]) -> Result<(), Error> {
        self.visiting(|transaction| transaction.update_with(table, id, Some(body), |_| {}))
    }

    /// Gives a row a new body of the same length: a copy of the old one that `change` has changed.
    ///
    /// # Errors
    /// As `update`.
    pub fn modify(&mut self, table: &Table, id: RowId, change: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        self.visiting(|transaction| transaction.update_with(table, id, None, change))
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// As `update`.
    pub fn delete(&mut self, table: &Table, id: RowId) -> Result<(), Error> {
        self.visiting(|transaction| transaction.bury(table, id))
    }

    /// Makes a body, or a delete for `None`, the newest version of a key, whatever there is of it in memory: in a table
    /// over a base, the row may be there.
    ///
    /// # Errors
    /// `Conflict` if another transaction writes the key, or wrote it since the snapshot; `Duplicate` in a unique index,
    /// `KeyTooLong`, `RowTooLarge`, `Malformed`, `Memory`; `Name` if the table was dropped. The transaction goes on,
    /// the key as it was.
    pub fn write(&mut self, table: &Table, key: &[u8], body: Option<&[u8]>) -> Result<(), Error> {
        self.prepare_write(table, key, body.unwrap_or_default())?;
        self.visiting(|transaction| transaction.write_over_or_new(table, key, body))
    }

    fn write_over_or_new(&mut self, table: &Table, key: &[u8], body: Option<&[u8]>) -> Result<(), Error> {
        let mut backoff = Backoff::default();
        loop {
            let address = self.inner(table).primary.get(key, &self.pin());
            let row = match address {
                // SAFETY: out of the index under the transaction's pin.
                Some(address) => unsafe { Row::at(address) },
                None => match self.insert_new(table, key, body)? {
                    Inserted::Row(_) => return Ok(()),
                    Inserted::Occupied(row) => row,
                },
            };
            match self.write_over(table, row, body) {
                Err(Refusal::Dead) => backoff.wait(),
                Err(Refusal::Error(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
    }

    fn write_over(&mut self, table: &Table, row: &Row, body: Option<&[u8]>) -> Result<(), Refusal> {
        let newest = self.newest(table, row)?;
        let version = self.allocate(body).map_err(Refusal::Error)?;
        self.supersede(table, row, &newest, version)
    }

    fn bury(&mut self, table: &Table, id: RowId) -> Result<(), Error> {
        let row = self.row_of(table, id)?;
        let newest = self.newest(table, row).map_err(|refusal| refusal.of_known_row(table, row))?;
        if newest.version.is_tombstone() {
            return Err(no_row(table));
        }
        self.runner.know(table);
        let version = self.allocate(None)?;
        self.supersede(table, row, &newest, version).map_err(|refusal| refusal.of_known_row(table, row))
    }

    fn update_with(
        &mut self,
        table: &Table,
        id: RowId,
        body: Option<&[u8]>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), Error> {
        let row = self.row_of(table, id)?;
        let newest = self.newest(table, row).map_err(|refusal| refusal.of_known_row(table, row))?;
        let Some(before) = newest.version.body() else { return Err(no_row(table)) };
        let body = body.unwrap_or(before);
        table.check_sizes(&[], body)?;
        self.runner.know(table);
        let version = self.allocate(Some(body))?;
        // SAFETY: made just now, and not installed yet.
        change(unsafe { Version::body_mut(version) });
        self.supersede(table, row, &newest, version).map_err(|refusal| refusal.of_known_row(table, row))
    }

    /// What has to be right before a key is written.
    #[inline]
    fn prepare_write(&mut self, table: &Table, key: &[u8], body: &[u8]) -> Result<(), Error> {
        table.check_sizes(key, body)?;
        if self.inner(table).is_gone(self.snapshot) {
            return Err(table.gone());
        }
        self.runner.know(table);
        Ok(())
    }

    /// The newest version of a row that this transaction may write.
    #[inline]
    fn newest<'r>(&self, table: &Table, row: &'r Row) -> Result<Newest<'r>, Refusal> {
        row.writable(self.snapshot, self.writer, self.epochs()).map_err(|refused| self.refusal(table, row, refused))
    }

    /// The refusal tells of what is newest in the row, if that is committed.
    #[cold]
    fn refusal(&self, table: &Table, row: &Row, refused: Refused) -> Refusal {
        if let Some(Begin::Committed(begin)) = row.head().map(|version| version.begin(self.writer, self.epochs()))
            && begin != NEVER
        {
            // Who tries again, later, finds out anew whether the row is there.
            self.meet_values(begin);
        }
        match refused {
            Refused::Dead => Refusal::Dead,
            Refused::Conflict(holder) => Refusal::Error(table.conflict(row.key(), holder)),
        }
    }

    /// Puts `version`, not installed yet, in place of the newest one, and has the indexes follow. On an error it is
    /// freed.
    #[inline]
    fn supersede(
        &mut self,
        table: &Table,
        row: &Row,
        newest: &Newest<'_>,
        version: NonNull<Version>,
    ) -> Result<(), Refusal> {
        // SAFETY: the version is ours, and its body does not change any more.
        let made = unsafe { version.as_ref() };
        if !made.is_tombstone() && self.lasts(newest) {
            made.set_lasting();
        }
        let after = made.body();
        let changed = self.changed_entries(table, row, newest.version.body(), after).map_err(Refusal::Error);
        let entries = match changed.and_then(|entries| self.install(table, row, newest, version).map(|()| entries)) {
            Ok(entries) => entries,
            Err(refusal) => {
                self.discard(version);
                return Err(refusal);
            }
        };
        let write = self.writes.last_mut().expect("just installed");
        write.entries = entries;
        if write.needs_cleanup(table) {
            row.add_work();
        }
        if write.entries.is_none() {
            return Ok(());
        }
        row.set_reindexed();
        self.enter_all(table, row).map_err(Refusal::Error)
    }

    /// Whether a row that is put in the place of the newest version has been there since a durable commit.
    fn lasts(&self, newest: &Newest<'_>) -> bool {
        let is_durable = || newest.begin.is_some_and(|begin| begin <= self.runner.shared.logs.durable());
        !newest.version.is_tombstone() && (newest.version.is_lasting() || is_durable())
    }

    /// The entries that differ between two bodies of a row, or a body and none.
    #[inline]
    fn changed_entries(
        &self,
        table: &Table,
        row: &Row,
        before: Option<&[u8]>,
        after: Option<&[u8]>,
    ) -> Result<Option<Box<Entries>>, Error> {
        let mut changed: Option<Box<Entries>> = None;
        let inner = table.inner();
        for (index, secondary) in inner.secondary.iter().enumerate() {
            if let (Some(before), Some(after)) = (before, after)
                && inner.same_columns(secondary, before, after)?
            {
                continue;
            }
            let entry_of = |body: Option<&[u8]>| {
                let mut entry = Vec::new();
                let entry =
                    body.map(|body| inner.secondary_entry(secondary, row.key(), body, &mut entry).map(|()| entry));
                entry.transpose()
            };
            let (stale, made) = (entry_of(before)?, entry_of(after)?);
            if stale != made {
                let entries = changed.get_or_insert_default();
                entries.stale.extend(stale.map(|entry| (index, entry.into_boxed_slice())));
                entries.made.extend(made.map(|entry| (index, entry.into_boxed_slice())));
            }
        }
        if let Some(changed) = &changed {
            inner.check_entries(&changed.made)?;
        }
        Ok(changed)
    }

    fn insert_new<'r>(&mut self, table: &Table, key: &[u8], body: Option<&[u8]>) -> Result<Inserted<'r>, Error> {
        self.answer_at_moments();
        let row = Row::allocate(&mut self.runner.arena, self.writer, key, body).map_err(no_memory)?;
        // SAFETY: just made.
        let row_ref: &'r Row = unsafe { row.as_ref() };
        let pin = Pin::of_announced(&self.runner.participant);
        let primary = &self.inner(table).primary;
        let changes = &mut self.runner.buffers.changes;
        let critical = Critical::enter(INSTALLING);
        let inserted = primary.insert(key, row_ref.address(), &pin, changes);
        self.reads.get_mut().own_insert(changes);
        if let Err(Occupied { existing }) = inserted {
            // SAFETY: nobody has seen the new row; the other came out of the index under the transaction's pin.
            let existing = unsafe {
                self.runner.arena.free(row.cast(), row_ref.block_bytes());
                Row::at(existing)
            };
            return Ok(Inserted::Occupied(existing));
        }
        let version = NonNull::from(row_ref.head().expect("a new row has a version"));
        self.writes.push(Write { row, version, before: None, base: None, table: table.id().0, entries: None });
        drop(critical);
        if let Some(body) = body {
            self.enter_insert(table, row_ref, body)?;
        }
        Ok(Inserted::Row(self.row_id(table, row_ref)))
    }

    /// Inserts where a row of this key was before.
    fn insert_over(&mut self, table: &Table, row: &Row, body: &[u8]) -> Result<(), Refusal> {
        let newest = self.newest(table, row)?;
        if !newest.version.is_tombstone() {
            // That it is there is something read.
            self.see(table.into(), row);
            let (table, index) = (table.name().into(), "primary key".into());
            return Err(Refusal::Error(Error::Duplicate { table, index }));
        }
        // That it had gone is told by the row's being taken.
        if let Some(begin) = newest.begin {
            self.meet(begin);
        }
        let version = self.allocate(Some(body)).map_err(Refusal::Error)?;
        self.supersede(table, row, &newest, version)
    }

    /// Makes the entries of a row just inserted; takes the row back if one is refused.
    fn enter_insert(&mut self, table: &Table, row: &Row, body: &[u8]) -> Result<(), Error> {
        if table.inner().secondary.is_empty() {
            return Ok(());
        }
        let made = table.inner().entries_of(row.key(), body);
        let made = match made.and_then(|made| table.inner().check_entries(&made).map(|()| made)) {
            Ok(made) => made,
            Err(error) => {
                self.take_back(self.writes.len() - 1);
                return Err(error);
            }
        };
        self.writes.last_mut().expect("the insert").entries = Some(Box::new(Entries { stale: Vec::new(), made }));
        self.enter_all(table, row)
    }

    /// Puts the entries made by the last write into their indexes; takes the write back if one is refused.
    fn enter_all(&mut self, table: &Table, row: &Row) -> Result<(), Error> {
        let last = self.writes.len() - 1;
        let count = self.writes[last].entries.as_ref().map_or(0, |entries| entries.made.len());
        for position in 0..count {
            let entries = self.writes[last].entries.as_ref().expect("counted above");
            let (index, entry) = &entries.made[position];
            let secondary = &table.inner().secondary[*index];
            let pin = Pin::of_announced(&self.runner.participant);
            let changes = &mut self.runner.buffers.changes;
            // An entry that is there already is the row's own, of an earlier version.
            let _ = secondary.entries.insert(entry, row.address(), &pin, changes);
            self.reads.get_mut().own_insert(changes);
            if secondary.definition.unique
                && let Err(error) = self.check_unique(table, secondary, row, entry)
            {
                self.take_back(last);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether the entry just made is the only one of its values. Entered first and looked second: of two transactions
    /// that make the same values at once, at least one finds the other's entry.
    fn check_unique(&self, table: &Table, secondary: &Secondary, row: &Row, entry: &[u8]) -> Result<(), Error> {
        let inner = table.inner();
        let prefix = inner.column_prefix(secondary, entry)?;
        if prefix.has_null {
            return Ok(());
        }
        // The entry is there for all before others are looked for: a fence between a store and a load.
        fence(Ordering::SeqCst);
        let values = &entry[..prefix.bytes];
        let mut outcome = Ok(());
        self.each_entry_with_prefix(&secondary.entries, values, |other_entry, other| {
            if std::ptr::eq(other, row) || outcome.is_err() {
                return;
            }
            outcome = self.check_other(table, secondary, other, other_entry);
        });
        outcome
    }

    /// Refuses if `other` has, or may get back, the entry.
    fn check_other(&self, table: &Table, secondary: &Secondary, other: &Row, entry: &[u8]) -> Result<(), Error> {
        let mut made = Vec::new();
        let mut has_entry = |version: &Version| {
            version.body().is_some_and(|body| table.inner().has_entry(secondary, other.key(), body, entry, &mut made))
        };
        let mut next = other.head();
        // Who may yet change what the committed version says.
        let mut pending = None;
        while let Some(version) = next {
            match version.begin(self.writer, self.epochs()) {
                Begin::Own => {
                    return if has_entry(version) { Err(duplicate(table, secondary)) } else { Ok(()) };
                }
                Begin::Committed(NEVER) => {}
                Begin::Committed(begin) => {
                    return match has_entry(version) {
                        false => {
                            // That it has other values now is, too.
                            self.meet(begin);
                            Ok(())
                        }
                        true if begin <= self.snapshot && pending.is_none() => {
                            // That it is there is something read.
                            self.see(table.into(), other);
                            Err(duplicate(table, secondary))
                        }
                        true => {
                            self.meet(begin);
                            Err(table.conflict(other.key(), pending.flatten()))
                        }
                    };
                }
                // Whatever becomes of the other transaction, one of its versions or the one before them all will count.
                _ if has_entry(version) => return Err(table.conflict(other.key(), version.pending_writer())),
                _ => pending = pending.or(Some(version.pending_writer())),
            }
            next = version.older();
        }
        Ok(())
    }

    #[inline]
    fn allocate(&mut self, body: Option<&[u8]>) -> Result<NonNull<Version>, Error> {
        Version::allocate(&mut self.runner.arena, self.writer, body).map_err(no_memory)
    }

    /// Frees a version that was not installed.
    fn discard(&mut self, version: NonNull<Version>) {
        // SAFETY: made by this transaction and seen by nobody else.
        unsafe { self.runner.arena.free(version.cast(), version.as_ref().block_bytes()) };
    }

    /// Makes `version` the newest and remembers it. On an error the version is still the caller's.
    #[inline]
    fn install(
        &mut self,
        table: &Table,
        row: &Row,
        newest: &Newest<'_>,
        version: NonNull<Version>,
    ) -> Result<(), Refusal> {
        self.answer_at_moments();
        let _critical = Critical::enter(INSTALLING);
        row.install(newest.version, version).map_err(|refused| self.refusal(table, row, refused))?;
        if let (Some(begin), Some(lag)) = (newest.begin, &self.runner.lag) {
            row.prune(newest.version, begin, &lag.snapshots, lag.watermark);
        }
        let before = NonNull::from(newest.version);
        let base = match newest.begin {
            Some(begin) => Some((before, begin)),
            // Its own: what that one is based on.
            None => self.positions.find(&self.writes, before).and_then(|position| self.writes[position].base),
        };
        let row = NonNull::from(row);
        self.writes.push(Write { row, version, before: Some(before), base, table: table.id().0, entries: None });
        Ok(())
    }

    /// As a visit to chains. If `operation` panics, the end of the transaction ends the visit.
    #[inline]
    pub(super) fn visiting<T>(&mut self, operation: impl FnOnce(&mut Self) -> T) -> T {
        let is_outer = self.runner.participant.begin_visit();
        let outcome = operation(self);
        self.runner.participant.end_visit(is_outer);
        outcome
    }
}

enum Inserted<'r> {
    Row(RowId),
    Occupied(&'r Row),
}

enum Refusal {
    Dead,
    Error(Error),
}

impl Refusal {
    /// Of a row that the transaction has seen: it has been taken out of use since.
    #[cold]
    fn of_known_row(self, table: &Table, row: &Row) -> Error {
        match self {
            Self::Dead => table.conflict(row.key(), None),
            Self::Error(error) => error,
        }
    }
}

#[cold]
fn duplicate(table: &Table, secondary: &Secondary) -> Error {
    Error::Duplicate { table: table.name().into(), index: secondary.definition.name.clone() }
}

#[cold]
fn no_row(table: &Table) -> Error {
    Error::NoRow { table: table.name().into() }
}

#[cold]
fn no_memory(error: std::io::Error) -> Error {
    Error::Memory { message: format!("the system gives no memory for a row: {error}") }
}
