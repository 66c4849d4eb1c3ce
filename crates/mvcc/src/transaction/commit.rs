//! How a transaction ends well.

use std::ptr;

use saki_base::Critical;
use saki_base::panics::{self, Place};
use saki_log::Reservation;

use super::Transaction;
use super::validation::Prepared;
use crate::chain::{NEVER, Version};
use crate::error::Error;
use crate::record::{Change, Effect, Patch};
use crate::runner::{Cleanup, Durability, Note, Receipt, Sabotage, Tally, Validity, Write};
use crate::table::Growth;

impl Transaction<'_> {
    /// Commits, and waits until that is durable if the transaction is to be. Its timestamp, if it wrote anything.
    ///
    /// # Errors
    /// `Serialization` if what it read has changed: aborted, run it again. `Log` if the log refuses it: aborted, unless
    /// it says `Failed` or `Closed`, which leaves open whether the commit will be found after the next start.
    pub fn commit(mut self) -> Result<Option<u64>, Error> {
        let receipt = self.complete()?;
        if self.durability == Durability::Sync {
            self.runner.shared.logs.wait_durable(receipt.through)?;
        }
        Ok(receipt.timestamp)
    }

    /// Commits without waiting: all see it, but it may still be lost with everything that builds on it. Whoever asked
    /// for it may be told only once [`Database::is_durable`](crate::Database::is_durable) says so of the receipt.
    ///
    /// # Errors
    /// As `commit`; all of them mean that it was aborted. They too rest on what others have committed: see
    /// [`Runner::receipt`](crate::Runner::receipt).
    pub fn commit_early(mut self) -> Result<Receipt, Error> {
        self.complete()
    }

    fn complete(&mut self) -> Result<Receipt, Error> {
        let mut receipt = self.receipt();
        if !self.writes.is_empty() {
            let timestamp = self.write_through()?;
            self.meet(timestamp);
            receipt = Receipt { timestamp: Some(timestamp), through: timestamp };
        }
        self.finish();
        Ok(receipt)
    }

    /// The steps of a commit that wrote something, as the module's drawing has them; the timestamp.
    fn write_through(&mut self) -> Result<u64, Error> {
        let mut prepared = self.prepare()?;
        let mut payload = std::mem::take(&mut self.runner.buffers.payload);
        let outcome = loop {
            payload.clear();
            let whole_through = self.runner.shared.whole_through();
            self.describe(whole_through, &mut payload);
            match self.stamp_and_log(whole_through, &payload, prepared.as_ref()) {
                Ok(Attempt::Committed(timestamp)) => break Ok(timestamp),
                Ok(Attempt::Outdated) => {}
                Ok(Attempt::Unclear) => match self.prepare_all() {
                    Ok(ahead) => prepared = Some(ahead),
                    Err(error) => break Err(error),
                },
                Err(error) => break Err(error),
            }
        };
        self.runner.buffers.payload = payload;
        outcome
    }

    fn stamp_and_log(
        &mut self,
        whole_through: u64,
        payload: &[u8],
        prepared: Option<&Prepared>,
    ) -> Result<Attempt, Error> {
        let runner = &*self.runner;
        let reservation = runner.shared.logs.reserve(runner.log, payload.len())?;
        runner.set_committing();
        let timestamp = runner.shared.epochs.tick();
        // From here on until the versions are stamped, whatever happens leaves a void record.
        let ticked = Ticked { reservation: Some(reservation), timestamp };
        runner.set_commit(timestamp);
        if runner.shared.whole_through() != whole_through {
            drop(ticked);
            runner.set_running();
            return Ok(Attempt::Outdated);
        }
        match self.validity(timestamp, prepared) {
            Validity::Holds => {}
            Validity::Unclear => {
                drop(ticked);
                runner.set_running();
                return Ok(Attempt::Unclear);
            }
            Validity::Changed => {
                drop(ticked);
                // It was changed by a transaction of an earlier timestamp, whichever that is.
                self.meet(timestamp);
                return Err(Error::Serialization);
            }
        }
        // Noted before it is seen.
        let participant = runner.participant.number();
        for tally in &runner.buffers.tallies {
            runner.known(tally.table).inner().counters.note_commit(participant, timestamp);
        }
        if runner.shared.epochs.is_watched() {
            let note = |write: &Write| Note { table: write.table, row: write.row.addr().get() };
            runner.shared.watches.note(self.writes.iter().map(note));
        }
        let reservation = ticked.validated();
        // Of versions that are stamped none can be taken back, and without its record the horizon stands still.
        let _critical = Critical::enter("stamping the rows of a commit and leaving its record");
        for write in &self.writes {
            // SAFETY: versions of this transaction's writes are kept by its pin.
            unsafe { write.version.as_ref() }.stamp(if write.is_last() { timestamp } else { NEVER });
            panics::pass(Place::Stamped);
        }
        if let Some(Sabotage::Told(tell)) = runner.shared.sabotage {
            tell(true);
        }
        reservation.commit(timestamp, payload);
        self.hand_over(timestamp);
        Ok(Attempt::Committed(timestamp))
    }

    /// The log's record of the transaction.
    fn describe(&mut self, whole_through: u64, payload: &mut Vec<u8>) {
        let mut tallies = std::mem::take(&mut self.runner.buffers.tallies);
        tallies.clear();
        for write in &self.writes {
            let is_last = write.is_last();
            let tally = match tallies.iter_mut().find(|tally| tally.table == write.table) {
                Some(tally) => tally,
                None => tallies.push_mut(Tally { table: write.table, growth: Growth::default() }),
            };
            write.count(is_last, &mut tally.growth);
            if !is_last {
                continue;
            }
            // SAFETY: rows and versions of this transaction's writes are kept by its pin.
            let (row, version) = unsafe { (write.row.as_ref(), write.version.as_ref()) };
            let effect = match version.body() {
                None => Effect::Delete,
                Some(body) => write.patch(body, whole_through).map_or(Effect::Put(body), Effect::Patch),
            };
            Change { table: write.table, key: row.key(), effect }.encode(payload);
        }
        self.runner.buffers.tallies = tallies;
    }

    /// Queues what the transaction has made garbage of.
    fn hand_over(&mut self, timestamp: u64) {
        let Self { runner, writes, .. } = self;
        for tally in &runner.buffers.tallies {
            runner.known(tally.table).inner().counters.grow(runner.participant.number(), tally.growth);
        }
        // Others come to it too. Who only inserts leaves nothing.
        let mut shelf = None;
        for write in writes.drain(..) {
            if let Some(before) = write.before {
                shelf.get_or_insert_with(|| runner.shelf.lock()).superseded(before, timestamp);
            }
            // SAFETY: versions of this transaction's writes are kept by its pin.
            let is_delete = unsafe { write.version.as_ref() }.is_tombstone();
            // Most writes leave nothing behind.
            if is_delete || write.entries.is_some() {
                let table = runner.known(write.table).clone();
                if write.needs_cleanup(&table) {
                    let entries = write.entries.map(|entries| entries.stale).unwrap_or_default();
                    let cleanup = Cleanup { table, row: write.row, entries };
                    shelf.get_or_insert_with(|| runner.shelf.lock()).cleanup(cleanup, timestamp);
                }
            }
        }
        if let Some(shelf) = shelf {
            runner.due = shelf.due();
        }
    }

    /// The end, good or bad: everything written is stamped or taken away.
    pub(super) fn finish(&mut self) {
        // Others may wait for the end, and what it keeps from being freed is kept until then.
        let _critical = Critical::enter("ending a transaction");
        self.is_over = true;
        panics::pass(Place::Finishing);
        self.runner.last_receipt = self.receipt();
        // A visit that a panic broke off ends here.
        self.runner.participant.end_visit(self.runner.participant.is_visiting());
        let mut reads = self.reads.take();
        reads.clear();
        self.runner.buffers.reads = reads;
        self.runner.buffers.scan = self.scan_memory.take();
        self.runner.buffers.writes = std::mem::take(&mut self.writes);
        self.runner.end(self.snapshot);
    }
}

/// What came of a timestamp.
enum Attempt {
    Committed(u64),
    /// Nothing: the logs began to be cut after the record was described, which may lean on what is about to go.
    Outdated,
    /// Nothing: there is too much to validate while others wait.
    Unclear,
}

/// A timestamp that was taken, and the room for its record. Dropped, by a panic too, it leaves a void record: a
/// timestamp without any would hold the durable horizon for ever.
struct Ticked<'l> {
    reservation: Option<Reservation<'l>>,
    timestamp: u64,
}

impl<'l> Ticked<'l> {
    /// The room: from here on nothing can fail.
    fn validated(mut self) -> Reservation<'l> {
        self.reservation.take().expect("taken once")
    }
}

impl Drop for Ticked<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            let _critical = Critical::enter("leaving the void record of a transaction");
            reservation.void(self.timestamp);
        }
    }
}

impl Write {
    /// Whether it is the transaction's last word on its row.
    #[inline]
    fn is_last(&self) -> bool {
        // SAFETY: the row is kept by the transaction's pin.
        let head = unsafe { self.row.as_ref() }.head();
        head.is_some_and(|head| ptr::eq(head, self.version.as_ptr()))
    }

    /// Counts by how much it makes its table grow; `is_last`: it is what becomes of its row.
    fn count(&self, is_last: bool, growth: &mut Growth) {
        // SAFETY: rows and versions of this transaction's writes, and those they are based on, are kept by its pin.
        let (row, version) = unsafe { (self.row.as_ref(), self.version.as_ref()) };
        let apart = |version: &Version| if version.is_inline() { 0 } else { version.block_bytes() as i64 };
        if self.before.is_none() {
            growth.rows += 1;
            growth.bytes += row.block_bytes() as i64;
        }
        if is_last {
            growth.bytes += apart(version);
            // SAFETY: as above.
            growth.bytes -= self.base.map_or(0, |(base, _)| apart(unsafe { base.as_ref() }));
        }
    }

    /// How the body differs from the committed one, where the log may say it so: not for versions that it may have been
    /// cut of.
    fn patch<'a>(&self, body: &'a [u8], whole_through: u64) -> Option<Patch<'a>> {
        let (base, begin) = self.base.filter(|(_, begin)| *begin > whole_through)?;
        // SAFETY: the version that this write took the place of is kept by the transaction's pin.
        Patch::between(begin, unsafe { base.as_ref() }.body()?, body)
    }
}
