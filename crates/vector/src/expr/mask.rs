//! Sets of rows, as bits: what conditions work on.
//!
//! ```text
//!   word 0: rows 0..64 (row 0 is the lowest bit) │ word 1: rows 64..128 │ …  bits past the last row are 0
//! ```
//!
//! A condition *narrows* a mask: it takes out the rows for which it does not hold. Words that have no row left cost
//! nothing, and a conjunction needs no mask of its own.

use arrow_array::BooleanArray;
use arrow_buffer::{BooleanBuffer, Buffer};

/// Rows of a word.
const WORD: usize = u64::BITS as usize;

/// A set of rows of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mask {
    words: Vec<u64>,
    rows: usize,
}

impl Mask {
    pub fn all(rows: usize) -> Self {
        let mut mask = Self { words: vec![u64::MAX; rows.div_ceil(WORD)], rows };
        if let (Some(last), rest @ 1..) = (mask.words.last_mut(), rows % WORD) {
            *last = (1 << rest) - 1;
        }
        mask
    }

    pub fn none(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(WORD)], rows }
    }

    /// The rows whose bit is set.
    #[cfg(test)]
    pub fn of(bits: &BooleanBuffer) -> Self {
        let mut mask = Self::all(bits.len());
        mask.intersect_bits(bits);
        mask
    }

    /// Rows the set is taken from.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    pub fn insert(&mut self, row: usize) {
        self.words[row / WORD] |= 1 << (row % WORD);
    }

    pub fn intersect(&mut self, other: &Self) {
        self.combine(other, |word, other| word & other);
    }

    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, |word, other| word & !other);
    }

    pub fn unite(&mut self, other: &Self) {
        self.combine(other, |word, other| word | other);
    }

    fn combine(&mut self, other: &Self, combine: impl Fn(u64, u64) -> u64) {
        debug_assert_eq!(self.rows, other.rows);
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word = combine(*word, *other);
        }
    }

    /// Keeps the rows whose bit is set.
    pub fn intersect_bits(&mut self, bits: &BooleanBuffer) {
        debug_assert_eq!(self.rows, bits.len());
        for (word, bits) in self.words.iter_mut().zip(bits.bit_chunks().iter_padded()) {
            *word &= bits;
        }
    }

    /// Keeps the rows whose bit is not set.
    pub fn subtract_bits(&mut self, bits: &BooleanBuffer) {
        debug_assert_eq!(self.rows, bits.len());
        for (word, bits) in self.words.iter_mut().zip(bits.bit_chunks().iter_padded()) {
            *word &= !bits;
        }
    }

    /// Keeps the rows whose value passes: a test of a few instructions, made for whole words at a time.
    pub fn narrow<T: Copy>(&mut self, values: &[T], test: impl Fn(T) -> bool) {
        debug_assert_eq!(self.rows, values.len());
        let (chunks, rest) = values.as_chunks::<WORD>();
        for (word, chunk) in self.words.iter_mut().zip(chunks) {
            if *word != 0 {
                *word &= bits_of(chunk, &test);
            }
        }
        if let (Some(word), false) = (self.words.last_mut(), rest.is_empty()) {
            *word &= rest.iter().enumerate().fold(0, |bits, (at, value)| bits | u64::from(test(*value)) << at);
        }
    }

    /// Keeps the rows whose pair of values passes.
    pub fn narrow_pairs<A: Copy, B: Copy>(&mut self, left: &[A], right: &[B], test: impl Fn(A, B) -> bool) {
        debug_assert!(self.rows == left.len() && self.rows == right.len());
        let ((lefts, left), (rights, right)) = (left.as_chunks::<WORD>(), right.as_chunks::<WORD>());
        for (word, (left, right)) in self.words.iter_mut().zip(lefts.iter().zip(rights)) {
            if *word != 0 {
                *word &= bits_of_pairs(left, right, &test);
            }
        }
        if let (Some(word), false) = (self.words.last_mut(), left.is_empty()) {
            let pairs = left.iter().zip(right).enumerate();
            *word &= pairs.fold(0, |bits, (at, (left, right))| bits | u64::from(test(*left, *right)) << at);
        }
    }

    /// Keeps the rows that pass: a test worth skipping for rows that are not in the set.
    pub fn narrow_rows(&mut self, mut test: impl FnMut(usize) -> bool) {
        for (index, word) in self.words.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest & rest.wrapping_neg();
                if !test(index * WORD + rest.trailing_zeros() as usize) {
                    *word ^= bit;
                }
                rest ^= bit;
            }
        }
    }

    /// Of the rows of the set, keeps the first if the first row of `kept` is in it, and so on: `kept` is a mask of the
    /// batch that this set was compacted to.
    pub fn narrow_compacted(&mut self, kept: &Self) {
        let mut next = 0;
        self.narrow_rows(|_| {
            let bit = kept.words.get(next / WORD).is_some_and(|word| word >> (next % WORD) & 1 == 1);
            next += 1;
            bit
        });
    }

    /// Calls `each` with every row of the set, ascending.
    pub fn for_each(&self, mut each: impl FnMut(usize)) {
        for (index, word) in self.words.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                each(index * WORD + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }

    /// Puts `value` at the rows of the set.
    pub fn fill<T: Copy>(&self, target: &mut [T], value: T) {
        debug_assert_eq!(self.rows, target.len());
        for (word, target) in self.words.iter().zip(target.chunks_mut(WORD)) {
            match *word {
                0 => {}
                u64::MAX => target.fill(value),
                word => target.iter_mut().enumerate().for_each(|(at, target)| {
                    *target = if word >> at & 1 == 1 { value } else { *target };
                }),
            }
        }
    }

    /// Copies the values at the rows of the set.
    pub fn copy<T: Copy>(&self, target: &mut [T], source: &[T]) {
        debug_assert!(self.rows == target.len() && self.rows == source.len());
        for (word, (target, source)) in self.words.iter().zip(target.chunks_mut(WORD).zip(source.chunks(WORD))) {
            match *word {
                0 => {}
                u64::MAX => target.copy_from_slice(source),
                word => target.iter_mut().zip(source).enumerate().for_each(|(at, (target, source))| {
                    *target = if word >> at & 1 == 1 { *source } else { *target };
                }),
            }
        }
    }

    pub fn into_bits(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.rows)
    }

    pub fn into_array(self) -> BooleanArray {
        BooleanArray::new(self.into_bits(), None)
    }
}

/// A bit for each value that passes. The compiler makes whole vectors of it: of the ways to write it (bytes packed by a
/// product, eighths and halves of words) this is the fastest, at some 15 rows a nanosecond.
#[inline(always)]
fn bits_of<T: Copy>(values: &[T; WORD], test: impl Fn(T) -> bool) -> u64 {
    let mut bits = 0;
    for (at, value) in values.iter().enumerate() {
        bits |= u64::from(test(*value)) << at;
    }
    bits
}

#[inline(always)]
fn bits_of_pairs<A: Copy, B: Copy>(left: &[A; WORD], right: &[B; WORD], test: impl Fn(A, B) -> bool) -> u64 {
    let mut bits = 0;
    for (at, (left, right)) in left.iter().zip(right).enumerate() {
        bits |= u64::from(test(*left, *right)) << at;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows_of(mask: &Mask) -> Vec<usize> {
        let mut rows = Vec::new();
        mask.for_each(|row| rows.push(row));
        rows
    }

    proptest! {
        #[test]
        fn masks_are_sets(
            values in prop::collection::vec((any::<i32>(), any::<bool>(), any::<bool>()), 0..300),
            start in 0usize..70,
        ) {
            let rows = values.len();
            let numbers: Vec<i32> = values.iter().map(|v| v.0).collect();
            let expected = |test: &dyn Fn(usize) -> bool| (0..rows).filter(|row| test(*row)).collect::<Vec<_>>();
            let mut mask = Mask::all(rows);
            prop_assert_eq!(mask.count(), rows);
            mask.narrow(&numbers, |v| v > 0);
            prop_assert_eq!(rows_of(&mask), expected(&|row| numbers[row] > 0));
            let bits: BooleanBuffer = (0..start).map(|_| true).chain(values.iter().map(|v| v.1)).collect();
            let bits = bits.slice(start, rows);
            let mut both = mask.clone();
            both.intersect_bits(&bits);
            prop_assert_eq!(rows_of(&both), expected(&|row| numbers[row] > 0 && values[row].1));
            let mut without = mask.clone();
            without.subtract_bits(&bits);
            prop_assert_eq!(rows_of(&without), expected(&|row| numbers[row] > 0 && !values[row].1));
            without.unite(&Mask::of(&bits));
            prop_assert_eq!(rows_of(&without), expected(&|row| numbers[row] > 0 || values[row].1));
            let inner: Vec<bool> = rows_of(&mask).iter().map(|row| values[*row].2).collect();
            let mut outer = mask.clone();
            outer.narrow_compacted(&Mask::of(&inner.into_iter().collect()));
            prop_assert_eq!(rows_of(&outer), expected(&|row| numbers[row] > 0 && values[row].2));
            mask.narrow_pairs(&numbers, &values, |number, value| value.2 && number == value.0);
            prop_assert_eq!(&outer, &mask);
            prop_assert_eq!(mask.count(), mask.clone().into_array().true_count());
        }
    }
}
