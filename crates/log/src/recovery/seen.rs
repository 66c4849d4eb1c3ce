//! Which timestamps have a record: a set that is nearly a range.

use std::collections::BTreeMap;

const CHUNK: u64 = 4096;
const WORDS: usize = (CHUNK / 64) as usize;

/// A set of timestamps, in chunks of bits; a full chunk keeps no bits.
#[derive(Default)]
pub struct Seen {
    chunks: BTreeMap<u64, Chunk>,
}

struct Chunk {
    count: u64,
    bits: Option<Box<[u64; WORDS]>>,
}

impl Seen {
    /// Adds a timestamp; `false` if it was there.
    #[must_use]
    pub fn insert(&mut self, timestamp: u64) -> bool {
        let empty = || Chunk { count: 0, bits: Some(Box::new([0; WORDS])) };
        let chunk = self.chunks.entry(timestamp / CHUNK).or_insert_with(empty);
        let Some(bits) = &mut chunk.bits else { return false };
        let word = &mut bits[(timestamp % CHUNK / 64) as usize];
        let bit = 1 << (timestamp % 64);
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        chunk.count += 1;
        if chunk.count == CHUNK {
            chunk.bits = None;
        }
        true
    }

    /// The first timestamp from `from` on that is not in the set.
    pub fn first_missing(&self, from: u64) -> u64 {
        let mut timestamp = from;
        loop {
            let Some(chunk) = self.chunks.get(&(timestamp / CHUNK)) else { return timestamp };
            let end = (timestamp / CHUNK + 1) * CHUNK;
            let Some(bits) = &chunk.bits else {
                timestamp = end;
                continue;
            };
            while timestamp < end {
                let ones = (bits[(timestamp % CHUNK / 64) as usize] >> (timestamp % 64)).trailing_ones();
                timestamp += u64::from(ones);
                if ones == 0 || !timestamp.is_multiple_of(64) {
                    return timestamp;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saki_base::Random;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_plain_set() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (mut seen, mut plain) = (Seen::default(), BTreeSet::new());
            let start = random.below(10_000);
            let mut all: Vec<u64> = (start..start + 20_000).filter(|_| random.chance(0.9995)).collect();
            random.shuffle(&mut all);
            for timestamp in &all {
                assert!(seen.insert(*timestamp));
                plain.insert(*timestamp);
            }
            assert!(!seen.insert(all[0]) && !seen.insert(all[all.len() / 2]), "seed {seed}");
            for _ in 0..100 {
                let from = random.range(start.saturating_sub(100)..start + 20_100);
                let expected = (from..).find(|timestamp| !plain.contains(timestamp)).unwrap();
                assert_eq!(seen.first_missing(from), expected, "seed {seed}");
            }
        }
    }
}
