//! Transactions that stay open while nobody runs them: between the statements of a client, whichever thread the next
//! one comes to.

use std::cell::{Cell, RefCell};

use super::Transaction;
use crate::runner::{Runner, Suspended};

impl<'s> Transaction<'s> {
    /// Leaves the transaction open in its runner, to be gone on with by [`Runner::resume`]: its snapshot, reads and
    /// writes stay.
    pub fn suspend(mut self) {
        // A visit that a panic broke off ends here.
        self.runner.participant.end_visit(self.runner.participant.is_visiting());
        self.runner.buffers.scan = self.scan_memory.take();
        let suspended = Suspended {
            isolation: self.isolation,
            durability: self.durability,
            snapshot: self.snapshot,
            refreshes: self.refreshes,
            writer: self.writer,
            reads: self.reads.take(),
            writes: std::mem::take(&mut self.writes),
            receipt: self.receipt(),
            presence: self.presence.get(),
            seen_at_moments: std::mem::take(&mut self.seen_at_moments),
            positions: std::mem::take(&mut self.positions),
        };
        self.is_over = true;
        self.runner.keep(suspended);
    }

    pub(crate) fn resumed(runner: &'s mut Runner, suspended: Suspended) -> Self {
        let Suspended { isolation, durability, snapshot, refreshes, writer, reads, writes, .. } = suspended;
        let Suspended { receipt, presence, seen_at_moments, positions, .. } = suspended;
        let scan_memory = Cell::new(runner.buffers.scan.take());
        Self {
            runner,
            isolation,
            durability,
            snapshot,
            refreshes,
            writer,
            reads: RefCell::new(reads),
            writes,
            latest: Cell::new(receipt.through),
            presence: Cell::new(presence),
            seen_at_moments,
            positions,
            scan_memory,
            is_over: false,
        }
    }
}
