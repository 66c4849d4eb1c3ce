//! How much memory deltas may take, all tables' together.
//!
//! Newer rows leave memory once they are merged and nobody reads an older generation, so a snapshot that is held for
//! long keeps everything that is written meanwhile. Whoever begins to write looks whether there
//! [is room](Room::is_open) and waits for it if not; whoever is in the middle of writing [is refused](Room::admit) only
//! some way further on. What gives memory back asks nobody: merges, the ends of transactions, and replaying the logs.

use std::sync::atomic::{AtomicU64, Ordering};

use saki_mvcc::Error;

/// The room that deltas have.
#[derive(Debug)]
pub struct Room {
    limit: u64,
    /// Bytes of tables that stay in memory because somebody wants that, as they were counted last.
    resident: AtomicU64,
}

impl Default for Room {
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl Room {
    pub fn new(limit: u64) -> Self {
        Self { limit, resident: AtomicU64::new(0) }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes note of how much resident tables take: that is not counted.
    pub fn set_resident(&self, bytes: u64) {
        // Relaxed: a number, as of about now.
        self.resident.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that deltas take of their room.
    pub fn used(&self, engine: &saki_mvcc::Database) -> u64 {
        engine.used_bytes().saturating_sub(self.resident.load(Ordering::Relaxed))
    }

    /// Whether whoever wants to write may begin.
    #[inline]
    pub fn is_open(&self, engine: &saki_mvcc::Database) -> bool {
        self.used(engine) <= self.limit - self.limit / 8
    }

    /// Whether one more row may be written.
    ///
    /// # Errors
    /// `Memory` if not.
    #[inline]
    pub fn admit(&self, engine: &saki_mvcc::Database) -> Result<(), Error> {
        let used = self.used(engine);
        if used <= self.limit { Ok(()) } else { Err(self.full(used)) }
    }

    #[cold]
    fn full(&self, used: u64) -> Error {
        let message = format!("newer rows take {used} bytes of memory, and may take {}", self.limit);
        Error::Memory { message }
    }
}
