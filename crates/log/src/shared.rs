//! What workers and log threads share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};
use saki_io::Waker;

use crate::error::LogError;
use crate::format::{Identity, Run};
use crate::horizon::Horizon;
use crate::options::Options;
use crate::report::LogStatistics;
use crate::stream::Stream;
use crate::waiters::{Waiter, Waiters};

/// All logs of a database.
pub struct Shared {
    pub options: Options,
    pub run: Run,
    pub horizon: Horizon,
    pub waiters: Waiters,
    /// Everything through this timestamp is durable elsewhere. Relaxed everywhere: a number that only grows and publishes
    /// nothing.
    pub cut: AtomicU64,
    /// A header of this run is durable, in whatever log: a later recovery knows what this run was built on. Release when set,
    /// acquire when read, although nothing else hangs on it.
    known: AtomicBool,
    /// Set once: why nothing more becomes durable.
    failure: OnceLock<LogError>,
    pub logs: Box<[CachePadded<Log>]>,
}

/// One log.
pub struct Log {
    pub identity: Identity,
    pub device: String,
    /// Of this log: it keeps what it was made with.
    pub segment_bytes: u64,
    pub stream: Mutex<Stream>,
    /// Notified when memory has become free, segments ready or refused, or the logs have failed.
    pub room: Condvar,
    pub waker: Arc<dyn Waker>,
    pub counters: Counters,
}

/// What [`LogStatistics`] are read from. Relaxed everywhere: numbers to look at.
#[derive(Default)]
pub struct Counters {
    pub records: AtomicU64,
    pub record_bytes: AtomicU64,
    pub writes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub flushes: AtomicU64,
    pub waits: AtomicU64,
    pub segments_live: AtomicU64,
    pub segments_ready: AtomicU64,
    pub segments_free: AtomicU64,
}

/// Adds to a counter that one thread at a time writes.
pub fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Shared {
    pub fn new(options: Options, run: Run, cut: u64, logs: Vec<Log>) -> Self {
        Self {
            // Whatever there was before this run is settled.
            horizon: Horizon::new(run.first - 1, options.window),
            options,
            run,
            waiters: Waiters::default(),
            cut: AtomicU64::new(cut),
            known: AtomicBool::new(false),
            failure: OnceLock::new(),
            logs: logs.into_iter().map(CachePadded::new).collect(),
        }
    }

    /// A header of this run is durable.
    pub fn becomes_known(&self) {
        self.known.store(true, Ordering::Release);
    }

    /// Takes note that everything through `through` is durable elsewhere, as far as that can be; returns how far.
    ///
    /// Not beyond the horizon. And as long as no header of this run is durable, not beyond what it was built on: a recovery
    /// would come to the same end as the one before, but from a later beginning, and might find a record dense
    /// there that this run has taken for void.
    pub fn cut_through(&self, through: u64) -> u64 {
        let known = self.known.load(Ordering::Acquire);
        let through = through.min(if known { self.horizon.durable() } else { self.run.recovered_through });
        self.cut.fetch_max(through, Ordering::Relaxed).max(through)
    }

    /// Why nothing more becomes durable, if so.
    #[inline]
    pub fn failure(&self) -> Option<&LogError> {
        self.failure.get()
    }

    /// Latches a failure, says so once, and tells everyone who waits.
    pub fn fail(&self, error: LogError) {
        let closed = matches!(error, LogError::Closed);
        if self.failure.set(error).is_ok() && !closed {
            tracing::error!("{}", self.failure.get().expect("just set"));
        }
        let error = self.failure.get().expect("just set");
        // What is durable is durable, even so.
        self.waiters.wake(self.horizon.durable());
        self.waiters.fail(error);
        for log in &self.logs {
            // With the lock: a thread in `reserve` either has seen the failure or waits already.
            let _stream = log.stream.lock();
            log.room.notify_all();
            log.waker.wake();
        }
    }

    /// Whether it is settled what becomes of `timestamp`.
    pub fn settled(&self, timestamp: u64) -> Option<Result<(), LogError>> {
        if self.horizon.durable() >= timestamp {
            return Some(Ok(()));
        }
        self.failure().map(|error| match self.horizon.durable() >= timestamp {
            true => Ok(()),
            false => Err(error.clone()),
        })
    }

    /// Adds a waiter, or gives it back with its answer.
    pub fn wait_for(&self, timestamp: u64, waiter: Waiter) -> Option<(Waiter, Result<(), LogError>)> {
        self.waiters.add(timestamp, waiter, || self.settled(timestamp))
    }
}

impl Log {
    pub fn statistics(&self) -> LogStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        LogStatistics {
            records: read(&counters.records),
            record_bytes: read(&counters.record_bytes),
            writes: read(&counters.writes),
            written_bytes: read(&counters.written_bytes),
            flushes: read(&counters.flushes),
            queued_bytes: self.stream.lock().unwritten_bytes(),
            waits: read(&counters.waits),
            segments_live: read(&counters.segments_live),
            segments_ready: read(&counters.segments_ready),
            segments_free: read(&counters.segments_free),
        }
    }
}
