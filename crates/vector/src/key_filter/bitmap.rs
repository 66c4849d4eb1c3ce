//! A set of codes that lie close together: a bit for each.

use crate::Bounds;
use crate::key_index::code::Code;

const WORD: u64 = u64::BITS as u64;

#[derive(Debug)]
pub(super) struct Bitmap {
    bounds: Bounds,
    /// The last word is for codes out of bounds, and empty.
    words: Vec<u64>,
}

impl Bitmap {
    /// The bits that codes between `bounds` take; `None`: more than can be counted.
    pub fn bits(bounds: Bounds) -> Option<u64> {
        (bounds.max.wrapping_sub(bounds.min) as u64).checked_add(1)
    }

    /// The empty set, for codes between `bounds`, which take `bits`.
    pub fn new(bounds: Bounds, bits: u64) -> Self {
        Self { bounds, words: vec![0; bits.div_ceil(WORD) as usize + 1] }
    }

    /// Adds a code, which is within the bounds.
    #[inline(always)]
    pub fn insert(&mut self, code: i64) {
        let distance = code.wrapping_sub(self.bounds.min) as u64;
        if let Some(word) = self.words.get_mut((distance / WORD) as usize) {
            *word |= 1 << (distance % WORD);
        }
    }

    #[inline(always)]
    pub fn contains<T: Code>(&self, value: T) -> bool {
        let distance = value.code().wrapping_sub(self.bounds.min) as u64;
        let empty = self.words.len() - 1;
        self.words[(distance / WORD).min(empty as u64) as usize] >> (distance % WORD) & 1 != 0
    }

    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has a code from `min` to `max`, which are within the bounds.
    pub fn intersects(&self, min: i64, max: i64) -> bool {
        let (first, last) = (min.wrapping_sub(self.bounds.min) as u64, max.wrapping_sub(self.bounds.min) as u64);
        let (from, to) = ((first / WORD) as usize, (last / WORD) as usize);
        let (head, tail) = (u64::MAX << (first % WORD), u64::MAX >> (WORD - 1 - last % WORD));
        if from == to {
            return self.words[from] & head & tail != 0;
        }
        self.words[from] & head != 0
            || self.words[from + 1..to].iter().any(|word| *word != 0)
            || self.words[to] & tail != 0
    }

    /// The codes, ascending.
    pub fn codes(&self) -> impl Iterator<Item = i64> + '_ {
        (0..).zip(&self.words).flat_map(move |(position, word)| {
            let base = self.bounds.min.wrapping_add(position * WORD as i64);
            let rests = std::iter::successors(Some(*word), |rest| Some(rest & rest.wrapping_sub(1)));
            let bits = rests.take_while(|rest| *rest != 0).map(|rest| i64::from(rest.trailing_zeros()));
            bits.map(move |bit| base.wrapping_add(bit))
        })
    }
}
