//! A runner: one thread of transactions, with the memory and the garbage of its own.

mod outcome;
mod positions;
mod reads;
mod reclaim;
mod release;
mod shared;
mod spans;
mod sweep;
mod waiting;
mod watch;
mod watches;
mod work;
mod write;

use std::sync::Arc;

use crate::chain::{Status, Writer};
use crate::epoch::{Participant, Pin, Snapshots};
use crate::error::Error;
use crate::memory::arena::Arena;
use crate::sync::Backoff;
use crate::table::Table;
use reclaim::{Due, Means};
use sweep::Shelf;

pub use outcome::{Durability, Isolation, Receipt};
pub(crate) use positions::Positions;
pub(crate) use reads::{Observer, Reads, UNSEEN, Validity};
pub(crate) use reclaim::Cleanup;
pub use release::Released;
pub use shared::Sabotage;
pub(crate) use shared::Shared;
pub(crate) use spans::Spans;
pub(crate) use sweep::Reclaimers;
pub(crate) use waiting::{Place, Waiters};
pub(crate) use watch::Watch;
pub(crate) use watches::{Note, Watches};
pub(crate) use work::{Buffers, ScanMemory, Suspended, Tally};
pub(crate) use write::{Entries, Write};

/// Runs one transaction at a time. May move between threads, also while a transaction is suspended in it; on the thread
/// of a worker it stays. Dropped, it aborts the suspended one.
pub struct Runner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) participant: Participant,
    pub(crate) arena: Arena,
    /// Its garbage, which others free too.
    pub(crate) shelf: Arc<Shelf>,
    /// How urgent that was when it left garbage there last.
    pub(crate) due: Due,
    /// Which log its transactions go to.
    pub(crate) log: usize,
    sequence: u64,
    pub(crate) buffers: Buffers,
    /// Tables it has written, by their ids.
    known: Vec<Table>,
    /// Its transaction has had pending versions, which others may have met.
    was_met: bool,
    pub(crate) suspended: Option<Suspended>,
    /// Of its last transaction.
    pub(crate) last_receipt: Receipt,
    /// There is a snapshot so old that versions behind the newest are worth a look when a row is written.
    pub(crate) lag: Option<Lag>,
}

/// How far the watermark is behind, and who sees what is between.
pub(crate) struct Lag {
    pub watermark: u64,
    pub snapshots: Snapshots,
}

impl Runner {
    pub(crate) fn new(shared: Arc<Shared>, log: usize, arena: Arena) -> Result<Self, Error> {
        let limit = shared.participants_max;
        let participant = shared.epochs.join().ok_or(Error::TooManyParticipants { limit })?;
        let sequence = participant.sequence();
        let shelf = shared.reclaimers.add();
        Ok(Self {
            shared,
            participant,
            arena,
            shelf,
            due: Due::No,
            log,
            sequence,
            buffers: Buffers::default(),
            known: Vec::new(),
            was_met: false,
            suspended: None,
            last_receipt: Receipt { timestamp: None, through: 0 },
            lag: None,
        })
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

    /// Lets the watermark go on that was held for the sake of old versions.
    pub(crate) fn let_go(&mut self) {
        self.lag = None;
        self.participant.let_go();
    }

    /// What has to be durable before anybody is told how its last transaction ended, or of what the one has seen that
    /// is suspended. So every error has one: of a commit that failed, of a duplicate key.
    pub fn receipt(&self) -> Receipt {
        self.suspended.as_ref().map_or(self.last_receipt, Suspended::receipt)
    }

    /// What has to be durable before anybody is told which of the keys have rows that the suspended transaction has
    /// looked up, and nothing else: not what is in the rows, nor what was found out by that. A row that is changed
    /// again and again is there all the time, so this is often durable when what was seen of the row is not.
    pub fn presence(&self) -> Receipt {
        let of = |suspended: &Suspended| Receipt { timestamp: None, through: suspended.presence };
        self.suspended.as_ref().map_or(self.last_receipt, of)
    }

    /// Whether a transaction is suspended here.
    pub fn is_open(&self) -> bool {
        self.suspended.is_some()
    }

    pub(crate) fn keep(&mut self, suspended: Suspended) {
        self.suspended = Some(suspended);
    }

    /// Frees what it can of the memory that its transactions no longer need. Commits do this by themselves.
    /// Nothing, while a transaction is suspended.
    pub fn reclaim(&mut self) {
        if !self.is_open() {
            self.pinned(|_| {});
        }
    }

    /// Does something to memory, and frees what it can. For a runner without a transaction.
    pub(crate) fn pinned<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.participant.announce(self.shared.newest());
        // Only now: before the announcement was seen the watermark may have come further than it.
        let pinned = self.shared.newest();
        let outcome = work(self);
        self.collect(pinned);
        self.participant.withdraw();
        outcome
    }

    /// How its running transaction marks its versions.
    #[inline]
    pub(crate) fn writer(&self) -> Writer {
        Writer::new(self.participant.number(), self.sequence)
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
        let due = self.due;
        if due == Due::Now {
            self.collect(snapshot);
        }
        self.participant.withdraw();
        if is_awaited {
            self.shared.waiters.ended(&self.shared.epochs, writer);
        }
        if due == Due::Heavy {
            // It may be the last for long. Without the snapshot, also what this transaction itself has superseded goes.
            self.reclaim();
        }
    }

    /// Takes a timestamp for nothing, if the log has room for its record, when there is something to free and nobody
    /// has committed since `snapshot`, nor may do for long: what was taken back waits for a later time.
    pub(crate) fn let_time_pass(&self, snapshot: u64) {
        if self.due != Due::No && self.shared.epochs.now() == snapshot {
            self.take_time();
        }
    }

    /// Takes a timestamp for nothing, if the log has room for its record.
    pub(crate) fn take_time(&self) {
        if let Ok(Some(reservation)) = self.shared.logs.try_reserve(self.log, 0) {
            reservation.void(self.shared.epochs.tick());
        }
    }

    /// For a runner announced at `pinned` or later.
    #[cold]
    fn collect(&mut self, pinned: u64) {
        let watermark = self.shared.watermark();
        self.known.retain(|table| !table.is_dropped());
        self.bury_dropped(watermark);
        let (is_behind, due) = self.with_means(watermark, pinned, |shelf, shared, means| {
            let mut reclaimer = shelf.lock();
            let outcome = (reclaimer.collect(means), reclaimer.due());
            drop(reclaimer);
            shared.reclaimers.sweep_now_and_then(means);
            outcome
        });
        self.due = due;
        self.lag = is_behind.then(|| Lag { watermark, snapshots: self.shared.epochs.snapshots(self.shared.newest()) });
    }

    /// Frees what is ripe of all runners. For one without a transaction.
    pub(crate) fn sweep(&mut self) {
        let mut next = Some(0);
        while let Some(from) = next {
            // For each step anew: what this one's own announcement holds back meanwhile is little.
            self.participant.announce(self.shared.newest());
            let pinned = self.shared.newest();
            let watermark = self.shared.watermark();
            next = self.with_means(watermark, pinned, |_, shared, means| shared.reclaimers.sweep_from(from, means));
            self.participant.withdraw();
        }
    }

    fn with_means<T>(
        &mut self,
        watermark: u64,
        pinned: u64,
        work: impl FnOnce(&Shelf, &Shared, &mut Means<'_>) -> T,
    ) -> T {
        let Self { shared, participant, arena, shelf, .. } = self;
        let pin = Pin::of_announced(participant);
        let durable = shared.logs.durable();
        work(shelf, shared, &mut Means { arena, pin: &pin, watermark, durable, pinned })
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
