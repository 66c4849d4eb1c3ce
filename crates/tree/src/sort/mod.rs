//! Sorting more pairs than fit in memory.
//!
//! Pairs gather in an arena; a full arena is sorted and spilled to the volume's
//! scratch space as a *run*; in the end the runs are merged.
//!
//! ```text
//!  arena  ┌key value key value key value …┐        run  length key, length value, key, value, …
//!  index  [prefix, place][prefix, place] …              (lengths as LEB128)
//! ```
//!
//! The index holds each key's first eight bytes as a number, so that most
//! comparisons touch no key. Equal keys keep the order in which they came. Input that
//! comes sorted is noticed (one comparison per pair) and never sorted again.
//!
//! Memory stays within the budget whatever the input's size (one pair larger than it excepted): beyond as
//! many runs as can be read side by side, runs are first merged into longer ones.

mod merge;

use std::cmp::Ordering;

use saki_volume::{SCRATCH_BLOCK_BYTES, SCRATCH_BLOCKS_PER_RUN, ScratchRun, ScratchSpace, ScratchWriter, VolumeError};

use crate::Pair;

use merge::{Merge, key_prefix};

/// Memory of a sorter unless told otherwise, in bytes.
pub const SORT_MEMORY_BYTES: usize = 64 << 20;

/// A pair in the arena.
#[derive(Clone, Copy)]
struct Place {
    /// First eight bytes of the key, big-endian, so that numbers compare as keys do.
    prefix: u64,
    start: u64,
    key_bytes: u32,
    value_bytes: u32,
}

const _: () = assert!(size_of::<Place>() == 24);

/// Takes pairs in any order, gives them back sorted by key.
pub struct Sorter {
    scratch: ScratchSpace,
    memory_bytes: usize,
    arena: Vec<u8>,
    index: Vec<Place>,
    /// Whether the arena's pairs came sorted.
    sorted: bool,
    runs: Vec<ScratchRun>,
    pairs: u64,
}

impl Sorter {
    /// A sorter within `memory_bytes` (at least 1 MiB; [`SORT_MEMORY_BYTES`] is a good value).
    pub fn new(scratch: ScratchSpace, memory_bytes: usize) -> Self {
        Self {
            scratch,
            memory_bytes: memory_bytes.max(1 << 20),
            arena: Vec::new(),
            index: Vec::new(),
            sorted: true,
            runs: Vec::new(),
            pairs: 0,
        }
    }

    /// Adds a pair. Key and value are each shorter than 4 GiB.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), VolumeError> {
        let bytes = key.len() + value.len() + size_of::<Place>();
        let used = self.arena.len() + self.index.len() * size_of::<Place>();
        if used + bytes > self.memory_bytes && !self.index.is_empty() {
            self.spill()?;
        }
        let place = Place {
            prefix: key_prefix(key),
            start: self.arena.len() as u64,
            key_bytes: u32::try_from(key.len()).expect("keys are shorter than 4 GiB"),
            value_bytes: u32::try_from(value.len()).expect("values are shorter than 4 GiB"),
        };
        if let Some(last) = self.index.last()
            && self.sorted
        {
            let order = last.prefix.cmp(&place.prefix).then_with(|| key_of(&self.arena, last).cmp(key));
            self.sorted = order != Ordering::Greater;
        }
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(value);
        self.index.push(place);
        self.pairs += 1;
        Ok(())
    }

    /// Pairs so far.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Runs spilled so far.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Sorts what is left; the pairs follow in key order, equal keys in the order they were pushed.
    pub fn finish(mut self) -> Result<Sorted, VolumeError> {
        if self.runs.is_empty() {
            self.sort();
            return Ok(Sorted(Source::Memory { arena: self.arena, index: self.index, next: 0 }));
        }
        if !self.index.is_empty() {
            self.spill()?;
        }
        // Merging needs the memory for blocks.
        self.arena = Vec::new();
        self.index = Vec::new();
        let fan_in = (self.memory_bytes / (SCRATCH_BLOCKS_PER_RUN * SCRATCH_BLOCK_BYTES)).max(2);
        while self.runs.len() > fan_in {
            // Neighbours are merged, so that equal keys keep their order.
            let mut longer = Vec::new();
            let mut runs = std::mem::take(&mut self.runs).into_iter().peekable();
            while runs.peek().is_some() {
                let group: Vec<ScratchRun> = runs.by_ref().take(fan_in).collect();
                longer.push(self.merge_runs(group)?);
            }
            self.runs = longer;
        }
        Ok(Sorted(Source::Runs(Merge::new(&self.scratch, self.runs)?)))
    }

    fn merge_runs(&self, mut group: Vec<ScratchRun>) -> Result<ScratchRun, VolumeError> {
        assert!(!group.is_empty(), "a merge of no runs");
        if group.len() == 1 {
            return Ok(group.pop().expect("just counted"));
        }
        let mut merge = Merge::new(&self.scratch, group)?;
        let mut writer = self.scratch.writer();
        while let Some((key, value)) = merge.next()? {
            write_pair(&mut writer, key, value)?;
        }
        writer.finish()
    }

    fn sort(&mut self) {
        if self.sorted {
            return;
        }
        let arena = &self.arena;
        // Ties by place: equal keys keep their order, at no cost to the others.
        self.index.sort_unstable_by(|a, b| {
            let by_prefix = a.prefix.cmp(&b.prefix);
            by_prefix.then_with(|| key_of(arena, a).cmp(key_of(arena, b))).then_with(|| a.start.cmp(&b.start))
        });
        let key = |place: &Place| key_of(arena, place);
        debug_assert!(self.index.is_sorted_by(|a, b| key(a) <= key(b)), "prefixes and keys are ordered differently");
    }

    fn spill(&mut self) -> Result<(), VolumeError> {
        assert!(!self.index.is_empty(), "a run without pairs");
        self.sort();
        let mut writer = self.scratch.writer();
        for place in &self.index {
            write_pair(&mut writer, key_of(&self.arena, place), value_of(&self.arena, place))?;
        }
        self.runs.push(writer.finish()?);
        self.arena.clear();
        self.index.clear();
        self.sorted = true;
        Ok(())
    }
}

#[inline]
fn key_of<'a>(arena: &'a [u8], place: &Place) -> &'a [u8] {
    &arena[place.start as usize..][..place.key_bytes as usize]
}

#[inline]
fn value_of<'a>(arena: &'a [u8], place: &Place) -> &'a [u8] {
    &arena[place.start as usize + place.key_bytes as usize..][..place.value_bytes as usize]
}

fn write_pair(writer: &mut ScratchWriter, key: &[u8], value: &[u8]) -> Result<(), VolumeError> {
    let mut header = [0; 10];
    let mut used = 0;
    for length in [key.len(), value.len()] {
        let mut rest = length;
        while rest >= 0x80 {
            header[used] = rest as u8 | 0x80;
            rest >>= 7;
            used += 1;
        }
        header[used] = rest as u8;
        used += 1;
    }
    writer.write(&header[..used])?;
    writer.write(key)?;
    writer.write(value)
}

/// Sorted pairs, one after the other.
pub struct Sorted(Source);

enum Source {
    Memory { arena: Vec<u8>, index: Vec<Place>, next: usize },
    Runs(Merge),
}

impl Sorted {
    /// The next pair, borrowed until the next call.
    #[expect(clippy::should_implement_trait, reason = "lends from itself, which Iterator cannot say")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Pair<'_>>, VolumeError> {
        match &mut self.0 {
            Source::Memory { arena, index, next } => {
                let Some(place) = index.get(*next) else { return Ok(None) };
                *next += 1;
                Ok(Some((key_of(arena, place), value_of(arena, place))))
            }
            Source::Runs(merge) => merge.next(),
        }
    }
}
