//! Waiting for transactions to end, and who waits for whom.
//!
//! Whoever meets the pending version of another transaction is told of its *holder*, and may ask to be called when that
//! has ended. An ending transaction looks at one word of its own cache line; only if that says that it is awaited, it
//! takes the lock of what is below. Neither of the two can miss the other (Dekker's argument):
//!
//! ```text
//!   who ends:   status = ended;  fence;  awaited?  ─► take the lock, call
//!   who waits:  awaited = yes;   fence;  ended?    ─► do not wait
//! ```
//!
//! Of the two fences one comes first in the order of all; the thread of the other sees what was stored before it.
//! (`loom` checks it.)
//!
//! A transaction waits for at most one other, so who waits for whom is a forest, and the wait that would make a circle
//! of it is refused. What has ended waits for nobody: its edges are passed by, though they may still be there for a
//! moment.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::chain::{Status, Writer};
use crate::epoch::Epochs;
use crate::error::Error;
use crate::sync::Ordering;

#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub holder: Writer,
    pub number: u64,
}

/// Who waits for whom.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<Graph>);

#[derive(Default)]
struct Graph {
    next_number: u64,
    /// Those who wait, by the participant whose transaction they wait for.
    waiting: HashMap<u32, Vec<Waiting>>,
    /// The transaction that another one waits for.
    edges: HashMap<Writer, Writer>,
}

struct Waiting {
    number: u64,
    waiter: Option<Writer>,
    holder: Writer,
    callback: Box<dyn FnOnce() + Send>,
}

impl Waiters {
    /// A place in line; none if the holder has ended, and then the callback has been called.
    pub fn enter(
        &self,
        epochs: &Epochs,
        waiter: Option<Writer>,
        holder: Writer,
        callback: Box<dyn FnOnce() + Send>,
    ) -> Result<Option<Place>, Error> {
        let mut graph = self.0.lock();
        if waiter.is_some_and(|waiter| graph.leads_to(holder, waiter, epochs)) {
            return Err(Error::Deadlock);
        }
        if epochs.announcement(holder.participant()).await_end(holder.sequence()) {
            graph.next_number += 1;
            let number = graph.next_number;
            if let Some(waiter) = waiter {
                graph.edges.insert(waiter, holder);
            }
            graph.waiting.entry(holder.participant()).or_default().push(Waiting { number, waiter, holder, callback });
            return Ok(Some(Place { holder, number }));
        }
        drop(graph);
        callback();
        Ok(None)
    }

    /// Takes a place in line back; what it was for is not called.
    pub fn leave(&self, place: Place) {
        let taken = self.0.lock().take(place.holder.participant(), |waiting| waiting.number == place.number);
        // The callback, which may own anything, is dropped without the lock.
        drop(taken);
    }

    /// A transaction that is awaited has ended.
    #[cold]
    pub fn ended(&self, epochs: &Epochs, writer: Writer) {
        let mut graph = self.0.lock();
        let ended = graph.take(writer.participant(), |waiting| waiting.holder == writer);
        if !graph.waiting.contains_key(&writer.participant()) {
            epochs.announcement(writer.participant()).awaited.store(0, Ordering::Relaxed);
        }
        drop(graph);
        ended.into_iter().for_each(|waiting| (waiting.callback)());
    }
}

impl Graph {
    /// Whether `from` is `to`, or waits for it.
    fn leads_to(&self, from: Writer, to: Writer, epochs: &Epochs) -> bool {
        let mut next = Some(from);
        // A forest has no circles; the bound is for the edges of transactions that have ended.
        for _ in 0..=self.edges.len() {
            let Some(writer) = next.filter(|writer| is_running(*writer, epochs)) else { return false };
            if writer == to {
                return true;
            }
            next = self.edges.get(&writer).copied();
        }
        false
    }

    /// Takes out those who wait for the transaction of a participant and are meant by `which`.
    fn take(&mut self, participant: u32, which: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let Some(waiting) = self.waiting.get_mut(&participant) else { return Vec::new() };
        let taken: Vec<_> = waiting.extract_if(.., |waiting| which(waiting)).collect();
        if waiting.is_empty() {
            self.waiting.remove(&participant);
        }
        for Waiting { waiter, holder, .. } in &taken {
            if let Some(waiter) = waiter.filter(|waiter| self.edges.get(waiter) == Some(holder)) {
                self.edges.remove(&waiter);
            }
        }
        taken
    }
}

fn is_running(writer: Writer, epochs: &Epochs) -> bool {
    Status::from_bits(epochs.announcement(writer.participant()).status.load(Ordering::Acquire)).is_of(writer.sequence())
}
