//! Closed loops: each worker, pinned to its core, runs one transaction after the other and never waits for the disk.
//!
//! ```text
//!   draw ── run ── commit ──► receipt, with the time of the draw ──► [ first in, first out ]
//!    ▲       └─ conflict: again                                             │ durable?
//!    └──────────────────────────────────────────────────────────────────────┴──► acknowledged: latency
//! ```
//!
//! A transaction is *executed* when it has committed, and *acknowledged* when its client could be told: not before it
//! is durable. Rates count what happens between the end of the warm-up and the stop; what is still queued then is
//! waited for and not counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use saki_mvcc::{Database, Durability, Error, Receipt, Runner};
use saki_report::Report;
use serde_json::{Map, Value, json};

use crate::engine::on_workers;
use crate::progress::Progress;

/// The longest latency told apart: a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// The transactions of one worker.
pub trait Work: Send {
    /// Draws the next transaction; which of the kinds it is.
    fn draw(&mut self) -> usize;

    /// Runs what was drawn, from begin to commit. Called again after an error that is retryable.
    ///
    /// # Errors
    /// The engine's.
    fn run(&mut self, runner: &mut Runner) -> Result<End, Error>;
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug)]
pub enum End {
    Committed(Receipt),
    /// By the workload's own choice.
    RolledBack,
}

/// How long, and what counts as acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub warmup: Duration,
    pub measured: Duration,
    pub durability: Durability,
    /// Over before its time when so many bytes of log have been written.
    pub log_bytes_max: u64,
}

impl Span {
    pub fn new(warmup_seconds: f64, seconds: f64, durability: Durability) -> Self {
        let [warmup, measured] = [warmup_seconds, seconds].map(Duration::from_secs_f64);
        Self { warmup, measured, durability, log_bytes_max: u64::MAX }
    }

    /// Until there is so much log.
    pub const fn of_log(bytes: u64) -> Self {
        let forever = Duration::from_secs(24 * 3600);
        Self { warmup: Duration::ZERO, measured: forever, durability: Durability::Sync, log_bytes_max: bytes }
    }
}

/// What the transactions of one kind did.
#[derive(Clone, Debug)]
pub struct Kind {
    pub name: &'static str,
    pub acknowledged: u64,
    pub rolled_back: u64,
    /// Of acknowledged ones, in nanoseconds.
    pub latency: Histogram<u64>,
}

/// What one worker, or all of them, did while it counted.
#[derive(Clone, Debug)]
pub struct Tally {
    pub seconds: f64,
    pub executed: u64,
    pub kinds: Vec<Kind>,
    /// Aborts by the engine: a row was being changed or had just been; what was read had changed.
    pub conflicts: u64,
    pub serializations: u64,
    /// Share of the time in which the thread ran at all: less than 1 where it had to share its core, or waited for the
    /// log.
    pub running_share: f64,
}

/// What the logs wrote while it counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct LogWork {
    pub records: u64,
    pub record_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub flushes: u64,
    pub waits: u64,
}

/// One measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    pub workers: Vec<Tally>,
    pub log: LogWork,
    pub seconds: f64,
    /// Memory of rows and versions at the end.
    pub memory_bytes: usize,
}

const WARMING: u8 = 0;
const COUNTING: u8 = 1;
const STOPPED: u8 = 2;

/// Runs the works, one on each worker of the database's plan, and measures.
///
/// # Errors
/// The first that is not retryable.
pub fn drive<W: Work>(
    database: &Database,
    works: &mut [W],
    kinds: &[&'static str],
    span: Span,
    what: &str,
) -> Result<Measured, String> {
    let phase = AtomicU8::new(WARMING);
    let works: Vec<_> = works.iter_mut().map(std::sync::Mutex::new).collect();
    let progress = Progress::new(what);
    let worker = |number: usize, runner: &mut Runner| {
        let mut work = works[number].lock().expect("each work has one worker");
        let mut driver = Driver::new(database, kinds, span.durability);
        let outcome = driver.run(&mut **work, runner, &phase);
        // The others need not go on.
        outcome.inspect_err(|_| phase.store(STOPPED, Ordering::Relaxed)).map(|()| driver.tally)
    };
    std::thread::scope(|scope| {
        let clock = scope.spawn(|| keep_time(database, &phase, span, &progress));
        let workers = on_workers(database, worker);
        phase.store(STOPPED, Ordering::Relaxed);
        let (log, seconds) = clock.join().expect("the clock does not panic");
        Ok(Measured { workers: workers?, log, seconds, memory_bytes: database.memory_bytes() })
    })
}

/// Takes the phases through; what the logs wrote while it counted, and how long that was.
fn keep_time(database: &Database, phase: &AtomicU8, span: Span, progress: &Progress) -> (LogWork, f64) {
    let is_full = || span.log_bytes_max < u64::MAX && LogWork::of(database).written_bytes >= span.log_bytes_max;
    let sleep = |until: Instant| {
        while phase.load(Ordering::Relaxed) != STOPPED && Instant::now() < until && !is_full() {
            std::thread::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(20)));
            progress.at(|| format!("{} commits", database.now()));
        }
    };
    let to = |next: u8, before: u8| {
        // A worker that failed has stopped it all.
        let _ = phase.compare_exchange(before, next, Ordering::Relaxed, Ordering::Relaxed);
    };
    sleep(Instant::now() + span.warmup);
    let before = LogWork::of(database);
    let started = Instant::now();
    to(COUNTING, WARMING);
    sleep(started + span.measured);
    to(STOPPED, COUNTING);
    let seconds = started.elapsed().as_secs_f64();
    (LogWork::of(database).since(before), seconds)
}

/// One worker's loop.
struct Driver<'a> {
    database: &'a Database,
    durability: Durability,
    tally: Tally,
    queue: VecDeque<Waiting>,
}

/// A transaction whose client has not been told.
#[derive(Clone, Copy)]
struct Waiting {
    receipt: Receipt,
    kind: usize,
    drawn: Instant,
}

impl<'a> Driver<'a> {
    fn new(database: &'a Database, kinds: &[&'static str], durability: Durability) -> Self {
        Self { database, durability, tally: Tally::new(kinds), queue: VecDeque::with_capacity(1 << 16) }
    }

    fn run<W: Work>(&mut self, work: &mut W, runner: &mut Runner, phase: &AtomicU8) -> Result<(), Error> {
        let mut counting: Option<(Instant, Times)> = None;
        let mut now = Instant::now();
        loop {
            match phase.load(Ordering::Relaxed) {
                COUNTING if counting.is_none() => {
                    self.tally.clear();
                    counting = Some((now, Times::of_thread()));
                }
                STOPPED => break,
                _ => {}
            }
            let kind = work.draw();
            let Some(end) = self.run_once(work, runner, phase)? else { break };
            let after = Instant::now();
            match end {
                End::Committed(receipt) => {
                    self.tally.executed += 1;
                    let waiting = Waiting { receipt, kind, drawn: now };
                    // One that only read need not wait for those that wrote before.
                    if receipt.timestamp.is_none() && self.may_tell(receipt) {
                        self.tell(waiting, after);
                    } else {
                        self.queue.push_back(waiting);
                    }
                }
                End::RolledBack => self.tally.kinds[kind].rolled_back += 1,
            }
            self.acknowledge(after);
            now = after;
        }
        if let Some((started, times)) = counting {
            self.tally.seconds = now.duration_since(started).as_secs_f64();
            self.tally.running_share = Times::of_thread().since(times).running / self.tally.seconds.max(1e-9);
        }
        // What is left is not counted, but those who look at the database next may rely on it.
        self.queue.drain(..).try_for_each(|left| self.database.wait(left.receipt))
    }

    /// Runs until nobody gets in its way; `None` if it is time to stop.
    #[inline]
    fn run_once<W: Work>(&mut self, work: &mut W, runner: &mut Runner, phase: &AtomicU8) -> Result<Option<End>, Error> {
        let mut tries = 0;
        loop {
            match work.run(runner) {
                Ok(end) => return Ok(Some(end)),
                Err(Error::Conflict { .. }) => self.tally.conflicts += 1,
                Err(Error::Serialization) => self.tally.serializations += 1,
                Err(error) => return Err(error),
            }
            if phase.load(Ordering::Relaxed) == STOPPED {
                return Ok(None);
            }
            tries += 1;
            self.back_off(tries)?;
        }
    }

    /// Waits a little before the next try, the longer the more there were.
    #[cold]
    fn back_off(&self, tries: u32) -> Result<(), Error> {
        match tries {
            // The other is likely on another core, and nearly done;
            tries if tries % 16 != 0 => (0..1_u32 << tries.min(8)).for_each(|_| std::hint::spin_loop()),
            // if it is on this one, it needs it.
            ..64 => std::thread::yield_now(),
            // Where commits are not speculative, it is its own earlier one, and the log has to come first.
            _ => match self.queue.front() {
                Some(first) => self.database.wait(first.receipt)?,
                None => std::thread::yield_now(),
            },
        }
        Ok(())
    }

    #[inline]
    fn acknowledge(&mut self, now: Instant) {
        while let Some(first) = self.queue.front().copied() {
            if !self.may_tell(first.receipt) {
                return;
            }
            self.queue.pop_front();
            self.tell(first, now);
        }
    }

    /// Whether the client may be told.
    #[inline]
    fn may_tell(&self, receipt: Receipt) -> bool {
        self.durability == Durability::Relaxed || self.database.is_durable(receipt)
    }

    #[inline]
    fn tell(&mut self, told: Waiting, now: Instant) {
        let kind = &mut self.tally.kinds[told.kind];
        kind.acknowledged += 1;
        kind.latency.saturating_record(now.duration_since(told.drawn).as_nanos() as u64);
    }
}

/// What the scheduler knows of a thread, in seconds.
#[derive(Clone, Copy, Default)]
struct Times {
    running: f64,
}

impl Times {
    fn of_thread() -> Self {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let running = text.split_ascii_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok());
        Self { running: running.unwrap_or_default() / 1e9 }
    }

    fn since(self, before: Self) -> Self {
        Self { running: self.running - before.running }
    }
}

/// An empty histogram of latencies in nanoseconds.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are good")
}

/// Percentiles in milliseconds.
pub fn percentiles(latency: &Histogram<u64>) -> Value {
    let ms = |quantile| latency.value_at_quantile(quantile) as f64 / 1e6;
    json!({ "p50": ms(0.5), "p95": ms(0.95), "p99": ms(0.99), "p99_9": ms(0.999), "max": latency.max() as f64 / 1e6 })
}

impl Tally {
    fn new(kinds: &[&'static str]) -> Self {
        let kind = |name: &&'static str| Kind { name, acknowledged: 0, rolled_back: 0, latency: latencies() };
        let kinds = kinds.iter().map(kind).collect();
        Self { seconds: 0.0, executed: 0, kinds, conflicts: 0, serializations: 0, running_share: 0.0 }
    }

    fn clear(&mut self) {
        (self.executed, self.conflicts, self.serializations) = (0, 0, 0);
        for kind in &mut self.kinds {
            (kind.acknowledged, kind.rolled_back) = (0, 0);
            kind.latency.reset();
        }
    }

    /// Of all kinds.
    pub fn acknowledged(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.acknowledged).sum()
    }
}

impl LogWork {
    /// Since the database was opened, in all logs.
    pub fn of(database: &Database) -> Self {
        database.log_statistics().iter().fold(Self::default(), |sum, log| Self {
            records: sum.records + log.records,
            record_bytes: sum.record_bytes + log.record_bytes,
            writes: sum.writes + log.writes,
            written_bytes: sum.written_bytes + log.written_bytes,
            flushes: sum.flushes + log.flushes,
            waits: sum.waits + log.waits,
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            records: self.records - before.records,
            record_bytes: self.record_bytes - before.record_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
            flushes: self.flushes - before.flushes,
            waits: self.waits - before.waits,
        }
    }
}

impl Measured {
    /// Transactions acknowledged a second, of all workers.
    pub fn rate(&self) -> f64 {
        self.sum(|worker| worker.acknowledged() as f64 / worker.seconds.max(1e-9))
    }

    /// Transactions committed a second.
    pub fn executed_rate(&self) -> f64 {
        self.sum(|worker| worker.executed as f64 / worker.seconds.max(1e-9))
    }

    /// Transactions of one kind acknowledged a second.
    pub fn rate_of(&self, kind: usize) -> f64 {
        self.sum(|worker| worker.kinds[kind].acknowledged as f64 / worker.seconds.max(1e-9))
    }

    /// Attempts that the engine aborted, for each that committed.
    pub fn abort_share(&self) -> f64 {
        let aborts = self.sum(|worker| (worker.conflicts + worker.serializations) as f64);
        aborts / self.sum(|worker| worker.executed as f64).max(1.0)
    }

    /// Share of the time in which the workers had a core, in the mean.
    pub fn running_share(&self) -> f64 {
        self.sum(|worker| worker.running_share) / self.workers.len().max(1) as f64
    }

    /// Says so in the report if the machine had other things to do, or the workers waited for the logs.
    pub fn note_sharing(&self, report: &mut Report, what: &str) {
        const ALONE: f64 = 0.9;
        let share = self.running_share();
        if share < ALONE {
            report.note(format!(
                "{what}: workers ran {:.0} % of the time, and shared their cores or waited else",
                100.0 * share
            ));
        }
    }

    /// Latencies of a kind, or of all.
    pub fn latency(&self, kind: Option<usize>) -> Histogram<u64> {
        let mut all = latencies();
        for worker in &self.workers {
            let of = worker.kinds.iter().enumerate().filter(|(number, _)| kind.is_none_or(|kind| kind == *number));
            of.for_each(|(_, kind)| all.add(&kind.latency).expect("the histograms have the same bounds"));
        }
        all
    }

    /// The figures for a row of a report; those of every kind too if there are several.
    pub fn to_json(&self) -> Value {
        let committed = self.sum(|worker| worker.executed as f64).max(1.0);
        let log = self.log;
        let mut row = json!({
            "seconds": self.seconds,
            "acknowledged_per_s": self.rate(),
            "executed_per_s": self.executed_rate(),
            "executed_per_running_s": self.executed_rate() / self.running_share().max(1e-9),
            "aborts": {
                "conflict": self.sum(|worker| worker.conflicts as f64),
                "serialization": self.sum(|worker| worker.serializations as f64),
                "per_commit": self.abort_share(),
            },
            "latency_ms": percentiles(&self.latency(None)),
            "running_share": self.running_share(),
            "memory_mb": self.memory_bytes as f64 / 1e6,
            "log": {
                "bytes_per_commit": log.record_bytes as f64 / committed,
                "written_mb_per_s": log.written_bytes as f64 / 1e6 / self.seconds.max(1e-9),
                "write_kb_mean": log.written_bytes as f64 / 1e3 / log.writes.max(1) as f64,
                "writes_per_s": log.writes as f64 / self.seconds.max(1e-9),
                "flushes_per_s": log.flushes as f64 / self.seconds.max(1e-9),
                "waits": log.waits,
            },
        });
        let kinds = self.workers.first().map_or(&[][..], |worker| &worker.kinds[..]);
        if kinds.len() > 1 {
            let of = |(number, kind): (usize, &Kind)| {
                let rolled_back = self.sum(|worker| worker.kinds[number].rolled_back as f64);
                let latency = percentiles(&self.latency(Some(number)));
                let rate = self.rate_of(number);
                let value = json!({ "acknowledged_per_s": rate, "rolled_back": rolled_back, "latency_ms": latency });
                (kind.name.to_owned(), value)
            };
            row["kinds"] = Value::Object(kinds.iter().enumerate().map(of).collect::<Map<_, _>>());
        }
        row
    }

    fn sum(&self, of: impl Fn(&Tally) -> f64) -> f64 {
        self.workers.iter().map(of).sum()
    }
}

/// Two objects as one.
pub fn joined(mut left: Value, right: Value) -> Value {
    if let (Value::Object(left), Value::Object(right)) = (&mut left, right) {
        left.extend(right);
    }
    left
}
