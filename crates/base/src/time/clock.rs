//! Time, of two kinds. What waits or measures takes a [`Clock`], a parameter, so that simulations run on their own.
//! What people are told is [`wall_micros`]; nothing is ordered, timed out or kept by it, as it may be set back. What is
//! ordered has timestamps, which are counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970-01-01 00:00:00 UTC, by the machine's clock.
pub fn wall_micros() -> i64 {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    }
}

/// A clock that never goes back. The start is any.
pub trait Clock: Send + Sync {
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that stands until it is advanced.
#[derive(Debug, Default)]
pub struct VirtualClock {
    nanoseconds: AtomicU64,
}

impl VirtualClock {
    /// Moves on to `time`; does nothing if that has passed.
    pub fn advance_to(&self, time: Duration) {
        // SeqCst: rare, and simulations want the one order that reads simplest.
        self.nanoseconds.fetch_max(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::SeqCst))
    }
}
