//! An index of rows that lie in the order of their keys: a bit for each word there may be, and rows are counted.
//!
//! ```text
//!   block of 64 words:  bits │ rows before        row of a word = rows before + bits below its own
//! ```
//!
//! Tables are scanned in the order of their primary keys, so their rows come to a join in that order. Then a row's
//! number is the rank of its key, and two bits for each word say what [`Direct`](super::direct::Direct) needs four
//! bytes for: the index stays in a cache where positions would not.

use super::keys::BuildWords;
use super::positions::NOWHERE;
use crate::Result;

const WORD: u64 = u64::BITS as u64;

/// Words for each build row up to which this index is used: 16 bytes a row, as much as hashing takes.
const SPARSITY: u64 = 64;

/// Words up to which positions lie in a second-level cache (1 MiB), and finding them there takes fewer instructions.
const SMALL: u64 = 256 << 10;

#[derive(Debug)]
pub(crate) struct Ranked {
    /// The last one is for all words that are too great, and empty.
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Block {
    bits: u64,
    before: u32,
}

impl Ranked {
    /// Whether words less than `range` are worth it, for `rows` rows.
    pub fn suits(range: u64, rows: usize) -> bool {
        range > SMALL && range <= rows as u64 * SPARSITY
    }

    /// Of words less than `range`; `None`: they do not ascend, or one is missing.
    pub fn build(words: &impl BuildWords, range: u64) -> Result<Option<Self>> {
        let mut blocks = vec![Block::default(); range.div_ceil(WORD) as usize + 1];
        // All words are greater than the one before; the first, than -1.
        let (mut least, mut ascending) = (0, true);
        words.forward(|_, words| {
            for word in words {
                ascending &= (least..range).contains(word);
                least = word.wrapping_add(1);
                if let Some(block) = blocks.get_mut((word / WORD) as usize) {
                    block.bits |= 1 << (word % WORD);
                }
            }
            ascending
        })?;
        let mut before = 0;
        for block in &mut blocks {
            block.before = before;
            before += block.bits.count_ones();
        }
        Ok(ascending.then_some(Self { blocks }))
    }

    /// The positions of words.
    #[inline]
    pub fn find(&self, words: &[u64], positions: &mut [u32]) {
        let last = self.blocks.len() as u64 - 1;
        for (word, position) in words.iter().zip(positions) {
            let block = &self.blocks[(word / WORD).min(last) as usize];
            let bit = 1 << (word % WORD);
            let rank = block.before + (block.bits & (bit - 1)).count_ones();
            *position = if block.bits & bit == 0 { NOWHERE } else { rank };
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }
}
