//! Transactions that stay open while nobody runs them: between the statements of a client, whichever thread the next one comes to.

use std::cell::{Cell, RefCell};

use super::reads::Reads;
use super::{Durability, Isolation, Transaction, Write};
use crate::chain::Writer;
use crate::session::Session;

/// What a transaction is, but for the session that runs it.
pub(crate) struct Suspended {
    isolation: Isolation,
    durability: Durability,
    snapshot: u64,
    refreshes: u32,
    writer: Writer,
    reads: Reads,
    writes: Vec<Write>,
    latest: u64,
}

// SAFETY: the pointers are to rows and versions that the announcement of the session's participant keeps, and that is shared memory,
// of no thread. A suspended transaction moves with its session.
unsafe impl Send for Suspended {}

impl<'s> Transaction<'s> {
    /// Leaves the transaction open in its session, to be gone on with by [`Session::resume`]: its snapshot, reads and writes stay.
    pub fn suspend(mut self) {
        // A visit that a panic broke off ends here.
        self.session.participant.end_visit(self.session.participant.is_visiting());
        self.session.buffers.scan = self.scan_memory.take();
        let suspended = Suspended {
            isolation: self.isolation,
            durability: self.durability,
            snapshot: self.snapshot,
            refreshes: self.refreshes,
            writer: self.writer,
            reads: self.reads.take(),
            writes: std::mem::take(&mut self.writes),
            latest: self.latest.get(),
        };
        self.is_over = true;
        self.session.keep(suspended);
    }

    pub(crate) fn resumed(session: &'s mut Session, suspended: Suspended) -> Self {
        let Suspended { isolation, durability, snapshot, refreshes, writer, reads, writes, latest } = suspended;
        let scan_memory = Cell::new(session.buffers.scan.take());
        Self {
            session,
            isolation,
            durability,
            snapshot,
            refreshes,
            writer,
            reads: RefCell::new(reads),
            writes,
            latest: Cell::new(latest),
            scan_memory,
            is_over: false,
        }
    }
}
