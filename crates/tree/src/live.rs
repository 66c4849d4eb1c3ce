//! Which pages are referred to, and what they are of: gathered by walks over trees, compared with the volume's books.

use hashbrown::HashMap;
use saki_base::{ChunkId, PAGE_BYTES_MIN, PageAddress, PageSize, Part};

/// Pages met, one bit each.
pub struct LivePages {
    page_size: PageSize,
    chunks: HashMap<ChunkId, Met>,
}

/// What was met in a chunk.
#[derive(Default)]
struct Met {
    words: [u64; WORDS],
    parts: Vec<Part>,
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

    /// Notes a page of a part; `false` if it was met before, which no sound tree does.
    pub fn insert(&mut self, page: PageAddress, part: Part) -> bool {
        let index = (page.0 % self.page_size.pages_per_chunk()) as usize;
        let met = self.chunks.entry(self.page_size.chunk_of(page)).or_default();
        if !met.parts.contains(&part) {
            met.parts.push(part);
        }
        let bit = 1 << (index % 64);
        let new = met.words[index / 64] & bit == 0;
        met.words[index / 64] |= bit;
        new
    }

    /// Pages met per chunk, in chunk order.
    pub fn counts(&self) -> Vec<(ChunkId, u32)> {
        let count = |met: &Met| met.words.iter().map(|word| word.count_ones()).sum();
        let mut counts: Vec<_> = self.chunks.iter().map(|(chunk, met)| (*chunk, count(met))).collect();
        counts.sort_unstable();
        counts
    }

    /// Parts of pages met that a volume does not say to be in their chunk, in chunk order; `recorded` are those that it
    /// says. Of chunks that are not recorded nothing is known.
    pub fn strangers(&self, recorded: &[(ChunkId, Vec<Part>)]) -> Vec<(ChunkId, Part)> {
        let of_chunk = |(chunk, recorded): &(ChunkId, Vec<Part>)| {
            let met = self.chunks.get(chunk).map_or(&[][..], |met| &met.parts);
            let strangers = met.iter().filter(|part| !recorded.contains(part));
            strangers.map(|part| (*chunk, *part)).collect::<Vec<_>>()
        };
        let mut strangers: Vec<_> = recorded.iter().flat_map(of_chunk).collect();
        strangers.sort_unstable();
        strangers
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
    use saki_base::{PartKind, TreeId};

    use super::*;

    const LEAVES: Part = Part::new(TreeId(1), PartKind::Leaves);
    const INNER: Part = Part::new(TreeId(1), PartKind::Inner);

    #[test]
    fn pages_are_counted_once() {
        let mut live = LivePages::new(PageSize::new(4096).expect("valid"));
        assert!(live.insert(PageAddress(3), LEAVES));
        assert!(!live.insert(PageAddress(3), LEAVES));
        assert!(live.insert(PageAddress(255), INNER));
        assert!(live.insert(PageAddress(256), LEAVES));
        assert_eq!(live.counts(), [(ChunkId(0), 2), (ChunkId(1), 1)]);
        let difference = LiveDifference { chunk: ChunkId(1), found: 1, recorded: 2 };
        assert_eq!(live.differences(&[(ChunkId(0), 2), (ChunkId(1), 2)]), [difference]);
        let recorded = [(ChunkId(0), vec![LEAVES]), (ChunkId(2), vec![])];
        assert_eq!(live.strangers(&recorded), [(ChunkId(0), INNER)]);
    }
}
