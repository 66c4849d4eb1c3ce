//! The surface: [`Logs`] and [`Reservation`].

pub mod tail;

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use parking_lot::Mutex;
use saki_base::AlignedBuffer;
use saki_io::Device;

use crate::error::{LogError, Refusal};
use crate::format::record::{RecordHeader, RecordKind};
use crate::horizon::waiters::{Callback, Waiter};
use crate::options::{Options, Range};
use crate::recovery;
use crate::recovery::extents::{self, Extent};
use crate::recovery::report::{LogStatistics, Progress, RecoveryReport};
use crate::shared::{Log, Shared, count};
use crate::start::{Started, start};
use crate::stream::{Claim, Room, Stream};
use crate::writer::Writer;
use tail::Tail;

/// How long a `reserve` that waits for the window sleeps: other logs move the horizon, and do not know of it.
const WINDOW_PAUSE: Duration = Duration::from_millis(1);

/// All logs of a database, open. Clones are the same logs; the last one dropped closes them.
#[derive(Clone)]
pub struct Logs {
    handle: Arc<Handle>,
}

/// Ends the threads with the last clone.
struct Handle {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Logs {
    /// Reads all logs, in parallel, applies what was durable and opens a new incarnation. Empty devices are new logs.
    ///
    /// `apply` gets each commit record of the range at most once, with its log, its timestamp and its payload; from one
    /// thread per log, and *not* in the order of timestamps. If an error is returned, what was applied has to be thrown
    /// away.
    ///
    /// # Errors
    /// See [`LogError`]: everything but `Full`, `TooLarge` and `Closed`.
    pub fn recover<E>(
        devices: Vec<Arc<dyn Device>>,
        options: Options,
        range: Range,
        progress: &(dyn Fn(Progress) + Sync),
        apply: &(impl Fn(usize, u64, &[u8]) -> Result<(), E> + Sync),
    ) -> Result<(Self, RecoveryReport), LogError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let (Started { shared, writers }, report) = Self::start(devices, options, range, progress, apply)?;
        let logs = Self { handle: Arc::new(Handle { shared, threads: Mutex::default() }) };
        for (log, writer) in writers.into_iter().enumerate() {
            logs.spawn(log, writer)?;
        }
        logs.shared().await_beginning()?;
        Ok((logs, report))
    }

    /// Reads all logs as [`recover`](Self::recover) does, and changes nothing: for looking whether they can be
    /// recovered.
    ///
    /// # Errors
    /// What `recover` would say.
    pub fn inspect(
        devices: Vec<Arc<dyn Device>>,
        options: &Options,
        range: Range,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<RecoveryReport, LogError> {
        options.check()?;
        recovery::inspect(devices, options, range, progress)
    }

    /// All of `recover` but the threads.
    pub(crate) fn start<E>(
        devices: Vec<Arc<dyn Device>>,
        options: Options,
        range: Range,
        progress: &(dyn Fn(Progress) + Sync),
        apply: &(impl Fn(usize, u64, &[u8]) -> Result<(), E> + Sync),
    ) -> Result<(Started, RecoveryReport), LogError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        options.check()?;
        let apply = |log: usize, timestamp: u64, payload: &[u8]| {
            apply(log, timestamp, payload).map_err(|error| Refusal::from(error.into()))
        };
        let recovered = recovery::recover(devices, &options, range, progress, &apply)?;
        let report = recovered.report.clone();
        Ok((start(options, recovered)?, report))
    }

    fn spawn(&self, log: usize, writer: Writer) -> Result<(), LogError> {
        let shared = Arc::clone(&self.handle.shared);
        let niceness = shared.options.niceness;
        let body = move || {
            if let Err(error) = saki_io::give_way(niceness) {
                tracing::debug!("log {log}: its thread keeps its priority: {error}");
            }
            // A callback's panic ends this thread, and must not leave others waiting for it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| writer.run())) {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let message = text.unwrap_or_else(|| "of no text".into());
                shared.fail(LogError::Internal { log, message });
            }
        };
        let spawned = thread::Builder::new().name(format!("log-{log}")).spawn(body);
        let thread = spawned.map_err(|error| LogError::Internal { log, message: format!("no thread: {error}") })?;
        self.handle.threads.lock().push(thread);
        Ok(())
    }

    fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// How many logs there are.
    pub fn count(&self) -> usize {
        self.shared().logs.len()
    }

    /// Room for one record of `bytes` bytes of payload, in memory and on disk. *Before* the timestamp is taken: once it
    /// is, the record must be left, and can. Waits while the log is too far behind; so a thread that holds a
    /// reservation must not wait for another.
    ///
    /// # Errors
    /// `Full` (try again later), `TooLarge`, `Failed`, `Internal`, `Closed`.
    ///
    /// # Panics
    /// If there is no such log.
    pub fn reserve(&self, log: usize, bytes: usize) -> Result<Reservation<'_>, LogError> {
        self.shared().reserve(log, bytes)
    }

    /// As [`reserve`](Self::reserve), but `None` instead of waiting.
    ///
    /// # Errors
    /// As for `reserve`.
    ///
    /// # Panics
    /// As for `reserve`.
    pub fn try_reserve(&self, log: usize, bytes: usize) -> Result<Option<Reservation<'_>>, LogError> {
        self.shared().try_reserve(log, bytes)
    }

    /// The durable horizon: all timestamps up to and including this one are durable.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.shared().horizon.durable()
    }

    /// Waits until `timestamp` is durable.
    ///
    /// # Errors
    /// `Failed`, `Internal` or `Closed`: it will not be while these logs are open. It may be found durable when they
    /// are opened again.
    pub fn wait_durable(&self, timestamp: u64) -> Result<(), LogError> {
        if self.durable() >= timestamp {
            return Ok(());
        }
        if let Some((_, answer)) = self.shared().wait_for(timestamp, Waiter::Thread(thread::current())) {
            return answer;
        }
        loop {
            thread::park();
            // Others may unpark this thread as well, and what woke us for an earlier wait may come late.
            if let Some(answer) = self.shared().settled(timestamp) {
                return answer;
            }
        }
    }

    /// Calls `callback` when `timestamp` is durable, or with the error why it will not be. At once if that is settled,
    /// else on a thread of the logs, which must not be held up: the callback should do little and must not wait for the
    /// logs.
    pub fn on_durable(&self, timestamp: u64, callback: Callback) {
        let settled = self.shared().wait_for(timestamp, Waiter::Callback(callback));
        if let Some((Waiter::Callback(callback), answer)) = settled {
            callback(answer);
        }
    }

    /// Everything through `through` is durable elsewhere: extents with nothing later are used again. Beyond the
    /// durable horizon it counts as the horizon. Comes to disk with the next frames.
    pub fn cut(&self, through: u64) {
        let shared = self.shared();
        shared.cut_through(through);
        shared.logs.iter().for_each(|log| log.waker.wake());
    }

    /// The extents that a recovery would read, in the order of logs and of their numbers, to be copied while the logs
    /// go on. Holds every record through what was the durable horizon before the call, if nothing is cut meanwhile: the
    /// copy is opened *through* that ([`Range::through`]).
    ///
    /// # Errors
    /// `Device`, `Corrupt` if a header is damaged, `Closed`.
    pub fn extents(&self) -> Result<Vec<Extent>, LogError> {
        let mut all = Vec::new();
        for log in &self.shared().logs {
            let device = log.storage.upgrade().ok_or(LogError::Closed)?;
            all.extend(extents::extents(&device, log.identity, log.extent_bytes)?);
        }
        Ok(all)
    }

    /// `length` bytes of an extent from `offset` on, whole blocks. `None`: all that it had has been cut, and its place
    /// is another's now.
    ///
    /// # Errors
    /// `Device`, `Closed`.
    ///
    /// # Panics
    /// If there is no such log.
    pub fn read_extent(&self, extent: &Extent, offset: u64, length: usize) -> Result<Option<AlignedBuffer>, LogError> {
        let device = self.shared().logs[extent.log].storage.upgrade().ok_or(LogError::Closed)?;
        extents::read(&device, extent, offset, length)
    }

    /// The records behind `after`, as they become durable. Whoever follows sees to it that nothing is cut beyond what
    /// has been taken.
    ///
    /// # Errors
    /// `Options` if that is before this opening of the logs.
    pub fn tail(&self, after: u64) -> Result<Tail, LogError> {
        Tail::new(Arc::clone(&self.handle.shared), after)
    }

    /// Per log.
    pub fn statistics(&self) -> Vec<LogStatistics> {
        self.shared().logs.iter().map(|log| log.statistics()).collect()
    }

    /// Makes everything durable and ends the threads; waits for reservations of other clones. Afterwards every call of
    /// every clone answers `Closed`.
    ///
    /// # Errors
    /// `Failed` or `Internal`, if the logs had failed.
    pub fn close(self) -> Result<(), LogError> {
        self.handle.close();
        match self.shared().failure() {
            None | Some(LogError::Closed) => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Logs({}, durable through {})", self.count(), self.durable())
    }
}

impl Handle {
    fn close(&self) {
        self.shared.begin_closing();
        let own: ThreadId = thread::current().id();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // The last clone may have been dropped by a callback, on a thread of ours: that one ends by itself.
            if thread.thread().id() != own {
                // Its panic was caught and latched.
                let _ = thread.join();
            }
        }
        self.shared.fail(LogError::Closed);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Waits until the incarnation's beginning is durable in every log, but for those that have no space.
    fn await_beginning(&self) -> Result<(), LogError> {
        for log in &self.logs {
            let mut stream = log.stream.lock();
            while !stream.has_begun() {
                if let Some(error) = self.failure() {
                    return Err(error.clone());
                }
                log.room.wait(&mut stream);
            }
        }
        Ok(())
    }

    fn begin_closing(&self) {
        for log in &self.logs {
            log.stream.lock().closing = true;
            log.room.notify_all();
            log.waker.wake();
        }
    }

    /// See [`Logs::reserve`].
    pub fn reserve(&self, log: usize, bytes: usize) -> Result<Reservation<'_>, LogError> {
        let own = &self.logs[log];
        let mut stream = own.stream.lock();
        let mut asked = false;
        let mut waits_long = false;
        let granted = loop {
            match self.ask(log, bytes, &mut stream, &mut asked) {
                Err(error) => break Err(error),
                Ok(Some(claim)) => break Ok(claim),
                Ok(None) => {}
            }
            if !waits_long && stream.is_long(bytes) {
                waits_long = true;
                stream.long_waits(true);
            }
            count(&own.counters.waits, 1);
            stream.waiting += 1;
            match self.window_is_open(&stream) {
                true => own.room.wait(&mut stream),
                false => _ = own.room.wait_for(&mut stream, WINDOW_PAUSE),
            }
            stream.waiting -= 1;
        };
        if waits_long {
            stream.long_waits(false);
            own.room.notify_all();
        }
        granted.map(|claim| Reservation { shared: self, log: own, claim, bytes, used: false })
    }

    /// See [`Logs::try_reserve`].
    pub fn try_reserve(&self, log: usize, bytes: usize) -> Result<Option<Reservation<'_>>, LogError> {
        let own = &self.logs[log];
        let mut stream = own.stream.lock();
        let mut asked = stream.refused;
        let claim = self.ask(log, bytes, &mut stream, &mut asked)?;
        Ok(claim.map(|claim| Reservation { shared: self, log: own, claim, bytes, used: false }))
    }

    /// One attempt. `asked`: the log thread was asked for extents before, so that its refusal is the answer.
    fn ask(&self, log: usize, bytes: usize, stream: &mut Stream, asked: &mut bool) -> Result<Option<Claim>, LogError> {
        if let Some(error) = self.failure() {
            return Err(error.clone());
        }
        if stream.closing {
            return Err(LogError::Closed);
        }
        if bytes as u64 > self.options.record_bytes_max {
            return Err(LogError::TooLarge { bytes: bytes as u64, bytes_max: self.options.record_bytes_max });
        }
        if !self.window_is_open(stream) {
            return Ok(None);
        }
        match stream.reserve(bytes) {
            Room::Granted(claim) => Ok(Some(claim)),
            Room::Later => Ok(None),
            Room::NeedsExtents(_) if *asked && stream.refused => {
                // Told once; the next try asks the device again.
                stream.refused = false;
                Err(LogError::Full { log, device: self.logs[log].device.clone(), bytes: bytes as u64 })
            }
            Room::NeedsExtents(missing) => {
                *asked = true;
                stream.want_extents(missing);
                self.logs[log].waker.wake();
                Ok(None)
            }
        }
    }

    /// Whether timestamps may be handed out without leaving the window. A transaction whose log has been far ahead of
    /// the horizon waits; of each log, those that passed this before can take one timestamp each. So the greatest is at
    /// most half a window and the number of reservations ahead, and that number is bounded here as well.
    fn window_is_open(&self, stream: &Stream) -> bool {
        let half = self.horizon.window() / 2;
        let reservations_max = half / self.logs.len() as u64;
        stream.newest() <= self.horizon.durable() + half && stream.reservations() < reservations_max.max(1)
    }
}

/// The right to leave one record. Dropped unused, it gives its room back, which is right only while no timestamp was
/// taken for it: a timestamp without a record holds up the durable horizon for ever.
#[must_use = "a reservation is room for a record"]
pub struct Reservation<'a> {
    shared: &'a Shared,
    log: &'a Log,
    claim: Claim,
    bytes: usize,
    used: bool,
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({} bytes in log {})", self.bytes, self.log.identity.log)
    }
}

impl Reservation<'_> {
    /// Leaves the commit record of `timestamp`: a short lock and a copy, no I/O.
    ///
    /// # Panics
    /// If the payload is longer than reserved, or the timestamp outside of the window after the durable horizon.
    pub fn commit(self, timestamp: u64, payload: &[u8]) {
        self.leave(RecordKind::Commit, timestamp, &[payload]);
    }

    /// As [`commit`](Self::commit), of a payload in pieces.
    ///
    /// # Panics
    /// As `commit`.
    pub fn commit_pieces(self, timestamp: u64, payload: &[&[u8]]) {
        self.leave(RecordKind::Commit, timestamp, payload);
    }

    /// Leaves the void record of `timestamp`: it was taken, and its transaction failed.
    ///
    /// # Panics
    /// As `commit`.
    pub fn void(self, timestamp: u64) {
        self.leave(RecordKind::Void, timestamp, &[]);
    }

    fn leave(mut self, kind: RecordKind, timestamp: u64, payload: &[&[u8]]) {
        let length = payload.iter().map(|part| part.len()).sum::<usize>();
        assert!(length <= self.bytes, "a record of {length} bytes, and {} were reserved", self.bytes);
        let horizon = &self.shared.horizon;
        let durable = horizon.durable();
        let in_window = timestamp > durable && timestamp - durable <= horizon.window();
        assert!(in_window, "timestamp {timestamp} is outside of the window after {durable}");
        // Fits: `record_bytes_max` does, by the check of the options.
        let header = RecordHeader { timestamp, kind, length: length as u32 };
        self.used = true;
        let mut stream = self.log.stream.lock();
        stream.release(self.claim);
        stream.append(&header, payload);
        count(&self.log.counters.records, 1);
        count(&self.log.counters.record_bytes, length as u64);
        self.wake(stream);
    }

    /// Wakes the log thread if it sleeps, and those who wait for the room that was given back.
    fn wake(&self, mut stream: parking_lot::MutexGuard<'_, Stream>) {
        let sleeping = std::mem::take(&mut stream.sleeping);
        let waiting = stream.waiting > 0;
        drop(stream);
        if sleeping {
            self.log.waker.wake();
        }
        if waiting {
            self.log.room.notify_all();
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.used {
            let mut stream = self.log.stream.lock();
            stream.release(self.claim);
            self.wake(stream);
        }
    }
}
