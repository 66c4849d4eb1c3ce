//! A session: one thread of transactions, with the memory and the garbage of its own.

use std::sync::Arc;

use crate::arena::Arena;
use crate::chain::{Status, Writer};
use crate::database::Shared;
use crate::epoch::{Participant, Pin, Snapshots};
use crate::error::Error;
use crate::reclaim::{Means, Reclaimer};
use crate::sync::Backoff;
use crate::table::Table;
use crate::transaction::{Buffers, Durability, Isolation, Transaction};

/// Runs one transaction at a time. May move between threads; on the thread of a worker it stays.
pub struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) participant: Participant,
    pub(crate) arena: Arena,
    pub(crate) reclaimer: Reclaimer,
    /// Which log its transactions go to.
    pub(crate) log: usize,
    sequence: u64,
    pub(crate) buffers: Buffers,
    /// Tables it has written, by number.
    tables: Vec<Option<Table>>,
    /// There is a snapshot so old that versions behind the newest are worth a look when a row is written.
    pub(crate) lag: Option<Lag>,
}

/// How far the horizon is behind, and who sees what is between.
pub(crate) struct Lag {
    pub horizon: u64,
    pub snapshots: Snapshots,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, log: usize, arena: Arena) -> Result<Self, Error> {
        let limit = shared.sessions_max;
        let participant = shared.epochs.join().ok_or(Error::TooManySessions { limit })?;
        let sequence = participant.sequence();
        Ok(Self {
            shared,
            participant,
            arena,
            reclaimer: Reclaimer::default(),
            log,
            sequence,
            buffers: Buffers::default(),
            tables: Vec::new(),
            lag: None,
        })
    }

    /// Begins a transaction that is durable when its commit is acknowledged.
    pub fn begin(&mut self, isolation: Isolation) -> Transaction<'_> {
        self.begin_with(isolation, Durability::Sync)
    }

    /// Begins a transaction.
    pub fn begin_with(&mut self, isolation: Isolation, durability: Durability) -> Transaction<'_> {
        if let Some(lag) = &self.lag {
            self.participant.hold(lag.horizon);
        }
        // The announcement comes first: no version that the snapshot sees can then be freed.
        self.participant.announce(self.shared.newest());
        let snapshot = self.shared.newest();
        self.participant.announce_exact(snapshot);
        if self.lag.as_ref().is_some_and(|lag| !self.participant.is_holding(lag.horizon)) {
            self.lag = None;
        }
        Transaction::new(self, isolation, durability, snapshot)
    }

    /// Runs `body` in a transaction and commits it, again and again while another gets in the way.
    ///
    /// # Errors
    /// Whatever `body` or the commit fails with, unless it is retryable.
    pub fn run<T>(
        &mut self,
        isolation: Isolation,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        until_undisturbed(|| {
            let mut transaction = self.begin(isolation);
            let value = body(&mut transaction)?;
            transaction.commit().map(|_| value)
        })
    }

    /// Frees what it can of the memory that its transactions no longer need. Commits do this by themselves.
    pub fn reclaim(&mut self) {
        self.participant.announce(self.shared.newest());
        // Only now: before the announcement was seen the horizon may have come further than it.
        let pinned = self.shared.newest();
        self.collect(pinned);
        self.participant.withdraw();
    }

    /// How its running transaction marks its versions.
    #[inline]
    pub(crate) fn writer(&self) -> Writer {
        Writer::new(self.participant.slot(), self.sequence)
    }

    /// From here on its transaction may take a timestamp at any moment.
    #[inline]
    pub(crate) fn set_committing(&self) {
        self.participant.state().status.store(Status::committing(self.sequence).bits(), crate::sync::Ordering::Release);
    }

    /// It has taken a timestamp in vain and goes on.
    pub(crate) fn set_running(&self) {
        let state = self.participant.state();
        state.status.store(Status::running(self.sequence).bits(), crate::sync::Ordering::Release);
        state.commit.store(0, crate::sync::Ordering::Release);
    }

    /// Its transaction's timestamp, for those who meet its versions before they are stamped.
    #[inline]
    pub(crate) fn set_commit(&self, timestamp: u64) {
        self.participant.state().commit.store(timestamp, crate::sync::Ordering::Release);
    }

    /// Ends its transaction, whose versions are all stamped or taken away.
    #[inline]
    pub(crate) fn end(&mut self, snapshot: u64) {
        self.sequence += 1;
        let state = self.participant.state();
        // Release: whoever sees the next sequence sees the stamps.
        state.status.store(Status::running(self.sequence).bits(), crate::sync::Ordering::Release);
        state.commit.store(0, crate::sync::Ordering::Release);
        if self.reclaimer.is_due() {
            self.collect(snapshot);
        }
        self.participant.withdraw();
    }

    /// For a session announced at `pinned` or later.
    #[cold]
    fn collect(&mut self, pinned: u64) {
        if let Some(left) = self.shared.adopt() {
            self.reclaimer.adopt(left);
        }
        let horizon = self.shared.horizon();
        let pin = Pin::of_announced(&self.participant);
        let is_behind = self.reclaimer.collect(&mut Means {
            arena: &mut self.arena,
            pin: &pin,
            horizon,
            durable: self.shared.logs.durable(),
            pinned,
        });
        self.lag = is_behind.then(|| Lag { horizon, snapshots: self.shared.epochs.snapshots(self.shared.newest()) });
    }

    pub(crate) fn know(&mut self, table: &Table) {
        let index = table.id().0 as usize;
        if self.tables.get(index).is_some_and(Option::is_some) {
            return;
        }
        if self.tables.len() <= index {
            self.tables.resize(index + 1, None);
        }
        self.tables[index] = Some(table.clone());
    }

    /// A table that it has written.
    pub(crate) fn known(&self, id: u32) -> &Table {
        self.tables[id as usize].as_ref().expect("a table is known from its first write on")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reclaim();
        let left = std::mem::take(&mut self.reclaimer);
        if !left.is_empty() {
            self.shared.leave(left);
        }
    }
}

/// Makes an attempt at a transaction, again and again while another gets in the way.
pub(crate) fn until_undisturbed<T>(mut attempt: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let mut backoff = Backoff::default();
    loop {
        match attempt() {
            Err(error) if error.is_retryable() => backoff.wait(),
            outcome => return outcome,
        }
    }
}
