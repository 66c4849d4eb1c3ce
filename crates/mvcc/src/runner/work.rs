//! What a transaction gathers while it runs: its runner keeps the memory of it, and all of it while a transaction is
//! suspended.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::outcome::{Durability, Isolation, Receipt};
use super::positions::Positions;
use super::reads::Reads;
use super::write::Write;
use crate::chain::Writer;
use crate::index::{LeafChange, Observed, ScanBuffer};
use crate::sync::Ordering;
use crate::table::Growth;

/// Memory of past transactions, for the next.
#[derive(Default)]
pub(crate) struct Buffers {
    pub reads: Reads,
    pub writes: Vec<Write>,
    pub payload: Vec<u8>,
    pub changes: Vec<LeafChange>,
    pub tallies: Vec<Tally>,
    pub scan: Option<Box<ScanMemory>>,
}

/// What a transaction adds to the memory of one table.
pub(crate) struct Tally {
    pub table: u32,
    pub growth: Growth,
}

// SAFETY: the pointers are to rows and versions that the pin of the transaction keeps; buffers are empty between
// transactions.
unsafe impl Send for Buffers {}

/// What a scan writes to, between scans.
#[derive(Default)]
pub(crate) struct ScanMemory {
    pub buffer: ScanBuffer,
    pub leaves: Vec<Observed>,
}

/// What a transaction is, but for the runner that runs it.
pub(crate) struct Suspended {
    pub isolation: Isolation,
    pub durability: Durability,
    pub snapshot: u64,
    pub refreshes: u32,
    pub writer: Writer,
    pub reads: Reads,
    pub writes: Vec<Write>,
    pub receipt: Receipt,
    /// The same of which rows are there.
    pub presence: u64,
    pub seen_at_moments: OnceCell<Arc<AtomicU64>>,
    pub positions: Positions,
}

// SAFETY: the pointers are to rows and versions that the announcement of the runner's participant keeps, and that is
// shared memory, of no thread. A suspended transaction moves with its runner.
unsafe impl Send for Suspended {}

impl Suspended {
    /// As [`Transaction::receipt`](crate::Transaction::receipt).
    pub fn receipt(&self) -> Receipt {
        let at_moments = self.seen_at_moments.get().map_or(0, |seen| seen.load(Ordering::Acquire));
        Receipt { timestamp: None, through: self.receipt.through.max(at_moments) }
    }
}
