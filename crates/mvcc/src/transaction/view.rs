//! Snapshots that are nobody's: to be read by many threads at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Reader, Receipt, Transaction};
use crate::chain::Writer;
use crate::database::{Database, Shared};
use crate::epoch::Participant;
use crate::error::Error;

/// A snapshot, and for a transaction's own reading its pending writes. Clones share it. What it sees is kept in memory for as long as
/// there is one, or a reader of it.
///
/// What its transaction writes meanwhile may be seen or not, and when the transaction has ended its writes are seen no more, committed
/// or not: they are later than the snapshot.
#[derive(Clone)]
pub struct View(Arc<Viewed>);

pub(super) struct Viewed {
    pub shared: Arc<Shared>,
    /// Announces the snapshot for as long as this lives; it runs no transaction.
    pub participant: Participant,
    pub timestamp: u64,
    /// How versions are marked that are seen although they are pending; the participant's own mark, which is at no version, for none.
    pub writer: Writer,
    /// The latest timestamp that readers have seen, of those that have ended.
    pub latest: AtomicU64,
}

impl Transaction<'_> {
    /// The transaction's snapshot with its own writes, for others to read.
    ///
    /// Nothing that a view looks at is freed under it, whatever becomes of the transaction: its announcement is as old as the snapshot,
    /// and what the transaction takes back or replaces is retired later than that. What was replaced by the transaction itself goes
    /// sooner, but not before all visits to chains that were going on have ended, and readers show what they see within a visit.
    ///
    /// # Errors
    /// `TooManySessions`.
    pub fn view(&self) -> Result<View, Error> {
        let shared = &self.session.shared;
        let participant = join(shared)?;
        participant.take_over(self.snapshot);
        Ok(View::new(shared, participant, self.snapshot, self.writer))
    }
}

impl Database {
    /// A view of now.
    ///
    /// # Errors
    /// `TooManySessions`.
    pub fn view(&self) -> Result<View, Error> {
        let shared = self.shared();
        let participant = join(shared)?;
        // As a session begins a transaction.
        participant.announce(shared.newest());
        let timestamp = shared.newest();
        participant.announce_exact(timestamp);
        let nobody = Writer::new(participant.slot(), participant.sequence());
        Ok(View::new(shared, participant, timestamp, nobody))
    }
}

fn join(shared: &Shared) -> Result<Participant, Error> {
    shared.epochs.join().ok_or(Error::TooManySessions { limit: shared.sessions_max })
}

impl View {
    fn new(shared: &Arc<Shared>, participant: Participant, timestamp: u64, writer: Writer) -> Self {
        let latest = AtomicU64::new(0);
        Self(Arc::new(Viewed { shared: Arc::clone(shared), participant, timestamp, writer, latest }))
    }

    /// The timestamp that it is of.
    pub fn timestamp(&self) -> u64 {
        self.0.timestamp
    }

    /// A reader, for one thread at a time.
    ///
    /// # Errors
    /// `TooManySessions`.
    pub fn reader(&self) -> Result<Reader, Error> {
        Ok(Reader::new(Arc::clone(&self.0), join(&self.0.shared)?))
    }

    /// What has to be durable before anyone is told of what its readers have seen that have ended.
    pub fn receipt(&self) -> Receipt {
        Receipt { timestamp: None, through: self.0.latest.load(Ordering::Acquire) }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a view of timestamp {}", self.0.timestamp)
    }
}
