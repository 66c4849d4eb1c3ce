//! Which pages are referred to: gathered by walks over trees, compared with the volume's books.

use hashbrown::HashMap;
use saki_base::{ChunkId, PAGE_BYTES_MIN, PageAddress, PageSize};

/// Pages met, one bit each.
pub struct LivePages {
    page_size: PageSize,
    chunks: HashMap<ChunkId, [u64; WORDS]>,
}

const WORDS: usize = saki_base::CHUNK_BYTES / PAGE_BYTES_MIN as usize / 64;

/// A chunk whose live pages are not as many as the volume's books say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LiveDifference {
    pub chunk: ChunkId,
    /// Pages that were met.
    pub found: u32,
    /// Pages that the volume counts.
    pub recorded: u32,
}

impl LivePages {
    pub fn new(page_size: PageSize) -> Self {
        Self { page_size, chunks: HashMap::new() }
    }

    /// Notes a page; `false` if it was met before, which no sound tree does.
    pub fn insert(&mut self, page: PageAddress) -> bool {
        let index = (page.0 % self.page_size.pages_per_chunk()) as usize;
        let words = self.chunks.entry(self.page_size.chunk_of(page)).or_insert([0; WORDS]);
        let bit = 1 << (index % 64);
        let new = words[index / 64] & bit == 0;
        words[index / 64] |= bit;
        new
    }

    /// Pages met per chunk, in chunk order.
    pub fn counts(&self) -> Vec<(ChunkId, u32)> {
        let count = |words: &[u64; WORDS]| words.iter().map(|word| word.count_ones()).sum();
        let mut counts: Vec<_> = self.chunks.iter().map(|(chunk, words)| (*chunk, count(words))).collect();
        counts.sort_unstable();
        counts
    }

    /// Where the pages met (by walks over everything that is published) and a volume's live counts differ.
    pub fn differences(&self, recorded: &[(ChunkId, u32)]) -> Vec<LiveDifference> {
        let mut both: HashMap<ChunkId, (u32, u32)> = HashMap::new();
        for (chunk, found) in self.counts() {
            both.entry(chunk).or_default().0 = found;
        }
        for (chunk, recorded) in recorded {
            both.entry(*chunk).or_default().1 = *recorded;
        }
        let differing = both.into_iter().filter(|(_, (found, recorded))| found != recorded);
        let mut differences: Vec<_> =
            differing.map(|(chunk, (found, recorded))| LiveDifference { chunk, found, recorded }).collect();
        differences.sort_unstable();
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_once() {
        let mut live = LivePages::new(PageSize::new(4096).expect("valid"));
        assert!(live.insert(PageAddress(3)));
        assert!(!live.insert(PageAddress(3)));
        assert!(live.insert(PageAddress(255)));
        assert!(live.insert(PageAddress(256)));
        assert_eq!(live.counts(), [(ChunkId(0), 2), (ChunkId(1), 1)]);
        let difference = LiveDifference { chunk: ChunkId(1), found: 1, recorded: 2 };
        assert_eq!(live.differences(&[(ChunkId(0), 2), (ChunkId(1), 2)]), [difference]);
    }
}
