//! Snapshots that are nobody's: to be read by many threads at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::held::Held;
use super::{Reader, Transaction};
use crate::chain::Writer;
use crate::epoch::Participant;
use crate::error::Error;
use crate::runner::{Receipt, Shared};

/// A snapshot, and for a transaction's own reading its pending writes. Clones share it. What it sees is kept in memory
/// for as long as there is one, or a reader of it.
///
/// What its transaction writes meanwhile may be seen or not, and when the transaction has ended its writes are seen no
/// more, committed or not: they are later than the snapshot.
#[derive(Clone)]
pub struct Moment(Arc<Held>);

impl Transaction<'_> {
    /// The transaction's snapshot with its own writes, for others to read.
    ///
    /// Nothing that a moment looks at is freed under it, whatever becomes of the transaction: its announcement is as
    /// old as the snapshot, and what the transaction takes back or replaces is retired later than that. What was
    /// replaced by the transaction itself goes sooner, but not before all visits to chains that were going on have
    /// ended, and readers show what they see within a visit.
    ///
    /// # Errors
    /// `TooManyParticipants`.
    pub fn moment(&self) -> Result<Moment, Error> {
        let shared = &self.runner.shared;
        let participant = join(shared)?;
        participant.take_over(self.snapshot);
        let latest = Arc::clone(self.seen_at_moments.get_or_init(Arc::default));
        self.answer_at_moments();
        Ok(Moment::new(shared, participant, self.snapshot, self.writer, latest))
    }

    /// Has its moments answer for what it has seen: they show its own writes, which were made of that. To be called
    /// when there is a new moment, and before each write can be seen.
    #[inline]
    pub(super) fn answer_at_moments(&self) {
        if let Some(seen) = self.seen_at_moments.get() {
            seen.fetch_max(self.latest.get(), Ordering::AcqRel);
        }
    }
}

fn join(shared: &Shared) -> Result<Participant, Error> {
    shared.epochs.join().ok_or(Error::TooManyParticipants { limit: shared.participants_max })
}

impl Moment {
    /// A moment of now.
    pub(crate) fn now(shared: &Arc<Shared>) -> Result<Self, Error> {
        let participant = join(shared)?;
        // As a runner begins a transaction.
        participant.announce(shared.newest());
        let timestamp = shared.newest();
        participant.announce_exact(timestamp);
        let nobody = Writer::new(participant.number(), participant.sequence());
        Ok(Self::new(shared, participant, timestamp, nobody, Arc::default()))
    }

    fn new(
        shared: &Arc<Shared>,
        participant: Participant,
        timestamp: u64,
        writer: Writer,
        latest: Arc<AtomicU64>,
    ) -> Self {
        Self(Arc::new(Held { shared: Arc::clone(shared), participant, timestamp, writer, latest }))
    }

    /// The timestamp that it is of.
    pub fn timestamp(&self) -> u64 {
        self.0.timestamp
    }

    /// A reader, for one thread at a time.
    ///
    /// # Errors
    /// `TooManyParticipants`.
    pub fn reader(&self) -> Result<Reader, Error> {
        Ok(Reader::new(Arc::clone(&self.0), join(&self.0.shared)?))
    }

    /// What has to be durable before anybody is told of what its readers have shown so far. Of a transaction's moment,
    /// that is what all moments of the transaction have shown, and what it had seen itself before the last of them was
    /// made or before it wrote last: its own rows are made of that. The receipt of its commit covers it.
    pub fn receipt(&self) -> Receipt {
        Receipt { timestamp: None, through: self.0.latest.load(Ordering::Acquire) }
    }

    /// Has it answer for what another moment's readers have shown, too: what was made of that is shown again.
    pub fn rest_on(&self, shown: Receipt) {
        self.0.latest.fetch_max(shown.through, Ordering::AcqRel);
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a moment of timestamp {}", self.0.timestamp)
    }
}
