//! A Bloom filter whose bits for one key lie in one word, so that a lookup is one load.
//!
//! After Lang, Neumann, Kemper and Boncz: "Performance-Optimal Filtering: Bloom overtakes Cuckoo at High Throughput"
//! (VLDB 2019): register-blocked filters. With 16 bits for each key about one of two hundred foreign keys passes.

use std::f64;

/// Bits for each key; a key sets four of them at most.
const BITS_PER_KEY: usize = 16;

const BITS_SET: usize = 4;

#[derive(Debug)]
pub(super) struct Bloom {
    words: Vec<u64>,
}

impl Bloom {
    /// For up to `keys` keys.
    pub fn new(keys: usize) -> Self {
        Self { words: vec![0; (keys * BITS_PER_KEY).div_ceil(u64::BITS as usize).clamp(1, u32::MAX as usize)] }
    }

    /// The upper half of a hash chooses the word, the lower half its bits.
    #[inline(always)]
    fn place(&self, hash: u64) -> (usize, u64) {
        let word = (((hash >> 32) * self.words.len() as u64) >> 32) as usize;
        let bit = |shift: u32| 1 << ((hash >> shift) & 63);
        let bits = bit(0) | bit(6) | bit(12) | bit(18);
        (word, bits)
    }

    #[inline(always)]
    pub fn insert(&mut self, hash: u64) {
        let (word, bits) = self.place(hash);
        self.words[word] |= bits;
    }

    #[inline(always)]
    pub fn contains(&self, hash: u64) -> bool {
        let (word, bits) = self.place(hash);
        self.words[word] & bits == bits
    }

    /// Keys that were inserted, estimated from the bits that are set (Swamidass and Baldi, 2007).
    pub fn len(&self) -> usize {
        let bits = self.words.len() as f64 * f64::from(u64::BITS);
        let set: f64 = self.words.iter().map(|word| f64::from(word.count_ones())).sum();
        if set == 0.0 {
            return 0;
        }
        let unset = (1.0 - set / bits).max(1.0 / bits);
        (-bits / BITS_SET as f64 * unset.ln()).round().max(1.0) as usize
    }
}

/// A hash of a code.
#[inline(always)]
pub(super) fn hash(code: i64) -> u64 {
    let product = u128::from(code as u64 ^ 0x1319_8a2e_0370_7344) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}
