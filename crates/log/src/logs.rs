//! The surface: [`Logs`] and [`Reservation`].

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use saki_io::Device;

use crate::error::LogError;
use crate::options::{Options, Range};
use crate::report::{LogStatistics, Progress, RecoveryReport};

/// All logs of a database, open. Clones are the same logs; the last one dropped closes them.
#[derive(Clone)]
pub struct Logs {
    shared: Arc<Shared>,
}

struct Shared {
    count: usize,
    record_bytes_max: u64,
    durable: AtomicU64,
}

impl Logs {
    /// Reads all logs, in parallel, applies what was durable and opens a new run. Empty devices are new logs.
    ///
    /// `apply` gets each commit record of the range at most once, with its log, its timestamp and its payload; from one thread
    /// per log, and *not* in the order of timestamps. If an error is returned, what was applied has to be thrown away.
    ///
    /// # Errors
    /// See [`LogError`]: everything but `Full`, `TooLarge` and `Closed`.
    pub fn recover<E>(
        devices: Vec<Arc<dyn Device>>,
        options: Options,
        _range: Range,
        _progress: &(dyn Fn(Progress) + Sync),
        _apply: &(dyn Fn(usize, u64, &[u8]) -> Result<(), E> + Sync),
    ) -> Result<(Self, RecoveryReport), LogError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        options.check()?;
        let report = RecoveryReport {
            horizon: 0,
            clock: 0,
            after: 0,
            records: 0,
            payload_bytes: 0,
            voids: 0,
            dropped: 0,
            bytes_read: 0,
            duration: Duration::ZERO,
            lost: None,
            ends: Vec::new(),
            damages: Vec::new(),
        };
        let durable = AtomicU64::new(0);
        let shared = Shared { count: devices.len(), record_bytes_max: options.record_bytes_max, durable };
        Ok((Self { shared: Arc::new(shared) }, report))
    }

    /// How many logs there are.
    pub fn count(&self) -> usize {
        self.shared.count
    }

    /// Room for one record of `bytes` bytes of payload, in memory and on disk. *Before* the timestamp is taken: once it is, the
    /// record must be left, and can. Waits while the log is too far behind.
    ///
    /// # Errors
    /// `Full` (try again later), `TooLarge`, `Failed`, `Internal`, `Closed`.
    ///
    /// # Panics
    /// If there is no such log.
    pub fn reserve(&self, log: usize, bytes: usize) -> Result<Reservation<'_>, LogError> {
        assert!(log < self.shared.count, "there is no log {log}");
        if bytes as u64 > self.shared.record_bytes_max {
            return Err(LogError::TooLarge { bytes: bytes as u64, bytes_max: self.shared.record_bytes_max });
        }
        Ok(Reservation { logs: self, _log: log, _bytes: bytes })
    }

    /// As [`reserve`](Self::reserve), but `None` instead of waiting.
    ///
    /// # Errors
    /// As for `reserve`.
    ///
    /// # Panics
    /// As for `reserve`.
    pub fn try_reserve(&self, log: usize, bytes: usize) -> Result<Option<Reservation<'_>>, LogError> {
        self.reserve(log, bytes).map(Some)
    }

    /// The durable horizon: all timestamps up to and including this one are durable.
    pub fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// Waits until `timestamp` is durable.
    ///
    /// # Errors
    /// `Failed`, `Internal` or `Closed`: it will not be while these logs are open. It may be found durable when they are opened again.
    pub fn wait_durable(&self, timestamp: u64) -> Result<(), LogError> {
        while self.durable() < timestamp {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Calls `callback` when `timestamp` is durable, or with the error why it will not be. At once if that is settled, else on a
    /// thread of the logs, which must not be held up: the callback should do little and must not wait for the logs.
    pub fn on_durable(&self, timestamp: u64, callback: Box<dyn FnOnce(Result<(), LogError>) + Send>) {
        callback(self.wait_durable(timestamp));
    }

    /// Everything through `through` is durable elsewhere: segments with nothing later are used again. Beyond the durable
    /// horizon it counts as the horizon. Comes to disk with the next frames.
    pub fn cut(&self, _through: u64) {}

    /// Per log.
    pub fn statistics(&self) -> Vec<LogStatistics> {
        vec![LogStatistics::default(); self.shared.count]
    }

    /// Makes everything durable and ends the threads. Afterwards every call of every clone answers `Closed`.
    ///
    /// # Errors
    /// `Failed` or `Internal`, if the logs had failed.
    pub fn close(self) -> Result<(), LogError> {
        Ok(())
    }
}

/// The right to leave one record. Dropped unused, it gives its room back, which is right only while no timestamp was taken for it:
/// a timestamp without a record holds up the durable horizon for ever.
#[must_use = "a reservation is room for a record"]
pub struct Reservation<'a> {
    logs: &'a Logs,
    _log: usize,
    _bytes: usize,
}

impl Reservation<'_> {
    /// Leaves the commit record of `timestamp`: a short lock and a copy, no I/O.
    ///
    /// # Panics
    /// If the payload is longer than reserved, or the timestamp outside of the window after the durable horizon.
    pub fn commit(self, timestamp: u64, payload: &[u8]) {
        self.commit_pieces(timestamp, &[payload]);
    }

    /// As [`commit`](Self::commit), of a payload in pieces.
    ///
    /// # Panics
    /// As `commit`.
    pub fn commit_pieces(self, timestamp: u64, _payload: &[&[u8]]) {
        self.logs.shared.durable.fetch_max(timestamp, Ordering::AcqRel);
    }

    /// Leaves the void record of `timestamp`: it was taken, and its transaction failed.
    ///
    /// # Panics
    /// As `commit`.
    pub fn void(self, timestamp: u64) {
        self.commit_pieces(timestamp, &[]);
    }
}
