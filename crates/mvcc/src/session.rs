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
use crate::transaction::{Buffers, Durability, Isolation, Suspended, Transaction};

/// Runs one transaction at a time. May move between threads, also while a transaction is suspended in it; on the thread of a worker
/// it stays. Dropped, it aborts the suspended one.
pub struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) participant: Participant,
    pub(crate) arena: Arena,
    pub(crate) reclaimer: Reclaimer,
    /// Which log its transactions go to.
    pub(crate) log: usize,
    sequence: u64,
    pub(crate) buffers: Buffers,
    /// Tables it has written, by their ids.
    known: Vec<Table>,
    /// Its transaction has had pending versions, which others may have met.
    was_met: bool,
    suspended: Option<Suspended>,
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
            known: Vec::new(),
            was_met: false,
            suspended: None,
            lag: None,
        })
    }

    /// Begins a transaction that is durable when its commit is acknowledged.
    pub fn begin(&mut self, isolation: Isolation) -> Transaction<'_> {
        self.begin_with(isolation, Durability::Sync)
    }

    /// Begins a transaction. One that was suspended is aborted.
    pub fn begin_with(&mut self, isolation: Isolation, durability: Durability) -> Transaction<'_> {
        self.abort();
        if let Some(lag) = &self.lag {
            self.participant.hold(lag.horizon);
        }
        let snapshot = self.take_snapshot();
        if self.lag.as_ref().is_some_and(|lag| !self.participant.is_holding(lag.horizon)) {
            self.lag = None;
        }
        Transaction::new(self, isolation, durability, snapshot)
    }

    /// A snapshot of now, announced.
    #[inline]
    pub(crate) fn take_snapshot(&self) -> u64 {
        // The announcement comes first: no version that the snapshot sees can then be freed.
        self.participant.announce(self.shared.newest());
        let snapshot = self.shared.newest();
        self.participant.announce_exact(snapshot);
        snapshot
    }

    /// Lets the horizon go on that was held for the sake of old versions.
    pub(crate) fn let_go(&mut self) {
        self.lag = None;
        self.participant.let_go();
    }

    /// Goes on with the transaction that was suspended, if one was.
    pub fn resume(&mut self) -> Option<Transaction<'_>> {
        let suspended = self.suspended.take()?;
        Some(Transaction::resumed(self, suspended))
    }

    /// Whether a transaction is suspended here.
    pub fn is_open(&self) -> bool {
        self.suspended.is_some()
    }

    /// Aborts the transaction that was suspended, if one was.
    pub fn abort(&mut self) {
        drop(self.resume());
    }

    pub(crate) fn keep(&mut self, suspended: Suspended) {
        self.suspended = Some(suspended);
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
    /// Nothing, while a transaction is suspended.
    pub fn reclaim(&mut self) {
        if !self.is_open() {
            self.pinned(|_| {});
        }
    }

    /// Does something to memory, and frees what it can. For a session without a transaction.
    pub(crate) fn pinned<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.participant.announce(self.shared.newest());
        // Only now: before the announcement was seen the horizon may have come further than it.
        let pinned = self.shared.newest();
        let outcome = work(self);
        self.collect(pinned);
        self.participant.withdraw();
        outcome
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
        let writer = self.writer();
        self.sequence += 1;
        let state = self.participant.state();
        // Whoever sees the next sequence sees the stamps.
        let next = Status::running(self.sequence).bits();
        let is_awaited = if std::mem::take(&mut self.was_met) {
            state.end_met(next)
        } else {
            state.status.store(next, crate::sync::Ordering::Release);
            false
        };
        state.commit.store(0, crate::sync::Ordering::Release);
        if self.reclaimer.is_due() {
            self.collect(snapshot);
        }
        self.participant.withdraw();
        if is_awaited {
            self.shared.waiters.ended(&self.shared.epochs, writer);
        }
    }

    /// For a session announced at `pinned` or later.
    #[cold]
    fn collect(&mut self, pinned: u64) {
        if let Some(left) = self.shared.adopt() {
            self.reclaimer.adopt(left);
        }
        let horizon = self.shared.horizon();
        self.known.retain(|table| !table.is_dropped());
        self.bury_dropped(horizon);
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

    /// To be called before a table is written.
    #[inline]
    pub(crate) fn know(&mut self, table: &Table) {
        self.was_met = true;
        if let Err(place) = self.place_of(table.id().0) {
            self.known.insert(place, table.clone());
        }
    }

    /// A table that its transaction has written.
    #[inline]
    pub(crate) fn known(&self, id: u32) -> &Table {
        let place = self.place_of(id).expect("a table is known from its first write on");
        &self.known[place]
    }

    fn place_of(&self, id: u32) -> Result<usize, usize> {
        self.known.binary_search_by_key(&id, |table| table.id().0)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.abort();
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
