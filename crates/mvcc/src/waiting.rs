//! Waiting for transactions to end, and who waits for whom.
//!
//! Whoever meets the pending version of another transaction is told of its *holder*, and may ask to be called when that has ended. An
//! ending transaction looks at one word of its own cache line; only if that says that it is awaited, it takes the lock of what is
//! below. Neither of the two can miss the other (Dekker's argument):
//!
//! ```text
//!   who ends:   status = ended;  fence;  awaited?  ─► take the lock, call
//!   who waits:  awaited = yes;   fence;  ended?    ─► do not wait
//! ```
//!
//! Of the two fences one comes first in the order of all; the thread of the other sees what was stored before it. (`loom` checks it.)
//!
//! A transaction waits for at most one other, so who waits for whom is a forest, and the wait that would make a circle of it is
//! refused. What has ended waits for nobody: its edges are passed by, though they may still be there for a moment.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::chain::{Status, Writer};
use crate::database::{Database, Shared};
use crate::epoch::Epochs;
use crate::error::Error;
use crate::sync::Ordering;

/// A transaction as others meet it: one that holds rows by its pending versions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Holder {
    pub(crate) writer: Writer,
    /// Which database of this process it is of.
    pub(crate) instance: u32,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {} of session {}", self.writer.sequence(), self.writer.slot())
    }
}

/// A wait that goes on. Dropped, it is over: the callback is not called, unless that is just happening.
#[must_use = "dropped, it ends the wait"]
pub struct Wait {
    shared: Arc<Shared>,
    /// Where it stands in line, if it does.
    place: Option<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    holder: Writer,
    number: u64,
}

/// Who waits for whom.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<Graph>);

#[derive(Default)]
struct Graph {
    next_number: u64,
    /// Those who wait, by the slot of the transaction they wait for.
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

impl Database {
    /// Calls back once a transaction has committed (all see it then; it need not be durable) or aborted: on the thread that ends it,
    /// which must not be held up, or at once if it has ended already. `waiter` is the transaction that cannot go on before, if it is
    /// one. Versions that the holder takes back before it ends, to a savepoint, are nothing that it tells of.
    ///
    /// # Errors
    /// `Deadlock` if the holder waits for the waiter, itself or by way of others; or is the waiter.
    ///
    /// # Panics
    /// If the holder is another database's.
    pub fn when_ended(
        &self,
        waiter: Option<Holder>,
        holder: Holder,
        callback: impl FnOnce() + Send + 'static,
    ) -> Result<Wait, Error> {
        let shared = self.shared();
        assert!(holder.instance == shared.instance, "a transaction is waited for in its own database");
        let waiter = waiter.map(|waiter| waiter.writer);
        let place = shared.waiters.enter(&shared.epochs, waiter, holder.writer, Box::new(callback))?;
        Ok(Wait { shared: Arc::clone(shared), place })
    }

    /// Waits until a transaction has ended, at most for `patience`; whether it has.
    ///
    /// # Errors
    /// As [`when_ended`](Self::when_ended).
    pub fn wait_until_ended(
        &self,
        waiter: Option<Holder>,
        holder: Holder,
        patience: Option<Duration>,
    ) -> Result<bool, Error> {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&ended);
        let _wait = self.when_ended(waiter, holder, move || {
            *told.0.lock() = true;
            told.1.notify_one();
        })?;
        let until = patience.map(|patience| Instant::now() + patience);
        let mut has_ended = ended.0.lock();
        while !*has_ended {
            match until {
                None => ended.1.wait(&mut has_ended),
                Some(until) if ended.1.wait_until(&mut has_ended, until).timed_out() => break,
                Some(_) => {}
            }
        }
        Ok(*has_ended)
    }
}

impl Waiters {
    /// A place in line; none if the holder has ended, and then the callback has been called.
    fn enter(
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
        if epochs.slot(holder.slot()).await_end(holder.sequence()) {
            graph.next_number += 1;
            let number = graph.next_number;
            if let Some(waiter) = waiter {
                graph.edges.insert(waiter, holder);
            }
            graph.waiting.entry(holder.slot()).or_default().push(Waiting { number, waiter, holder, callback });
            return Ok(Some(Place { holder, number }));
        }
        drop(graph);
        callback();
        Ok(None)
    }

    /// A transaction that is awaited has ended.
    #[cold]
    pub fn ended(&self, epochs: &Epochs, writer: Writer) {
        let mut graph = self.0.lock();
        let ended = graph.take(writer.slot(), |waiting| waiting.holder == writer);
        if !graph.waiting.contains_key(&writer.slot()) {
            epochs.slot(writer.slot()).awaited.store(0, Ordering::Relaxed);
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

    /// Takes out those who wait for a slot's transaction and are meant by `which`.
    fn take(&mut self, slot: u32, which: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let Some(waiting) = self.waiting.get_mut(&slot) else { return Vec::new() };
        let taken: Vec<_> = waiting.extract_if(.., |waiting| which(waiting)).collect();
        if waiting.is_empty() {
            self.waiting.remove(&slot);
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
    Status::from_bits(epochs.slot(writer.slot()).status.load(Ordering::Acquire)).is_of(writer.sequence())
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some(Place { holder, number }) = self.place else { return };
        let taken = self.shared.waiters.0.lock().take(holder.slot(), |waiting| waiting.number == number);
        // The callback, which may own anything, is dropped without the lock.
        drop(taken);
    }
}
