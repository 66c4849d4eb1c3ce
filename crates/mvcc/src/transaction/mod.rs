//! Transactions: what they see, what they write, and how they end.
//!
//! ```text
//!   begin ── snapshot = clock ── reads and writes ──┬── abort: versions taken away
//!                                                   └── commit:
//!      reserve room in the log
//!      serializable: validate      ─► what of many reads can be validated before; failed: abort
//!      mark as committing
//!      take the timestamp          ◄─ the one write of memory that all share
//!      serializable: validate      ─► few reads, or what has changed since; failed: a void record, abort
//!      stamp the versions          ─► visible to all from here on: speculative, since not durable yet
//!      leave the record in the log ─► durable when the log says so; only then is a client told
//! ```
//!
//! # What is promised
//! - *Snapshot*: every read sees what was committed when the transaction began, and its own writes. Of two transactions
//!   that write the same row and overlap in time, the first to commit wins; the other is told of the conflict when it
//!   writes. [`Transaction::refresh`] moves the snapshot on, which makes it *read committed* if that is done before
//!   each statement.
//! - *Serializable*: moreover, the outcome is as if all serializable transactions had run one after the other, in the
//!   order of their timestamps: at its commit a writer checks that its reads would give the same again (optimistic
//!   validation, after Tu et al., "Speedy transactions in multicore in-memory databases", 2013). Ranges and absent keys
//!   are protected by the versions of the index leaves they were looked for in. One that wrote nothing stands where its
//!   snapshot was taken.
//! - Nobody waits for another transaction here, but for one that is between its timestamp and its last stamp: a few
//!   hundred instructions without I/O. Waits go from later timestamps to earlier ones only. So there are no deadlocks.
//!   Who rather waits than begins anew asks to be told when the other one has ended (`waiting`).
//! - What a transaction read was committed by transactions of earlier timestamps, so it is acknowledged when the
//!   durable horizon has reached its own timestamp (or, if it wrote nothing, the latest that it saw).

mod begin;
mod commit;
mod held;
mod moment;
mod read;
mod reader;
mod scan;
mod suspend;
mod undo;
mod validation;
mod write;

use std::cell::{Cell, OnceCell, RefCell};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::chain::{Holder, Row, Version, Writer};
use crate::epoch::{Epochs, Pin};
use crate::error::Error;
use crate::runner::{Durability, Isolation, Positions, Reads, Receipt, Runner, ScanMemory, Write};
use crate::sync::Ordering;
use crate::table::{Inner, Table};

pub use crate::index::Direction;
pub use moment::Moment;
pub use read::{Found, Seen};
pub use reader::Reader;
pub use scan::KeyRange;

/// A row as seen by one transaction: a handle to read on from or to write to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowId {
    row: NonNull<Row>,
    table: u32,
    /// Which database of this process, and which transaction of it: a handle is good in no other.
    instance: u32,
    writer: Writer,
    /// How often the transaction had been refreshed: what it saw before may be gone.
    refreshes: u32,
}

// SAFETY: a handle is an address and says so; only its own transaction, checked at every use, looks at what is there.
unsafe impl Send for RowId {}
// SAFETY: as above.
unsafe impl Sync for RowId {}

/// A place in a transaction to go back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    writes: usize,
    writer: Writer,
}

/// A transaction. Dropped, it is aborted.
///
/// # Panics
/// Every operation, when it is given a table of another database.
pub struct Transaction<'s> {
    runner: &'s mut Runner,
    isolation: Isolation,
    durability: Durability,
    snapshot: u64,
    refreshes: u32,
    writer: Writer,
    reads: RefCell<Reads>,
    writes: Vec<Write>,
    /// The latest timestamp of what it has seen, or was told of by an error.
    latest: Cell<u64>,
    /// The same of what says which rows are there.
    presence: Cell<u64>,
    /// The same as the first of its moments, once there is one.
    seen_at_moments: OnceCell<Arc<AtomicU64>>,
    positions: Positions,
    scan_memory: Cell<Option<Box<ScanMemory>>>,
    is_over: bool,
}

impl<'s> Transaction<'s> {
    pub(crate) fn new(runner: &'s mut Runner, isolation: Isolation, durability: Durability, snapshot: u64) -> Self {
        let writer = runner.writer();
        let reads = RefCell::new(std::mem::take(&mut runner.buffers.reads));
        let writes = std::mem::take(&mut runner.buffers.writes);
        let (latest, presence) = Default::default();
        let scan_memory = Cell::new(runner.buffers.scan.take());
        let (refreshes, is_over) = (0, false);
        let (seen_at_moments, positions) = (OnceCell::new(), Positions::default());
        Self {
            runner,
            isolation,
            durability,
            snapshot,
            refreshes,
            writer,
            reads,
            writes,
            latest,
            presence,
            seen_at_moments,
            positions,
            scan_memory,
            is_over,
        }
    }

    /// The timestamp it reads at.
    pub fn snapshot(&self) -> u64 {
        self.snapshot
    }

    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Whether there is anything that its commit would change.
    pub fn has_written(&self) -> bool {
        !self.writes.is_empty()
    }

    /// What others know it by that meet its pending versions.
    pub fn holder(&self) -> Holder {
        Holder { writer: self.writer, instance: self.runner.shared.instance }
    }

    /// Moves the snapshot to now: from here on it sees what has been committed since. Its own writes stay, handles of
    /// rows do not; and writes that met a conflict with what has been committed may be tried again.
    ///
    /// # Panics
    /// If the transaction is serializable: it promises that all its reads are of one moment.
    pub fn refresh(&mut self) {
        assert!(!self.is_serializable(), "the snapshot of a serializable transaction stays where it is");
        // What is held for the sake of old versions was found out with the old snapshot.
        self.runner.let_go();
        // All that is kept from before is the rows that it has written: these stay, since nobody else becomes their
        // writer, with the versions that are about to be superseded.
        self.snapshot = self.runner.take_snapshot();
        self.refreshes = self.refreshes.wrapping_add(1);
    }

    /// A place to go back to.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { writes: self.writes.len(), writer: self.writer }
    }

    /// Takes back what was written since. Reads stay read: a serializable transaction answers for them as well.
    ///
    /// # Panics
    /// If the savepoint is another transaction's, or lies behind one that was gone back to before.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        assert!(savepoint.writer == self.writer, "a savepoint is good only in its own transaction");
        assert!(savepoint.writes <= self.writes.len(), "the savepoint was taken back itself");
        self.take_back(savepoint.writes);
    }

    /// Takes everything back. So does dropping it. What it has seen until then may be told once the runner's
    /// [receipt](Runner::receipt) is durable.
    pub fn abort(self) {}

    /// What has to be durable before anybody is told of what the transaction has seen so far: rows, that there are
    /// none, and errors that speak of other transactions' rows (`Duplicate`, `Conflict`).
    pub fn receipt(&self) -> Receipt {
        let at_moments = self.seen_at_moments.get().map_or(0, |seen| seen.load(Ordering::Acquire));
        Receipt { timestamp: None, through: self.latest.get().max(at_moments) }
    }

    /// As [`Runner::presence`].
    pub fn presence(&self) -> Receipt {
        Receipt { timestamp: None, through: self.presence.get() }
    }

    /// It has met a commit of this timestamp.
    #[inline]
    fn meet(&self, timestamp: u64) {
        self.meet_values(timestamp);
        self.presence.set(self.presence.get().max(timestamp));
    }

    /// The same of one that says nothing of which rows are there.
    #[inline]
    fn meet_values(&self, timestamp: u64) {
        self.latest.set(self.latest.get().max(timestamp));
    }

    /// It has met a row: a version of another transaction, of this timestamp, or its own, of 0.
    #[inline]
    fn meet_row(&self, version: &Version, begin: u64) {
        self.meet_values(begin);
        if version.is_lasting() && !version.is_tombstone() {
            return;
        }
        // Its own was made of what it had seen.
        let of = if begin == 0 { self.receipt().through } else { begin };
        self.presence.set(self.presence.get().max(of));
    }

    #[inline]
    fn epochs(&self) -> &Epochs {
        &self.runner.shared.epochs
    }

    #[inline]
    fn pin(&self) -> ManuallyDrop<Pin<'_>> {
        Pin::of_announced(&self.runner.participant)
    }

    #[inline]
    fn is_serializable(&self) -> bool {
        self.isolation == Isolation::Serializable
    }

    #[inline]
    fn row_id(&self, table: &Table, row: &Row) -> RowId {
        let instance = self.runner.shared.instance;
        RowId { row: NonNull::from(row), table: table.id().0, instance, writer: self.writer, refreshes: self.refreshes }
    }

    /// # Panics
    /// If the table is another database's: its rows are not kept by this transaction's pin.
    #[inline]
    fn inner<'t>(&self, table: &'t Table) -> &'t Inner {
        let inner = table.inner();
        assert!(inner.instance == self.runner.shared.instance, "a table is good only in the database it was got from");
        if self.is_serializable() {
            self.reads.borrow_mut().of(table);
        }
        inner
    }

    /// The row of a handle, if the handle is this transaction's.
    #[inline]
    fn row_of<'r>(&self, table: &Table, id: RowId) -> Result<&'r Row, Error> {
        let is_own = id.writer == self.writer && id.instance == self.runner.shared.instance;
        if !is_own || id.refreshes != self.refreshes || id.table != self.inner(table).id.0 {
            return Err(Error::ForeignRow);
        }
        // SAFETY: the handle is of this transaction, so the row was reachable under its pin, which lasts.
        Ok(unsafe { id.row.as_ref() })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.undo(0);
            self.finish();
        }
    }
}
