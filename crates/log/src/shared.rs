//! What workers and log threads share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};
use saki_io::{Device, Waker};

use crate::error::LogError;
use crate::format::{Identity, Incarnation};
use crate::horizon::Horizon;
use crate::horizon::waiters::{Waiter, Waiters};
use crate::options::Options;
use crate::recovery::report::LogStatistics;
use crate::stream::Stream;

/// All logs of a database.
pub struct Shared {
    pub options: Options,
    pub incarnation: Incarnation,
    pub horizon: Horizon,
    pub waiters: Waiters,
    /// Everything through this timestamp is durable elsewhere. Relaxed everywhere: a number that only grows and
    /// publishes nothing.
    pub cut: AtomicU64,
    /// A header of this incarnation is durable, in whatever log: a later recovery knows what this incarnation was built
    /// on. Release when set, acquire when read, although nothing else hangs on it.
    known: AtomicBool,
    /// Set once: why nothing more becomes durable.
    failure: OnceLock<LogError>,
    pub logs: Box<[CachePadded<Log>]>,
}

/// One log.
pub struct Log {
    pub identity: Identity,
    pub device: String,
    /// The device itself: the log's thread has it for as long as the log is open.
    pub storage: Weak<dyn Device>,
    /// Of this log: it keeps what it was made with.
    pub extent_bytes: u64,
    pub stream: Mutex<Stream>,
    /// Notified when memory has become free, extents ready or refused, or the logs have failed.
    pub room: Condvar,
    pub waker: Arc<dyn Waker>,
    /// Sequence number of the extent of the last durable frame: those before it have all of their frames. Release when
    /// stored, before the horizon moves, and acquire when read: whoever sees it finds those frames on the device.
    pub durable_extent: AtomicU64,
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
    pub extents_live: AtomicU64,
    pub extents_ready: AtomicU64,
    pub extents_free: AtomicU64,
}

/// Adds to a counter that one thread at a time writes.
pub fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Shared {
    pub fn new(options: Options, incarnation: Incarnation, cut: u64, logs: Vec<Log>) -> Self {
        assert!(incarnation.first > incarnation.recovered_through, "{incarnation:?} begins before it was recovered");
        assert!(!logs.is_empty(), "a database without a log");
        Self {
            // Whatever there was before this incarnation is settled.
            horizon: Horizon::new(incarnation.first - 1, options.window),
            options,
            incarnation,
            waiters: Waiters::default(),
            cut: AtomicU64::new(cut),
            known: AtomicBool::new(false),
            failure: OnceLock::new(),
            logs: logs.into_iter().map(CachePadded::new).collect(),
        }
    }

    /// A header of this incarnation is durable.
    pub fn becomes_known(&self) {
        self.known.store(true, Ordering::Release);
    }

    /// Takes note that everything through `through` is durable elsewhere, as far as that can be; returns how far.
    ///
    /// Not beyond the horizon. And as long as no header of this incarnation is durable, not beyond what it was built
    /// on: a recovery would come to the same end as the one before, but from a later beginning, and might find a record
    /// dense there that this incarnation has taken for void.
    pub fn cut_through(&self, through: u64) -> u64 {
        let known = self.known.load(Ordering::Acquire);
        let through = through.min(if known { self.horizon.durable() } else { self.incarnation.recovered_through });
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
            queued_bytes: self.stream.lock().unsettled_bytes(),
            waits: read(&counters.waits),
            extents_live: read(&counters.extents_live),
            extents_ready: read(&counters.extents_ready),
            extents_free: read(&counters.extents_free),
        }
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use saki_io::{SimDevice, SimOptions};

    use super::*;
    use crate::stream::Geometry;

    /// Counts how often a log's thread is woken, which these tests do not have.
    #[derive(Default)]
    struct Wakes(AtomicU64);

    impl Waker for Wakes {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn shared() -> Shared {
        shared_with(Arc::default())
    }

    fn shared_with(waker: Arc<Wakes>) -> Shared {
        let options = Options::new(1);
        let device = SimDevice::new(SimOptions::default());
        let geometry = Geometry {
            extent_bytes: options.extent_bytes,
            write_bytes_max: options.write_bytes_max,
            buffer_bytes: options.buffer_bytes as u64,
        };
        let log = Log {
            identity: Identity { database: 1, log: 0, logs: 1 },
            device: device.name(),
            storage: Arc::downgrade(&(Arc::clone(&device) as Arc<dyn Device>)),
            extent_bytes: options.extent_bytes,
            stream: Mutex::new(Stream::new(geometry, 1)),
            room: Condvar::new(),
            waker,
            durable_extent: AtomicU64::new(0),
            counters: Counters::default(),
        };
        // From 60 to 99 is void: it was seen, and something before it was not.
        Shared::new(options, Incarnation { number: 2, recovered_through: 59, first: 100 }, 10, vec![log])
    }

    /// If the power goes before a header of this incarnation is durable, the next recovery comes to the same end as
    /// this one only if it begins where this one began.
    #[test]
    fn until_the_incarnation_is_known_what_it_takes_for_void_is_not_cut() {
        let shared = shared();
        assert_eq!(shared.horizon.durable(), 99);
        assert_eq!(shared.cut_through(80), 59);
        assert_eq!(shared.cut.load(Ordering::Relaxed), 59);
        shared.becomes_known();
        assert_eq!(shared.cut_through(80), 80);
        assert_eq!(shared.cut_through(20), 80, "it does not go back");
        assert_eq!(shared.cut_through(200), 99, "nor beyond the horizon");
    }

    /// There is no log thread here that would do it in the place of the failure.
    #[test]
    fn whoever_waits_when_the_logs_fail_is_told() {
        let wakes = Arc::new(Wakes::default());
        let shared = Arc::new(shared_with(Arc::clone(&wakes)));
        let (told, answers) = channel();
        for timestamp in [100, 102] {
            let told = told.clone();
            let callback =
                Box::new(move |answer: Result<(), LogError>| told.send((timestamp, answer.is_ok())).unwrap());
            assert!(shared.wait_for(timestamp, Waiter::Callback(callback)).is_none());
        }
        // It is durable, and nobody has said so yet.
        shared.horizon.mark(&[100]);
        shared.horizon.advance();
        let (ended, outcome) = channel();
        let reserving = Arc::clone(&shared);
        // Not joined: it would be waited for even if it waits for ever.
        thread::spawn(move || ended.send(reserving.reserve(0, 10).map(drop)));
        while shared.logs[0].stream.lock().waiting == 0 {
            thread::yield_now();
        }
        let before = wakes.0.load(Ordering::Relaxed);
        shared.fail(LogError::Closed);
        assert_eq!([answers.try_recv(), answers.try_recv()], [Ok((100, true)), Ok((102, false))]);
        let outcome = outcome.recv_timeout(Duration::from_secs(20)).expect("who waits for room is woken");
        assert!(matches!(outcome, Err(LogError::Closed)), "{outcome:?}");
        assert_eq!(wakes.0.load(Ordering::Relaxed), before + 1, "the log's thread, too");
    }
}
