//! An index of keys that lie close together: a position for each word there may be.
//!
//! The keys of most tables are numbers without large gaps, and so are those of the rows that a filter left. For them a
//! lookup is one load, and nothing is hashed or compared.

use super::keys::BuildWords;
use super::parallel;
use super::positions::{Grouping, Groups, NOWHERE};
use crate::Result;

/// Words for each build row up to which this index is used: with more, fewer bytes are touched by hashing.
const SPARSITY: u64 = 8;

/// Words up to which it is used however few rows there are: 1 MiB of positions lie in a second-level cache.
const SMALL: u64 = 256 << 10;

#[derive(Debug)]
pub(crate) struct Direct {
    /// By word; the last is for all words that are too great, and nowhere.
    positions: Vec<u32>,
}

impl Direct {
    /// Whether words less than `range` are dense enough for `rows` rows.
    pub fn suits(range: u64, rows: usize) -> bool {
        range <= SMALL.max(rows as u64 * SPARSITY)
    }

    /// Of words less than `range`, or [`NO_KEY`](super::packing::NO_KEY); groups if a word occurs twice.
    pub fn build(words: &impl BuildWords, range: u64, threads: usize) -> Result<(Self, Option<Groups>)> {
        let range = range as usize;
        let shares = parallel::shares(words.rows(), threads);
        let share = range.div_ceil(shares).max(1);
        let mut positions = vec![NOWHERE; range + 1];
        let unique = parallel::run(each_share(&mut positions[..range], share, |from, positions| {
            put_unique(words, from, positions)
        }))?;
        if unique.into_iter().all(|unique| unique) {
            return Ok((Self { positions }, None));
        }
        positions.fill(NOWHERE);
        let counts =
            parallel::run(each_share(&mut positions[..range], share, |from, positions| count(words, from, positions)))?;
        let mut rows = vec![0; counts.iter().sum()];
        let (mut rest, mut start, mut tasks) = (rows.as_mut_slice(), 0, Vec::new());
        for ((number, positions), count) in positions[..range].chunks_mut(share).enumerate().zip(counts) {
            let (part, after) = rest.split_at_mut(count);
            let from = start;
            tasks.push(move || place(words, (number * share) as u64, positions, from as u32, part));
            (rest, start) = (after, start + count);
        }
        parallel::run(tasks)?;
        Ok((Self { positions }, Some(Groups::from(rows))))
    }

    /// The positions of words.
    #[inline]
    pub fn find(&self, words: &[u64], positions: &mut [u32]) {
        let last = self.positions.len() as u64 - 1;
        for (word, position) in words.iter().zip(positions) {
            *position = self.positions[(*word).min(last) as usize];
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.positions.capacity() * size_of::<u32>()
    }
}

/// A task for each share of the words, given the least of them and their positions.
fn each_share<'a, T: Send>(
    positions: &'a mut [u32],
    share: usize,
    task: impl Fn(u64, &mut [u32]) -> Result<T> + Copy + Send + 'a,
) -> Vec<impl FnOnce() -> Result<T> + Send + 'a> {
    let shares = positions.chunks_mut(share).enumerate();
    shares.map(|(number, positions)| move || task((number * share) as u64, positions)).collect()
}

/// Puts rows at their words; `false`: one occurs twice.
fn put_unique(words: &impl BuildWords, from: u64, positions: &mut [u32]) -> Result<bool> {
    let mut unique = true;
    words.forward(|first, words| {
        for (row, word) in (first..).zip(words) {
            if let Some(position) = positions.get_mut(word.wrapping_sub(from) as usize) {
                unique &= *position == NOWHERE;
                *position = row;
            }
        }
        unique
    })?;
    Ok(unique)
}

/// Counts the rows of each word, and says how many there are in all.
fn count(words: &impl BuildWords, from: u64, positions: &mut [u32]) -> Result<usize> {
    let mut rows = 0;
    words.forward(|_, words| {
        for word in words {
            if let Some(position) = positions.get_mut(word.wrapping_sub(from) as usize) {
                Grouping::count(position);
                rows += 1;
            }
        }
        true
    })?;
    Ok(rows)
}

fn place(words: &impl BuildWords, from: u64, positions: &mut [u32], start: u32, rows: &mut [u32]) -> Result<()> {
    let mut grouping = Grouping::close(start, rows, positions.iter_mut());
    words.backward(|first, words| {
        for (row, word) in words.iter().enumerate().rev() {
            if let Some(position) = positions.get_mut(word.wrapping_sub(from) as usize) {
                grouping.place(position, first + row as u32);
            }
        }
        true
    })
}
