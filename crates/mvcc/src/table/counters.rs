//! What a table has in memory, and when it was last written. Counted in shards, so that runners that write at once do
//! not share a line.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

const SHARDS: usize = 16;

/// The counters of one table.
#[derive(Default)]
pub struct Counters {
    shards: [CachePadded<Shard>; SHARDS],
    /// Rows that have left memory for being in the base as well.
    released: CachePadded<AtomicU64>,
}

#[derive(Default)]
struct Shard {
    rows: AtomicI64,
    bytes: AtomicI64,
    /// The latest commit that has changed the table, of those counted here.
    last_commit: AtomicU64,
}

/// What a commit adds to a table's memory, or takes from it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Growth {
    pub rows: i64,
    pub bytes: i64,
}

impl Counters {
    fn shard(&self, participant: u32) -> &Shard {
        &self.shards[participant as usize % SHARDS]
    }

    /// Counts rows and bytes on behalf of that participant.
    pub fn grow(&self, participant: u32, growth: Growth) {
        let shard = self.shard(participant);
        shard.rows.fetch_add(growth.rows, Ordering::Relaxed);
        shard.bytes.fetch_add(growth.bytes, Ordering::Relaxed);
    }

    /// Notes a commit that is about to be seen. Whoever has seen its participant end it sees the note.
    pub fn note_commit(&self, participant: u32, timestamp: u64) {
        self.shard(participant).last_commit.fetch_max(timestamp, Ordering::Relaxed);
    }

    /// Counts a row that has left memory, between its death and when another of its key may come. So whoever finds one
    /// that came after a row died finds that row counted; and whoever finds it counted finds it dead.
    pub fn count_released(&self) {
        self.released.fetch_add(1, Ordering::Release);
    }

    pub fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// The latest commit noted.
    pub fn last_commit(&self) -> u64 {
        self.shards.iter().map(|shard| shard.last_commit.load(Ordering::Relaxed)).max().unwrap_or_default()
    }

    pub fn rows(&self) -> u64 {
        self.sum(|shard| &shard.rows)
    }

    pub fn bytes(&self) -> u64 {
        self.sum(|shard| &shard.bytes)
    }

    fn sum(&self, counter: impl Fn(&Shard) -> &AtomicI64) -> u64 {
        let sum: i64 = self.shards.iter().map(|shard| counter(shard).load(Ordering::Relaxed)).sum();
        // A row may be counted out in one shard before it is seen to be counted in in another.
        sum.max(0) as u64
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_counts_is_counted() {
        let counters = Counters::default();
        for participant in 0..1_000 {
            counters.grow(participant, Growth { rows: 1, bytes: 7 });
            counters.note_commit(participant, u64::from(participant) + 1);
            assert_eq!(counters.last_commit(), u64::from(participant) + 1);
        }
        // Counted out by another than by whom it was counted in.
        counters.grow(3, Growth { rows: -500, bytes: -500 * 7 });
        assert_eq!((counters.rows(), counters.bytes()), (500, 500 * 7));
        assert_eq!(counters.last_commit(), 1_000);
    }
}
