//! Lines on stderr about what takes longer than a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long nothing is said.
const SILENCE_MS: u64 = 1_000;

/// One long action.
pub struct Progress {
    action: String,
    started: Instant,
    /// When something was said last, in milliseconds since the start.
    said_ms: AtomicU64,
}

impl Progress {
    pub fn new(action: impl Into<String>) -> Self {
        Self { action: action.into(), started: Instant::now(), said_ms: AtomicU64::new(0) }
    }

    /// Says how far it is, if it is time to. Any thread may.
    pub fn at(&self, how_far: impl FnOnce() -> String) {
        let now = self.started.elapsed().as_millis() as u64;
        let said = self.said_ms.load(Ordering::Relaxed);
        if now < said + SILENCE_MS {
            return;
        }
        // One of the threads that find it is time says it.
        if self.said_ms.compare_exchange(said, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            eprintln!("{}: {}", self.action, how_far());
        }
    }

    /// Says that it is done, if it was worth a word.
    pub fn done(self) -> Duration {
        let elapsed = self.started.elapsed();
        if elapsed >= Duration::from_millis(SILENCE_MS) {
            eprintln!("{}: done in {:.1} s", self.action, elapsed.as_secs_f64());
        }
        elapsed
    }
}
