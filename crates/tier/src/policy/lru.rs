//! What is read is copied, as caches between memory and disk do it: FlashCache, dm-cache.

use std::time::Duration;

use super::kind::{Policy, PolicyKind};
use crate::book::Chunk;

pub struct Lru;

impl Policy for Lru {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Lru
    }

    fn wants(&self, chunk: &Chunk) -> Option<f64> {
        chunk.is_read.then(|| seconds(chunk.read_at))
    }

    fn keeps(&self, chunk: &Chunk) -> f64 {
        seconds(chunk.read_at)
    }
}

/// Seconds on the clock, where never is before all others.
fn seconds(time: Option<Duration>) -> f64 {
    time.map_or(-1.0, |time| time.as_secs_f64())
}
