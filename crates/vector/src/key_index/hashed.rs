//! An index of keys that lie far apart: open addressing with linear probing.
//!
//! ```text
//!   home = hash · buckets >> 32            a bucket: key │ position
//!   ├── share ──┼── share ──┼── … ──┤    probing wraps round within a share
//! ```
//!
//! Each thread builds one share of the buckets, so that none waits for another. There are at least twice as many
//! buckets as rows, and a share that hashes crowd into all the same makes the index one share. Lookups go in rounds:
//! the home buckets of all rows of a chunk, without a branch, then the next buckets of those whose home was taken by
//! another key, until none is left.

use super::keys::{BuildWords, CHUNK_ROWS};
use super::packing::NO_KEY;
use super::parallel;
use super::positions::{Grouping, Groups, NOWHERE};
use crate::Result;

/// Buckets for each row.
const BUCKETS_PER_ROW: usize = 2;

/// How the words of keys become hashes and what buckets hold of them.
pub(crate) trait Hashing: Sync {
    /// What a bucket holds of a word.
    type Key: Copy + Eq + Default + Send + Sync;

    /// 32 bits, each depending on all of the word.
    fn hash(word: u64) -> u32;

    fn key(word: u64) -> Self::Key;
}

/// Words that are keys, in eight bytes.
#[derive(Debug)]
pub(crate) struct LongWords;

/// Words that are keys, less than `u32::MAX`: four bytes do.
#[derive(Debug)]
pub(crate) struct ShortWords;

/// Words that are hashes of keys.
#[derive(Debug)]
pub(crate) struct Hashes;

/// Both halves of a product by an odd number with bits of no pattern (the fractional part of the golden ratio).
#[inline(always)]
fn mix(word: u64) -> u32 {
    let product = u128::from(word ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
    (((product >> 64) as u64 ^ product as u64) >> 32) as u32
}

impl Hashing for LongWords {
    type Key = u64;

    #[inline(always)]
    fn hash(word: u64) -> u32 {
        mix(word)
    }

    #[inline(always)]
    fn key(word: u64) -> u64 {
        word
    }
}

impl Hashing for ShortWords {
    type Key = u32;

    #[inline(always)]
    fn hash(word: u64) -> u32 {
        mix(word)
    }

    #[inline(always)]
    fn key(word: u64) -> u32 {
        word as u32
    }
}

impl Hashing for Hashes {
    type Key = u32;

    #[inline(always)]
    fn hash(word: u64) -> u32 {
        (word >> 32) as u32
    }

    #[inline(always)]
    fn key(word: u64) -> u32 {
        word as u32
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket<K> {
    key: K,
    position: u32,
}

#[derive(Debug)]
pub(crate) struct Hashed<H: Hashing> {
    buckets: Vec<Bucket<H::Key>>,
    /// Buckets of a share.
    share: usize,
}

/// How a share came out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unique,
    Duplicates,
    Crowded,
}

impl<H: Hashing> Hashed<H> {
    /// Of the words of rows; `same` tells whether two rows whose words are alike have the same key. Groups if a key
    /// occurs twice.
    pub fn build(
        words: &impl BuildWords,
        same: impl Fn(u32, u32) -> bool + Sync + Copy,
        threads: usize,
    ) -> Result<(Self, Option<Groups>)> {
        let mut shares = parallel::shares(words.rows(), threads);
        loop {
            let share = (words.rows() * BUCKETS_PER_ROW).div_ceil(shares) + 1;
            let empty = Bucket { key: H::Key::default(), position: NOWHERE };
            let mut index = Self { buckets: vec![empty; share * shares], share };
            let total = index.buckets.len();
            let outcomes = parallel::run(
                index.each_share(|from, buckets| Share::<H> { buckets, from, total }.put_unique(words, same)),
            )?;
            if outcomes.iter().all(|outcome| *outcome == Outcome::Unique) {
                return Ok((index, None));
            }
            if !outcomes.contains(&Outcome::Crowded) {
                index.buckets.fill(empty);
                if let Some(groups) = index.group(words, same)? {
                    return Ok((index, Some(groups)));
                }
            }
            // One share has more buckets than there are rows.
            shares = 1;
        }
    }

    /// Fills empty buckets with the keys of rows and groups these; `None`: a share is crowded.
    fn group(
        &mut self,
        words: &impl BuildWords,
        same: impl Fn(u32, u32) -> bool + Sync + Copy,
    ) -> Result<Option<Groups>> {
        let total = self.buckets.len();
        let entries =
            parallel::run(self.each_share(|from, buckets| Share::<H> { buckets, from, total }.put_all(words, same)))?;
        let Some(entries) = entries.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut rows = vec![0; entries.iter().map(Vec::len).sum()];
        let (mut rest, mut start, mut tasks) = (rows.as_mut_slice(), 0, Vec::new());
        for (buckets, entries) in self.buckets.chunks_mut(self.share).zip(entries) {
            let (part, after) = rest.split_at_mut(entries.len());
            (rest, start) = (after, start + entries.len());
            let from = start - entries.len();
            tasks.push(move || {
                group_share(buckets, &entries, from as u32, part);
                Ok(())
            });
        }
        parallel::run(tasks)?;
        Ok(Some(Groups::from(rows)))
    }

    /// A task for each share, given its first bucket and its buckets.
    fn each_share<'a, T: Send>(
        &'a mut self,
        task: impl Fn(usize, &mut [Bucket<H::Key>]) -> Result<T> + Copy + Send + 'a,
    ) -> Vec<impl FnOnce() -> Result<T> + Send + 'a> {
        let share = self.share;
        let shares = self.buckets.chunks_mut(share).enumerate();
        shares.map(|(number, buckets)| move || task(number * share, buckets)).collect()
    }

    /// The positions of at most [`CHUNK_ROWS`] words; `same` tells whether row `n` of them has the key at a position.
    #[inline]
    pub fn find(&self, words: &[u64], same: impl Fn(usize, u32) -> bool, positions: &mut [u32]) {
        let (mut pending, mut buckets) = ([0_u16; CHUNK_ROWS], [0_u32; CHUNK_ROWS]);
        let mut left = 0;
        for (row, (word, position)) in words.iter().zip(positions.iter_mut()).enumerate() {
            let at = home(H::hash(*word), self.buckets.len());
            let bucket = &self.buckets[at];
            let found = (bucket.position != NOWHERE) & (bucket.key == H::key(*word)) && same(row, bucket.position);
            *position = if found { bucket.position } else { NOWHERE };
            (pending[left], buckets[left]) = (row as u16, at as u32);
            left += usize::from(!found & (bucket.position != NOWHERE) & (*word != NO_KEY));
        }
        while left > 0 {
            let round = left;
            left = 0;
            for entry in 0..round {
                let (row, at) = (pending[entry] as usize, next(buckets[entry] as usize, self.share));
                let bucket = &self.buckets[at];
                let found =
                    (bucket.position != NOWHERE) & (bucket.key == H::key(words[row])) && same(row, bucket.position);
                positions[row] = if found { bucket.position } else { NOWHERE };
                (pending[left], buckets[left]) = (row as u16, at as u32);
                left += usize::from(!found & (bucket.position != NOWHERE));
            }
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket<H::Key>>()
    }
}

/// The bucket where a key with this hash is looked for first.
#[inline(always)]
fn home(hash: u32, buckets: usize) -> usize {
    ((u64::from(hash) * buckets as u64) >> 32) as usize
}

/// The bucket after `at` in its share.
#[inline(always)]
fn next(at: usize, share: usize) -> usize {
    if (at + 1).is_multiple_of(share) { at + 1 - share } else { at + 1 }
}

/// A share being filled.
struct Share<'a, H: Hashing> {
    buckets: &'a mut [Bucket<H::Key>],
    /// Its first bucket among all.
    from: usize,
    /// Buckets of all shares.
    total: usize,
}

impl<H: Hashing> Share<'_, H> {
    /// The bucket that has the key, or an empty one; `None`: there is neither.
    #[inline]
    fn bucket_of(&self, home: usize, key: H::Key, same: impl Fn(u32) -> bool) -> Option<usize> {
        let found =
            |bucket: &Bucket<H::Key>| bucket.position == NOWHERE || (bucket.key == key && same(bucket.position));
        let (before, after) = self.buckets.split_at(home);
        let bucket = after.iter().position(found).map(|bucket| home + bucket);
        bucket.or_else(|| before.iter().position(found))
    }

    /// Where a word's probing starts, if it starts here.
    #[inline]
    fn home_of(&self, word: u64) -> Option<usize> {
        let home = home(H::hash(word), self.total).wrapping_sub(self.from);
        (home < self.buckets.len() && word != NO_KEY).then_some(home)
    }

    /// Puts the rows whose homes are here, until a key occurs twice.
    fn put_unique(&mut self, words: &impl BuildWords, same: impl Fn(u32, u32) -> bool) -> Result<Outcome> {
        let mut outcome = Outcome::Unique;
        words.forward(|first, words| {
            for (row, word) in (first..).zip(words) {
                let Some(home) = self.home_of(*word) else { continue };
                let key = H::key(*word);
                match self.bucket_of(home, key, |other| same(row, other)) {
                    None => outcome = Outcome::Crowded,
                    Some(bucket) if self.buckets[bucket].position != NOWHERE => outcome = Outcome::Duplicates,
                    Some(bucket) => self.buckets[bucket] = Bucket { key, position: row },
                }
            }
            outcome == Outcome::Unique
        })?;
        Ok(outcome)
    }

    /// Puts the keys of the rows whose homes are here, each with its first row, and lists the bucket of every row.
    /// `None`: crowded.
    fn put_all(&mut self, words: &impl BuildWords, same: impl Fn(u32, u32) -> bool) -> Result<Option<Vec<(u32, u32)>>> {
        let mut entries = Some(Vec::new());
        words.forward(|first, words| {
            for (row, word) in (first..).zip(words) {
                let Some(home) = self.home_of(*word) else { continue };
                let key = H::key(*word);
                let Some(bucket) = self.bucket_of(home, key, |other| same(row, other)) else {
                    entries = None;
                    return false;
                };
                if self.buckets[bucket].position == NOWHERE {
                    self.buckets[bucket] = Bucket { key, position: row };
                }
                if let Some(entries) = &mut entries {
                    entries.push((bucket as u32, row));
                }
            }
            true
        })?;
        Ok(entries)
    }
}

/// Groups rows by their buckets, and has buckets point to the groups.
fn group_share<K>(buckets: &mut [Bucket<K>], entries: &[(u32, u32)], start: u32, rows: &mut [u32]) {
    let mut positions = vec![NOWHERE; buckets.len()];
    for (bucket, _) in entries {
        Grouping::count(&mut positions[*bucket as usize]);
    }
    let mut grouping = Grouping::close(start, rows, positions.iter_mut());
    for (bucket, row) in entries.iter().rev() {
        grouping.place(&mut positions[*bucket as usize], *row);
    }
    for (bucket, position) in buckets.iter_mut().zip(positions) {
        bucket.position = position;
    }
}
