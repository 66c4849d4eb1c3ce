//! How a transaction ends well.

use std::ptr;

use super::reads::Viewpoint;
use super::{Durability, Receipt, Tally, Transaction, Write};
use crate::chain::{NEVER, Version};
use crate::counters::Growth;
use crate::database::Sabotage;
use crate::error::Error;
use crate::reclaim::Cleanup;
use crate::record::{Change, Effect, Patch};

impl Transaction<'_> {
    /// Commits, and waits until that is durable if the transaction is to be. Its timestamp, if it wrote anything.
    ///
    /// # Errors
    /// `Serialization` if what it read has changed: aborted, run it again. `Log` if the log refuses it: aborted, unless it says
    /// `Failed` or `Closed`, which leaves open whether the commit will be found after the next start.
    pub fn commit(mut self) -> Result<Option<u64>, Error> {
        let receipt = self.complete()?;
        if self.durability == Durability::Sync {
            self.session.shared.logs.wait_durable(receipt.through)?;
        }
        Ok(receipt.timestamp)
    }

    /// Commits without waiting: all see it, but it may still be lost with everything that builds on it. Whoever asked for it may
    /// be told only once [`Database::is_durable`](crate::Database::is_durable) says so of the receipt.
    ///
    /// # Errors
    /// As `commit`; all of them mean that it was aborted.
    pub fn commit_early(mut self) -> Result<Receipt, Error> {
        self.complete()
    }

    fn complete(&mut self) -> Result<Receipt, Error> {
        let receipt = if self.writes.is_empty() {
            Receipt { timestamp: None, through: self.latest.get() }
        } else {
            let timestamp = self.write_through()?;
            Receipt { timestamp: Some(timestamp), through: timestamp }
        };
        self.finish();
        Ok(receipt)
    }

    /// The steps of a commit that wrote something, as the module's drawing has them; the timestamp.
    fn write_through(&mut self) -> Result<u64, Error> {
        let mut payload = std::mem::take(&mut self.session.buffers.payload);
        let outcome = loop {
            payload.clear();
            let whole_through = self.session.shared.whole_through();
            self.describe(whole_through, &mut payload);
            match self.stamp_and_log(whole_through, &payload) {
                Ok(None) => {}
                Ok(Some(timestamp)) => break Ok(timestamp),
                Err(error) => break Err(error),
            }
        };
        self.session.buffers.payload = payload;
        outcome
    }

    /// `None` if the logs began to be cut after the record was described: it may lean on what is about to go.
    fn stamp_and_log(&mut self, whole_through: u64, payload: &[u8]) -> Result<Option<u64>, Error> {
        let session = &*self.session;
        let reservation = session.shared.logs.reserve(session.log, payload.len())?;
        session.set_committing();
        let timestamp = session.shared.epochs.tick();
        session.set_commit(timestamp);
        if session.shared.whole_through() != whole_through {
            reservation.void(timestamp);
            session.set_running();
            return Ok(None);
        }
        if !self.is_valid(timestamp) {
            reservation.void(timestamp);
            return Err(Error::Serialization);
        }
        // Noted before it is seen.
        let slot = session.participant.slot();
        for tally in &session.buffers.tallies {
            session.known(tally.table).inner().counters.note_commit(slot, timestamp);
        }
        for write in &self.writes {
            // SAFETY: versions of this transaction's writes are kept by its pin.
            unsafe { write.version.as_ref() }.stamp(if write.is_last() { timestamp } else { NEVER });
        }
        reservation.commit(timestamp, payload);
        self.hand_over(timestamp);
        Ok(Some(timestamp))
    }

    /// The log's record of the transaction.
    fn describe(&mut self, whole_through: u64, payload: &mut Vec<u8>) {
        let mut tallies = std::mem::take(&mut self.session.buffers.tallies);
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
        self.session.buffers.tallies = tallies;
    }

    /// Whether all reads would give the same again, right before `timestamp`.
    fn is_valid(&self, timestamp: u64) -> bool {
        if !self.is_serializable() {
            return true;
        }
        let pin = self.pin();
        let reads = self.reads.borrow();
        let view = Viewpoint { timestamp, writer: self.writer, epochs: self.epochs(), pin: &pin };
        let sabotage = self.session.shared.sabotage;
        self.session.participant.visiting(|| {
            (sabotage == Some(Sabotage::IgnoreRows) || reads.rows_hold(view))
                && (sabotage == Some(Sabotage::IgnoreRanges) || reads.ranges_hold(view))
        })
    }

    /// Queues what the transaction has made garbage of.
    fn hand_over(&mut self, timestamp: u64) {
        let Self { session, writes, .. } = self;
        for tally in &session.buffers.tallies {
            session.known(tally.table).inner().counters.grow(session.participant.slot(), tally.growth);
        }
        for write in writes.drain(..) {
            if let Some(before) = write.before {
                session.reclaimer.superseded(before, timestamp);
            }
            // SAFETY: versions of this transaction's writes are kept by its pin.
            let is_delete = unsafe { write.version.as_ref() }.is_tombstone();
            // Most writes leave nothing behind.
            if is_delete || write.entries.is_some() {
                let table = session.known(write.table).clone();
                if write.needs_cleanup(&table) {
                    let entries = write.entries.map(|entries| entries.stale).unwrap_or_default();
                    session.reclaimer.cleanup(Cleanup { table, row: write.row, entries }, timestamp);
                }
            }
        }
    }

    /// The end, good or bad: everything written is stamped or taken away.
    pub(super) fn finish(&mut self) {
        self.is_over = true;
        // A visit that a panic broke off ends here.
        self.session.participant.end_visit(self.session.participant.is_visiting());
        let mut reads = self.reads.take();
        reads.clear();
        self.session.buffers.reads = reads;
        self.session.buffers.scan = self.scan_memory.take();
        self.session.buffers.writes = std::mem::take(&mut self.writes);
        self.session.end(self.snapshot);
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

    /// How the body differs from the committed one, where the log may say it so: not for versions that it may have been cut of.
    fn patch<'a>(&self, body: &'a [u8], whole_through: u64) -> Option<Patch<'a>> {
        let (base, begin) = self.base.filter(|(_, begin)| *begin > whole_through)?;
        // SAFETY: the version that this write took the place of is kept by the transaction's pin.
        Patch::between(begin, unsafe { base.as_ref() }.body()?, body)
    }
}
