//! The time that people are told. Nothing is ordered, timed out or kept by it: it may be set back. What waits or measures takes the
//! monotonic clock of `saki-io`; what is ordered has timestamps, which are counted.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970-01-01 00:00:00 UTC, by the machine's clock.
pub fn wall_micros() -> i64 {
    let micros = |time: std::time::Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    }
}
