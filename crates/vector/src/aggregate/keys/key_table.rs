//! From a 64-bit key to the number of its group.

use std::hint;

use super::hash;

/// Smaller tables stay in the second-level cache.
pub(crate) const TOUCH_BYTES: usize = 1 << 18;

/// Lookups that wait for memory together.
pub(crate) const TOUCH_ROWS: usize = 256;

/// An open-addressing table that holds the keys themselves, so that a lookup touches one cache line.
///
/// ```text
///  buckets  ┌ key, group + 1 │ 0, 0 │ key, group + 1 │ …   a power of two of them, at most half of them taken
/// ```
#[derive(Default)]
pub(crate) struct KeyTable {
    buckets: Vec<[u64; 2]>,
    taken: usize,
}

const MIN_BUCKETS: usize = 1024;

impl KeyTable {
    pub(crate) fn with_capacity(keys: usize) -> Self {
        // Zeroed pages come from the system: buckets that are never touched cost nothing.
        Self { buckets: vec![[0; 2]; (keys * 2).next_power_of_two().max(MIN_BUCKETS)], taken: 0 }
    }

    /// The group of `key`; if it has none yet, it gets `next`.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, key: u64, next: u32) -> u32 {
        let mask = self.buckets.len().wrapping_sub(1);
        let mut bucket = hash::of_key(key) as usize;
        loop {
            bucket &= mask;
            match self.buckets[bucket] {
                [_, 0] => {
                    self.buckets[bucket] = [key, u64::from(next) + 1];
                    self.taken += 1;
                    return next;
                }
                [found, group] if found == key => return (group - 1) as u32,
                _ => bucket += 1,
            }
        }
    }

    /// Brings the buckets of these keys into the processor's cache, all at once: one by one, each lookup would wait for
    /// its own.
    pub(crate) fn touch(&self, keys: &[u64]) {
        if self.memory_bytes() >= TOUCH_BYTES {
            let mask = self.buckets.len() - 1;
            hint::black_box(keys.iter().fold(0, |all, key| all ^ self.buckets[hash::of_key(*key) as usize & mask][0]));
        }
    }

    pub(crate) fn has_room(&self, more: usize) -> bool {
        (self.taken + more) * 2 <= self.buckets.len()
    }

    /// Makes room for `more` keys: lookups do not check for it.
    pub(crate) fn reserve(&mut self, more: usize) {
        if self.has_room(more) {
            return;
        }
        let grown = Self::with_capacity((self.taken + more).max(self.taken * 2));
        let old = std::mem::replace(self, grown);
        for [key, group] in old.buckets {
            if group != 0 {
                self.find_or_insert(key, (group - 1) as u32);
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.len() * size_of::<[u64; 2]>()
    }
}
