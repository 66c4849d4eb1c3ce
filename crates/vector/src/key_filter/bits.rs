//! Answers for many values as bits.

use arrow_buffer::{BooleanBuffer, Buffer};

const WORD: usize = u64::BITS as usize;

/// A bit for each value.
#[inline]
pub(super) fn of_each<T: Copy>(values: &[T], passes: impl Fn(T) -> bool) -> BooleanBuffer {
    let word = |values: &[T]| -> u64 {
        values.iter().enumerate().fold(0, |word, (bit, value)| word | u64::from(passes(*value)) << bit)
    };
    let words: Vec<u64> = values.chunks(WORD).map(word).collect();
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}
