//! What others may look at of an owner: its list of locks.

use std::sync::atomic::{AtomicI64, AtomicU64};

use parking_lot::Mutex;
use saki_base::TableId;

use super::mode::LockMode;

/// An owner's locks, and who it is.
#[derive(Default)]
pub(super) struct Account {
    /// As `pg_locks` tells it: the number of the process that PostgreSQL would have, 0 for work inside.
    pub process: AtomicI64,
    /// The number of the generation that its transaction sees; 0: it has none.
    pub seen: AtomicU64,
    pub held: Mutex<Held>,
}

/// What an owner holds.
#[derive(Default)]
pub(super) struct Held {
    /// In the order in which they were taken; each table and mode once.
    pub taken: Vec<Taken>,
    /// Advisory locks of the session, as often as it has taken them. The end of a transaction leaves them.
    pub advisory: Vec<Taken>,
}

/// A lock that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    pub table: TableId,
    pub mode: LockMode,
    /// Whether the lock is in the table's list, where others see it; else only its owner knows.
    pub is_shared: bool,
}

impl Held {
    /// Whether a lock is held, or one that says the same. What anybody holds keeps ACCESS EXCLUSIVE away; any other
    /// mode is taken for itself, so that it is known what a transaction has used a table for.
    pub fn has(&self, table: TableId, mode: LockMode) -> bool {
        self.taken.iter().any(|taken| taken.table == table && (taken.mode == mode || mode == LockMode::AccessShare))
    }
}
