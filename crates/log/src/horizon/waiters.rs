//! Who waits for the durable horizon, in the order of what they wait for: a move of the horizon wakes exactly those it
//! reaches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::thread::Thread;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::error::LogError;

/// What an asynchronous client leaves.
pub type Callback = Box<dyn FnOnce(Result<(), LogError>) + Send>;

/// Who is told.
pub enum Waiter {
    /// Unparked; looks for itself what is the matter.
    Thread(Thread),
    Callback(Callback),
}

/// Spreads the waiters over several locks.
const SHARDS: usize = 4;

/// See the module's introduction.
#[derive(Default)]
pub struct Waiters {
    shards: [CachePadded<Mutex<Shard>>; SHARDS],
}

#[derive(Default)]
struct Shard {
    heap: BinaryHeap<Reverse<Entry>>,
}

struct Entry {
    timestamp: u64,
    waiter: Waiter,
}

impl Waiters {
    /// Adds a waiter unless `settled` gives an answer, which is returned with the waiter. `settled` is asked under the
    /// lock that every `wake` takes after what it reports has happened: either we see it, or it sees us.
    pub fn add(
        &self,
        timestamp: u64,
        waiter: Waiter,
        settled: impl FnOnce() -> Option<Result<(), LogError>>,
    ) -> Option<(Waiter, Result<(), LogError>)> {
        let mut shard = self.shards[timestamp as usize % SHARDS].lock();
        match settled() {
            Some(answer) => Some((waiter, answer)),
            None => {
                shard.heap.push(Reverse(Entry { timestamp, waiter }));
                None
            }
        }
    }

    /// Tells all who wait for `durable` or less.
    pub fn wake(&self, durable: u64) {
        self.wake_through(durable, &Ok(()));
    }

    /// Tells all the rest that it will not be.
    pub fn fail(&self, error: &LogError) {
        self.wake_through(u64::MAX, &Err(error.clone()));
    }

    fn wake_through(&self, timestamp: u64, answer: &Result<(), LogError>) {
        for shard in &self.shards {
            let mut callbacks = Vec::new();
            {
                let mut shard = shard.lock();
                while shard.heap.peek().is_some_and(|Reverse(entry)| entry.timestamp <= timestamp) {
                    match shard.heap.pop().expect("just seen").0.waiter {
                        Waiter::Thread(thread) => thread.unpark(),
                        Waiter::Callback(callback) => callbacks.push(callback),
                    }
                }
            }
            // Without the lock: a callback may add another waiter.
            callbacks.into_iter().for_each(|callback| callback(answer.clone()));
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.timestamp == other.timestamp
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.timestamp.cmp(&other.timestamp)
    }
}
