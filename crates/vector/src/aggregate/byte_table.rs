//! Byte strings, each once, numbered in the order in which they came.

use std::hint;

use super::key_table::TOUCH_BYTES;

/// ```text
///  slots   ┌ hash:32 │ number + 1:32 │ …   open addressing, at most half of them taken
///  hashes  ┌ hash of string 0 │ 1 │ …
///  ends    ┌ end of string 0 │ 1 │ …
///  bytes   ┌ string 0 │ string 1 │ …
/// ```
#[derive(Default)]
pub(super) struct ByteTable {
    slots: Vec<[u64; 2]>,
    hashes: Vec<u32>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

const MIN_SLOTS: usize = 64;

impl ByteTable {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, number: usize) -> &[u8] {
        &self.bytes[self.start(number)..self.ends[number]]
    }

    /// Where string `number` begins among [`Self::bytes`].
    pub(super) fn start(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The hashes that the strings came with.
    pub(super) fn hashes(&self) -> &[u32] {
        &self.hashes
    }

    /// The number of `string`, whose hash is `hash`; a new one if it is new.
    #[inline]
    pub(super) fn find_or_insert(&mut self, hash: u32, string: &[u8]) -> u32 {
        if (self.len() + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut slot = self.first_slot(hash);
        loop {
            let [content, start] = self.slots[slot & mask];
            if content == 0 {
                return self.insert(slot & mask, hash, string);
            }
            let number = content as u32 - 1;
            // Where to look is in the slot: the bytes need not wait for `ends`.
            if (content >> 32) as u32 == hash {
                let (start, end) = (start as usize, start as usize + string.len());
                if self.bytes.get(start..end) == Some(string) && self.ends[number as usize] == end {
                    return number;
                }
            }
            slot += 1;
        }
    }

    /// Brings what lookups of strings with these hashes will read into the processor's cache, all at once: one by one, each
    /// lookup would wait for its own.
    pub(super) fn touch(&self, hashes: &[u32]) {
        if self.memory_bytes() < TOUCH_BYTES {
            return;
        }
        let mask = self.slots.len() - 1;
        let slots = || hashes.iter().map(|hash| self.slots[self.first_slot(*hash) & mask]);
        hint::black_box(slots().fold(0, |all, [content, _]| all ^ content));
        let strings = slots().map(|[content, start]| {
            let number = (content as u32).wrapping_sub(1) as usize;
            let byte = self.bytes.get(start as usize).copied().unwrap_or(0);
            self.ends.get(number).copied().unwrap_or(0) ^ usize::from(byte)
        });
        hint::black_box(strings.fold(0, |all, string| all ^ string));
    }

    /// The upper bits of the hash: parts are made of the lower ones, and would fill one stretch of the table only.
    #[inline]
    fn first_slot(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    fn insert(&mut self, slot: usize, hash: u32, string: &[u8]) -> u32 {
        let number = self.len() as u32;
        self.slots[slot] = [u64::from(hash) << 32 | u64::from(number + 1), self.bytes.len() as u64];
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
        number
    }

    fn grow(&mut self) {
        self.slots = vec![[0; 2]; (self.slots.len() * 4).max(MIN_SLOTS)];
        let mask = self.slots.len() - 1;
        for (number, hash) in self.hashes.iter().enumerate() {
            let mut slot = self.first_slot(*hash);
            while self.slots[slot & mask] != [0; 2] {
                slot += 1;
            }
            self.slots[slot & mask] = [u64::from(*hash) << 32 | (number as u64 + 1), self.start(number) as u64];
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(self.slots.as_slice())
            + self.hashes.capacity() * size_of::<u32>()
            + self.ends.capacity() * size_of::<usize>()
            + self.bytes.capacity()
    }
}
