//! What an execution did, per stage and over time. Reactors count in their own memory and add here once per turn.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of the depth histogram: 0, 1, 2-3, 4-7, … requests in flight.
pub const DEPTH_BUCKETS: usize = 18;

/// Counters of one stage (0: the source).
#[derive(Default, Debug)]
pub struct StageMetrics {
    /// Keys or ranges looked up.
    pub probes: AtomicU64,
    /// Pages visited; the next three tell where they came from.
    pub visits: AtomicU64,
    pub pages_read: AtomicU64,
    pub pages_cached: AtomicU64,
    /// In flight for another partition or query already.
    pub pages_shared: AtomicU64,
    pub bytes_read: AtomicU64,
    /// Entries read of what lies over the tree, and those of the tree (or, of probes by the whole key, keys) that it
    /// hid.
    pub overlay_entries: AtomicU64,
    pub hidden: AtomicU64,
    /// Rows handed on.
    pub rows: AtomicU64,
}

/// The same counters, in one reactor's memory.
#[derive(Default, Clone, Copy)]
pub(crate) struct StageCounts {
    pub probes: u64,
    pub visits: u64,
    pub pages_read: u64,
    pub pages_cached: u64,
    pub pages_shared: u64,
    pub bytes_read: u64,
    pub overlay_entries: u64,
    pub hidden: u64,
    pub rows: u64,
}

impl StageMetrics {
    pub(crate) fn add(&self, counts: &mut StageCounts) {
        let counts = std::mem::take(counts);
        let add = |to: &AtomicU64, count: u64| {
            if count > 0 {
                to.fetch_add(count, Ordering::Relaxed);
            }
        };
        add(&self.probes, counts.probes);
        add(&self.visits, counts.visits);
        add(&self.pages_read, counts.pages_read);
        add(&self.pages_cached, counts.pages_cached);
        add(&self.pages_shared, counts.pages_shared);
        add(&self.bytes_read, counts.bytes_read);
        add(&self.overlay_entries, counts.overlay_entries);
        add(&self.hidden, counts.hidden);
        add(&self.rows, counts.rows);
    }
}

/// Counters of an execution.
#[derive(Debug)]
pub struct ExecutionMetrics {
    /// By stage, the source first.
    pub stages: Vec<StageMetrics>,
    /// Nanoseconds that reactors worked for the execution.
    pub cpu_nanos: AtomicU64,
    /// Nanoseconds that reactors had nothing to do for it but wait for pages.
    pub wait_nanos: AtomicU64,
    /// Nanoseconds spent with so many requests in flight, over all partitions: see [`DEPTH_BUCKETS`].
    pub depth_nanos: [AtomicU64; DEPTH_BUCKETS],
    pub depth_max: AtomicU64,
    /// Most bytes of live rows and probes in one partition.
    pub memory_bytes_max: AtomicU64,
}

impl ExecutionMetrics {
    pub(crate) fn new(stages: usize) -> Self {
        Self {
            stages: (0..stages).map(|_| StageMetrics::default()).collect(),
            cpu_nanos: AtomicU64::new(0),
            wait_nanos: AtomicU64::new(0),
            depth_nanos: std::array::from_fn(|_| AtomicU64::new(0)),
            depth_max: AtomicU64::new(0),
            memory_bytes_max: AtomicU64::new(0),
        }
    }

    pub(crate) fn spend(&self, at_depth: u32, duration: Duration) {
        let bucket = (32 - at_depth.leading_zeros()) as usize;
        self.depth_nanos[bucket.min(DEPTH_BUCKETS - 1)].fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
        self.depth_max.fetch_max(u64::from(at_depth), Ordering::Relaxed);
    }

    /// Sum of a counter over the stages.
    pub fn total(&self, counter: impl Fn(&StageMetrics) -> &AtomicU64) -> u64 {
        self.stages.iter().map(|stage| counter(stage).load(Ordering::Relaxed)).sum()
    }

    /// Requests in flight, averaged over time (by the middle of each bucket).
    pub fn depth_mean(&self) -> f64 {
        let (mut weighted, mut total) = (0.0, 0.0);
        for (bucket, nanos) in self.depth_nanos.iter().enumerate() {
            let nanos = nanos.load(Ordering::Relaxed) as f64;
            let middle = match bucket {
                0 => 0.0,
                1 => 1.0,
                _ => 1.5 * f64::from(1u32 << (bucket - 1)),
            };
            weighted += middle * nanos;
            total += nanos;
        }
        if total > 0.0 { weighted / total } else { 0.0 }
    }
}

impl fmt::Display for ExecutionMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stage) in self.stages.iter().enumerate() {
            let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            write!(
                f,
                "{}stage {index}: probes={} visits={} (read={} cached={} shared={}) bytes={} rows={}",
                if index == 0 { "" } else { "; " },
                get(&stage.probes),
                get(&stage.visits),
                get(&stage.pages_read),
                get(&stage.pages_cached),
                get(&stage.pages_shared),
                get(&stage.bytes_read),
                get(&stage.rows),
            )?;
            let (entries, hidden) = (get(&stage.overlay_entries), get(&stage.hidden));
            if entries + hidden > 0 {
                write!(f, " (newer={entries} hidden={hidden})")?;
            }
        }
        let milliseconds = |nanos: &AtomicU64| nanos.load(Ordering::Relaxed) as f64 / 1e6;
        write!(
            f,
            "; cpu={:.1}ms io_wait={:.1}ms depth_mean={:.0} depth_max={}",
            milliseconds(&self.cpu_nanos),
            milliseconds(&self.wait_nanos),
            self.depth_mean(),
            self.depth_max.load(Ordering::Relaxed)
        )
    }
}
