//! Merging sorted runs from scratch space.
//!
//! A heap of runs, the one with the smallest key on top. As long as the top run stays
//! smallest (always, for runs that do not overlap), a step is one comparison.

use std::cmp::Ordering;
use std::ops::Range;

use saki_volume::{ScratchReader, ScratchRun, ScratchSpace, VolumeError};

use crate::Pair;

/// The first eight bytes of a key as a number; shorter keys are filled up with zeros.
#[inline]
pub(super) fn key_prefix(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// Where a run's current pair is.
struct Cursor {
    prefix: u64,
    /// Next byte to read in the run's current block.
    position: usize,
    /// The pair lies in the current block; otherwise in `pieces`, put together from several.
    in_block: bool,
    key: Range<usize>,
    value: Range<usize>,
    pieces: Vec<u8>,
}

pub(crate) struct Merge {
    reader: ScratchReader,
    cursors: Vec<Cursor>,
    /// Runs with a pair left, as a binary heap.
    heap: Vec<usize>,
    /// Whether the top's pair has been given out.
    taken: bool,
}

impl Merge {
    pub fn new(scratch: &ScratchSpace, runs: Vec<ScratchRun>) -> Result<Self, VolumeError> {
        let reader = scratch.reader(runs)?;
        let cursor = |_| Cursor { prefix: 0, position: 0, in_block: true, key: 0..0, value: 0..0, pieces: Vec::new() };
        let cursors = (0..reader.runs()).map(cursor).collect();
        let mut merge = Self { reader, cursors, heap: Vec::new(), taken: false };
        for run in 0..merge.cursors.len() {
            if merge.step(run)? {
                merge.heap.push(run);
            }
        }
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(at);
        }
        Ok(merge)
    }

    /// The next pair, borrowed until the next call.
    pub fn next(&mut self) -> Result<Option<Pair<'_>>, VolumeError> {
        if self.taken {
            self.taken = false;
            assert!(!self.heap.is_empty(), "a pair was given out of no run");
            let top = self.heap[0];
            if !self.step(top)? {
                self.heap.swap_remove(0);
            }
            self.sift_down(0);
        }
        let Some(top) = self.heap.first() else { return Ok(None) };
        self.taken = true;
        let cursor = &self.cursors[*top];
        let bytes = if cursor.in_block { self.reader.block(*top) } else { &cursor.pieces };
        Ok(Some((&bytes[cursor.key.clone()], &bytes[cursor.value.clone()])))
    }

    fn key(&self, run: usize) -> &[u8] {
        let cursor = &self.cursors[run];
        let bytes = if cursor.in_block { self.reader.block(run) } else { &cursor.pieces };
        &bytes[cursor.key.clone()]
    }

    /// By key, then by age: runs are numbered in the order in which they were spilled.
    fn order(&self, a: usize, b: usize) -> Ordering {
        let by_prefix = self.cursors[a].prefix.cmp(&self.cursors[b].prefix);
        by_prefix.then_with(|| self.key(a).cmp(self.key(b))).then_with(|| a.cmp(&b))
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut least = 2 * at + 1;
            if least >= self.heap.len() {
                return;
            }
            if least + 1 < self.heap.len() && self.order(self.heap[least + 1], self.heap[least]).is_lt() {
                least += 1;
            }
            if self.order(self.heap[at], self.heap[least]).is_lt() {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    /// Makes a run's next pair its current one; `false` at its end.
    fn step(&mut self, run: usize) -> Result<bool, VolumeError> {
        while self.cursors[run].position == self.reader.block(run).len() {
            self.cursors[run].position = 0;
            if !self.reader.advance(run)? {
                return Ok(false);
            }
        }
        let key_bytes = self.length(run)?;
        let value_bytes = self.length(run)?;
        let cursor = &mut self.cursors[run];
        let block = self.reader.block(run);
        cursor.in_block = block.len() - cursor.position >= key_bytes + value_bytes;
        if cursor.in_block {
            cursor.key = cursor.position..cursor.position + key_bytes;
            cursor.value = cursor.key.end..cursor.key.end + value_bytes;
            cursor.position = cursor.value.end;
        } else {
            cursor.key = 0..key_bytes;
            cursor.value = key_bytes..key_bytes + value_bytes;
            self.gather(run, key_bytes + value_bytes)?;
        }
        self.cursors[run].prefix = key_prefix(self.key(run));
        Ok(true)
    }

    /// Puts a pair together that crosses a block's end.
    fn gather(&mut self, run: usize, bytes: usize) -> Result<(), VolumeError> {
        self.cursors[run].pieces.clear();
        while self.cursors[run].pieces.len() < bytes {
            let rest = bytes - self.cursors[run].pieces.len();
            let cursor = &mut self.cursors[run];
            let block = &self.reader.block(run)[cursor.position..];
            let count = rest.min(block.len());
            cursor.pieces.extend_from_slice(&block[..count]);
            cursor.position += count;
            if count < rest {
                self.next_block(run)?;
            }
        }
        Ok(())
    }

    fn length(&mut self, run: usize) -> Result<usize, VolumeError> {
        let mut length = 0;
        for shift in (0..35).step_by(7) {
            while self.cursors[run].position == self.reader.block(run).len() {
                self.next_block(run)?;
            }
            let byte = self.reader.block(run)[self.cursors[run].position];
            self.cursors[run].position += 1;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(length)
    }

    /// Blocks are verified, so a pair that is cut off was never written whole.
    fn next_block(&mut self, run: usize) -> Result<(), VolumeError> {
        self.cursors[run].position = 0;
        match self.reader.advance(run)? {
            true => Ok(()),
            false => Err(VolumeError::Misuse { what: "a scratch run ends within a pair".to_owned() }),
        }
    }
}
