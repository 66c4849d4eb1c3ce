//! Time as a parameter: code that needs it takes a [`Clock`], so that a
//! simulation can drive it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync {
    /// Microseconds since 1970-01-01 00:00:00 UTC; may be set back.
    fn now_micros(&self) -> i64;
    /// Nanoseconds since some fixed moment; never runs backwards.
    fn monotonic_nanos(&self) -> u64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_micros(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_micros() as i64,
            Err(before) => -(before.duration().as_micros() as i64),
        }
    }

    fn monotonic_nanos(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// A clock that moves only when it is told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    // Each is read on its own, and neither publishes other memory: relaxed will do.
    now_micros: AtomicI64,
    monotonic_nanos: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at `now_micros` since 1970, monotonic time 0.
    pub fn new(now_micros: i64) -> Self {
        Self { now_micros: AtomicI64::new(now_micros), monotonic_nanos: AtomicU64::new(0) }
    }

    /// Moves both times forward. What is less than a microsecond adds up in
    /// monotonic time only.
    pub fn advance(&self, by: Duration) {
        let before = self.monotonic_nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
        let micros = (before + by.as_nanos() as u64) / 1_000 - before / 1_000;
        self.now_micros.fetch_add(micros as i64, Ordering::Relaxed);
    }

    /// Sets the time of day, as an administrator might; monotonic time goes on.
    pub fn set_now_micros(&self, now_micros: i64) {
        self.now_micros.store(now_micros, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_micros(&self) -> i64 {
        self.now_micros.load(Ordering::Relaxed)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.monotonic_nanos.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_time_moves_when_told() {
        let clock = ManualClock::new(1_000);
        (0..4).for_each(|_| clock.advance(Duration::from_nanos(500)));
        assert_eq!((clock.now_micros(), clock.monotonic_nanos()), (1_002, 2_000));
        clock.set_now_micros(-5);
        clock.advance(Duration::from_millis(1));
        assert_eq!((clock.now_micros(), clock.monotonic_nanos()), (995, 1_002_000));
    }

    #[test]
    fn system_time_does_not_run_backwards() {
        let clock = SystemClock::new();
        let first = clock.monotonic_nanos();
        assert!(clock.monotonic_nanos() >= first);
        assert!(clock.now_micros() > 1_700_000_000_000_000);
    }
}
