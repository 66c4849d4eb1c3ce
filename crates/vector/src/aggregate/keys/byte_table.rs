//! Byte strings, each once, numbered in the order in which they came.

use std::hint;

use super::key_table::TOUCH_BYTES;

/// ```text
///  buckets ┌ hash:32 │ number + 1:32 │ …   open addressing, at most half of them taken
///  hashes  ┌ hash of string 0 │ 1 │ …
///  ends    ┌ end of string 0 │ 1 │ …
///  bytes   ┌ string 0 │ string 1 │ …
/// ```
#[derive(Default)]
pub(crate) struct ByteTable {
    buckets: Vec<[u64; 2]>,
    hashes: Vec<u32>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

const MIN_BUCKETS: usize = 64;

impl ByteTable {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: usize) -> &[u8] {
        &self.bytes[self.start(number)..self.ends[number]]
    }

    /// Where string `number` begins among [`Self::bytes`].
    pub(crate) fn start(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The hashes that the strings came with.
    pub(crate) fn hashes(&self) -> &[u32] {
        &self.hashes
    }

    /// The number of `string`, whose hash is `hash`; a new one if it is new.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: u32, string: &[u8]) -> u32 {
        if (self.len() + 1) * 2 > self.buckets.len() {
            self.grow();
        }
        let mask = self.buckets.len() - 1;
        let mut bucket = self.first_bucket(hash);
        loop {
            let [content, start] = self.buckets[bucket & mask];
            if content == 0 {
                return self.insert(bucket & mask, hash, string);
            }
            let number = content as u32 - 1;
            // Where to look is in the bucket: the bytes need not wait for `ends`.
            if (content >> 32) as u32 == hash {
                let (start, end) = (start as usize, start as usize + string.len());
                if self.bytes.get(start..end) == Some(string) && self.ends[number as usize] == end {
                    return number;
                }
            }
            bucket += 1;
        }
    }

    /// Brings what lookups of strings with these hashes will read into the processor's cache, all at once: one by one,
    /// each lookup would wait for its own.
    pub(crate) fn touch(&self, hashes: &[u32]) {
        if self.memory_bytes() < TOUCH_BYTES {
            return;
        }
        let mask = self.buckets.len() - 1;
        let buckets = || hashes.iter().map(|hash| self.buckets[self.first_bucket(*hash) & mask]);
        hint::black_box(buckets().fold(0, |all, [content, _]| all ^ content));
        let strings = buckets().map(|[content, start]| {
            let number = (content as u32).wrapping_sub(1) as usize;
            let byte = self.bytes.get(start as usize).copied().unwrap_or(0);
            self.ends.get(number).copied().unwrap_or(0) ^ usize::from(byte)
        });
        hint::black_box(strings.fold(0, |all, string| all ^ string));
    }

    /// The upper bits of the hash: parts are made of the lower ones, and would fill one stretch of the table only.
    #[inline]
    fn first_bucket(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize
    }

    fn insert(&mut self, bucket: usize, hash: u32, string: &[u8]) -> u32 {
        let number = self.len() as u32;
        self.buckets[bucket] = [u64::from(hash) << 32 | u64::from(number + 1), self.bytes.len() as u64];
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
        number
    }

    fn grow(&mut self) {
        self.buckets = vec![[0; 2]; (self.buckets.len() * 4).max(MIN_BUCKETS)];
        let mask = self.buckets.len() - 1;
        for (number, hash) in self.hashes.iter().enumerate() {
            let mut bucket = self.first_bucket(*hash);
            while self.buckets[bucket & mask] != [0; 2] {
                bucket += 1;
            }
            self.buckets[bucket & mask] = [u64::from(*hash) << 32 | (number as u64 + 1), self.start(number) as u64];
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(self.buckets.as_slice())
            + self.hashes.capacity() * size_of::<u32>()
            + self.ends.capacity() * size_of::<usize>()
            + self.bytes.capacity()
    }
}
