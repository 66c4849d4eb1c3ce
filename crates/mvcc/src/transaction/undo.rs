//! Taking back what was written: to a savepoint, or all of it.

use super::{Entries, Transaction, Write};
use crate::chain::{Row, Version};
use crate::epoch::Pin;
use crate::reclaim::Cleanup;
use crate::table::{NumberedEntry, Table};

impl Transaction<'_> {
    /// Takes back all writes from the given one on.
    pub(super) fn undo(&mut self, from: usize) {
        self.visiting(|transaction| {
            while transaction.writes.len() > from {
                let write = transaction.writes.pop().expect("there are more");
                transaction.undo_one(write);
            }
        });
    }

    #[cold]
    fn undo_one(&mut self, write: Write) {
        let table = self.session.known(write.table).clone();
        // SAFETY: rows and versions of this transaction's writes are kept by its pin.
        let (row, version) = unsafe { (write.row.as_ref(), write.version.as_ref()) };
        let session = &mut *self.session;
        let epochs = &session.shared.epochs;
        let pin = Pin::of_announced(&session.participant);
        let Entries { stale, made } = write.entries.map(|entries| *entries).unwrap_or_default();
        match write.before {
            None => {
                // Nobody else has ever seen the row with a body, and its entries are of no other version.
                let nodes = &mut session.reclaimer.nodes;
                for (index, entry) in &made {
                    table.inner().secondary[*index].entries.remove(entry, row.address(), &pin, nodes);
                }
                row.uninstall(version, std::ptr::null_mut());
                table.inner().primary.remove(row.key(), row.address(), &pin, nodes);
                session.reclaimer.unlinked(write.row.cast(), row.block_bytes(), epochs);
            }
            Some(before) => {
                // An update of indexed columns, or a delete, has announced one cleanup.
                let is_announced = needs_cleanup(&table, version, &stale);
                let earlier = self.writes.iter_mut().rev().find(|earlier| earlier.version == before);
                // SAFETY: as above.
                let is_reinsert = unsafe { before.as_ref() }.is_tombstone() && !table.is_over_base();
                // Without an earlier write, it is the entries made that are to be cleaned up now. So it is with a row that was inserted
                // anew; moreover cleanups of the delete before may have passed by while the row was written.
                let needs_another = earlier.is_none() && (is_reinsert || !made.is_empty());
                if needs_another && !is_announced {
                    // Before others may take the row out of use.
                    row.add_work();
                }
                row.uninstall(version, before.as_ptr());
                session.reclaimer.unlinked(write.version.cast(), version.block_bytes(), epochs);
                if let Some(earlier) = earlier {
                    earlier.take_over(&table, row, made, is_announced);
                } else if needs_another {
                    let at = epochs.retirement() + 1;
                    session.reclaimer.cleanup(Cleanup { table, row: write.row, entries: made }, at);
                } else if is_announced {
                    row.end_work();
                }
            }
        }
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

    /// Takes over the entries that a later write to its row had made and that was taken back: they go with this write, and are stale
    /// if it stays. `is_announced`: a cleanup is counted for them.
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
