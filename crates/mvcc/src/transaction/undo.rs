//! Taking back what was written: to a savepoint, or all of it.

use std::ops::ControlFlow;

use saki_base::Critical;
use saki_base::panics::{self, Place};

use super::{Direction, KeyRange, Transaction};
use crate::chain::{Row, Version};
use crate::epoch::Pin;
use crate::runner::{Cleanup, Entries, Write};
use crate::table::{IndexId, NumberedEntry, Table};

impl Transaction<'_> {
    /// Takes back all writes from the given one on, and goes on. A serializable transaction answers for what they
    /// have told it.
    pub(super) fn take_back(&mut self, from: usize) {
        if self.is_serializable() {
            (from..self.writes.len()).for_each(|position| self.remember_absences(&self.writes[position]));
        }
        self.undo(from);
    }

    /// What a write knows by having been made: that there was no row of its key, and no other one of its values in a
    /// unique index. As long as it stays, others cannot come there; afterwards that is something read.
    fn remember_absences(&self, write: &Write) {
        let table = self.runner.known(write.table);
        let inner = table.inner();
        // SAFETY: rows and versions of this transaction's writes, and those they are based on, are kept by its pin.
        let (row, base) = unsafe { (write.row.as_ref(), write.base.map(|(base, _)| base.as_ref())) };
        if base.is_none_or(Version::is_tombstone) {
            if let Some(base) = base {
                self.remember(table, row, if table.is_over_base() { base } else { std::ptr::null() });
            }
            // The leaf changes when the row is taken away, so that the key is looked up again at the commit.
            let (_, leaf) = inner.primary.get_observed(row.key(), &self.pin());
            self.reads.borrow_mut().absent(&inner.primary, table.is_over_base(), row.key(), leaf);
        }
        let made = write.entries.as_ref().map_or(&[] as &[_], |entries| &entries.made);
        for (index, entry) in made.iter().filter(|(index, _)| inner.secondary[*index].definition.unique) {
            // Bytes that are no entry were refused when it was made.
            let Ok(prefix) = inner.column_prefix(&inner.secondary[*index], entry) else { continue };
            if !prefix.has_null {
                let range = KeyRange::prefix(&entry[..prefix.bytes]);
                self.scan_index(table, IndexId(*index), &range, Direction::Forward, |_, _| ControlFlow::Continue(()));
            }
        }
    }

    /// Takes away all writes from the given one on.
    pub(super) fn undo(&mut self, from: usize) {
        if self.writes.len() <= from {
            return;
        }
        // What is neither there nor taken back would be in the way of others for ever.
        let _critical = Critical::enter("taking back what a transaction wrote");
        self.visiting(|transaction| {
            while transaction.writes.len() > from {
                panics::pass(Place::TakingBack);
                let write = transaction.writes.pop().expect("there are more");
                transaction.positions.forget(transaction.writes.len(), &write);
                transaction.undo_one(write);
            }
        });
        self.runner.let_time_pass(self.snapshot);
    }

    #[cold]
    fn undo_one(&mut self, write: Write) {
        let table = self.runner.known(write.table).clone();
        // SAFETY: rows and versions of this transaction's writes are kept by its pin.
        let (row, version) = unsafe { (write.row.as_ref(), write.version.as_ref()) };
        let runner = &mut *self.runner;
        let garbage = &mut *runner.shelf.lock();
        let epochs = &runner.shared.epochs;
        let pin = Pin::of_announced(&runner.participant);
        let Entries { stale, made } = write.entries.map(|entries| *entries).unwrap_or_default();
        match write.before {
            None => {
                // Nobody else has ever seen the row with a body, and its entries are of no other version.
                let nodes = &mut garbage.nodes;
                for (index, entry) in &made {
                    table.inner().secondary[*index].entries.remove(entry, row.address(), &pin, nodes);
                }
                row.uninstall(version, std::ptr::null_mut());
                table.inner().primary.remove(row.key(), row.address(), &pin, nodes);
                garbage.unlinked(write.row.cast(), row.block_bytes(), epochs);
            }
            Some(before) => {
                // An update of indexed columns, or a delete, has announced one cleanup.
                let is_announced = needs_cleanup(&table, version, &stale);
                let is_own = write.base.is_none_or(|(base, _)| base != before);
                let earlier = if is_own { self.positions.find(&self.writes, before) } else { None };
                let earlier = earlier.map(|position| &mut self.writes[position]);
                // SAFETY: as above.
                let is_reinsert = unsafe { before.as_ref() }.is_tombstone() && !table.is_over_base();
                // Without an earlier write, it is the entries made that are to be cleaned up now. So it is with a row
                // that was inserted anew; moreover cleanups of the delete before may have passed by while the row was
                // written.
                let needs_another = earlier.is_none() && (is_reinsert || !made.is_empty());
                if needs_another && !is_announced {
                    // Before others may take the row out of use.
                    row.add_work();
                }
                row.uninstall(version, before.as_ptr());
                garbage.unlinked(write.version.cast(), version.block_bytes(), epochs);
                if let Some(earlier) = earlier {
                    earlier.take_over(&table, row, made, is_announced);
                } else if needs_another {
                    let at = epochs.retirement() + 1;
                    garbage.cleanup(Cleanup { table, row: write.row, entries: made }, at);
                } else if is_announced {
                    row.end_work();
                }
            }
        }
        runner.due = garbage.due();
    }
}

/// Whether a version leaves something to clean up when it is committed: a delete, unless that stays, or stale entries.
fn needs_cleanup(table: &Table, version: &Version, stale: &[NumberedEntry]) -> bool {
    version.is_tombstone() && !table.is_over_base() || !stale.is_empty()
}

impl Write {
    /// As [`needs_cleanup`], of this one.
    #[inline]
    pub(super) fn needs_cleanup(&self, table: &Table) -> bool {
        let stale = self.entries.as_ref().map_or(&[] as &[_], |entries| &entries.stale);
        // SAFETY: versions of this transaction's writes are kept by its pin.
        needs_cleanup(table, unsafe { self.version.as_ref() }, stale)
    }

    /// Takes over the entries that a later write to its row had made and that was taken back: they go with this write,
    /// and are stale if it stays. `is_announced`: a cleanup is counted for them.
    fn take_over(&mut self, table: &Table, row: &Row, made: Vec<NumberedEntry>, is_announced: bool) {
        let had_cleanup = self.needs_cleanup(table);
        let needs_cleanup = had_cleanup || !made.is_empty();
        if !made.is_empty() {
            let entries = self.entries.get_or_insert_default();
            entries.stale.extend(made.iter().cloned());
            entries.made.extend(made);
        }
        match (u8::from(had_cleanup) + u8::from(is_announced)).cmp(&u8::from(needs_cleanup)) {
            std::cmp::Ordering::Less => row.add_work(),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => _ = row.end_work(),
        }
    }
}
