//! What is on the device: the newest superblock, and the order of writes that
//! replaces it.
//!
//! A publish writes journal blocks behind the published ones, flushes (which also makes the data pages durable),
//! writes the first place of the older superblock, and flushes again: until then the device holds the old generation,
//! from then on the new one. Then it does the same with the second place, so that rot of either costs nothing
//! (`places`).
//!
//! If the first place's write or flush fails, nobody knows which generation the device holds: then nothing more is
//! published until the volume is opened anew, because whatever is overwritten may belong to the new generation. If
//! the second's fails, the generation is published all the same; the next publication begins with it.

use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::{CHUNK_BYTES, ChunkId, Generation};
use saki_io::Device;

use crate::blocking::BlockingIo;
use crate::error::VolumeError;
use crate::format::journal::{BLOCK_ALIGNMENT, Records};
use crate::format::superblock::{JOURNAL_SLOTS_MAX, Superblock, Tail};
use crate::places::places_of;
use crate::space::Space;
use crate::space::slots::Purpose;

/// What one publish changes.
pub(crate) struct Change {
    pub records: Records,
    pub tails: Vec<Tail>,
    pub next_chunk: ChunkId,
    pub root: Vec<u8>,
}

pub(crate) struct Durable {
    device: Arc<dyn Device>,
    pub superblock: Superblock,
    /// Sequence number of the next journal block.
    next_sequence: u64,
    /// A new journal is begun when this one would grow beyond this and beyond twice the map it describes.
    journal_bytes_max: u64,
    /// The superblock's second place is not known to be durable.
    lacks_copy: bool,
    /// Why the device's state is unknown.
    failed: Option<String>,
}

/// Upper estimate of a chunk's part of a fresh journal: an assign and a live record.
const CHUNK_RECORD_BYTES: u64 = 48;

impl Durable {
    pub fn new(device: &Arc<dyn Device>, superblock: Superblock, next_sequence: u64, journal_bytes_max: u64) -> Self {
        Self {
            device: Arc::clone(device),
            superblock,
            next_sequence,
            journal_bytes_max,
            lacks_copy: false,
            failed: None,
        }
    }

    /// Makes `change` the newest generation. On an error before the superblock is touched the old one simply stays.
    pub fn publish(&mut self, change: Change, space: &Mutex<Space>) -> Result<Generation, VolumeError> {
        self.check()?;
        let mut io = BlockingIo::open(&self.device)?;
        if self.lacks_copy {
            self.write_copy(&mut io)?;
        }
        let mut next = self.superblock.clone();
        next.generation.0 += 1;
        next.tails = change.tails;
        next.next_chunk = change.next_chunk;
        next.root = change.root;
        let mut taken = Vec::new();
        let written = self
            .write_journal(&mut io, &change.records, &mut next, space, &mut taken)
            .and_then(|sequence| io.flush().map(|()| sequence).map_err(VolumeError::from));
        let sequence = match written {
            Ok(sequence) => sequence,
            Err(error) => {
                let mut space = space.lock();
                taken.into_iter().for_each(|slot| space.give_back_slot(slot));
                return Err(error);
            }
        };
        next.assert_sound();
        let stored = io.write(places_of(next.generation)[0], &next.encode()).and_then(|()| io.flush());
        if let Err(error) = stored {
            self.failed = Some(error.to_string());
            self.check()?;
        }
        self.adopt(next, sequence, &mut space.lock());
        if let Err(error) = self.write_copy(&mut io) {
            tracing::warn!("the superblock's copy is not written, and tried again with the next generation: {error}");
        }
        Ok(self.superblock.generation)
    }

    /// Writes the superblock's second place, durably.
    fn write_copy(&mut self, io: &mut BlockingIo) -> Result<(), VolumeError> {
        self.lacks_copy = true;
        io.write(places_of(self.superblock.generation)[1], &self.superblock.encode())?;
        io.flush()?;
        self.lacks_copy = false;
        Ok(())
    }

    fn check(&self) -> Result<(), VolumeError> {
        match &self.failed {
            None => Ok(()),
            Some(reason) => {
                Err(VolumeError::PublishOutcomeUnknown { device: self.device.name(), reason: reason.clone() })
            }
        }
    }

    /// Appends the records' blocks, or begins a new journal with the whole map before them.
    /// Updates the journal's place in `next`; slots taken for it are listed in `taken`.
    fn write_journal(
        &self,
        io: &mut BlockingIo,
        records: &Records,
        next: &mut Superblock,
        space: &Mutex<Space>,
        taken: &mut Vec<u32>,
    ) -> Result<u64, VolumeError> {
        let mut bytes = Vec::new();
        let mut sequence = records.encode(next.generation, self.next_sequence, &mut bytes);
        let chunks = space.lock().chunks.len();
        let length_max = self.journal_bytes_max.max(2 * chunks as u64 * CHUNK_RECORD_BYTES);
        let slots_needed = (next.journal_length + bytes.len() as u64).div_ceil(CHUNK_BYTES as u64);
        let mut start = next.journal_length;
        if start > 0 && (start + bytes.len() as u64 > length_max || slots_needed > JOURNAL_SLOTS_MAX as u64) {
            bytes.clear();
            next.journal_sequence = self.next_sequence;
            sequence = whole_map(&space.lock()).encode(next.generation, self.next_sequence, &mut bytes);
            sequence = records.encode(next.generation, sequence, &mut bytes);
            next.journal_slots.clear();
            start = 0;
        }
        next.journal_length = start + bytes.len() as u64;
        let slots_needed = next.journal_length.div_ceil(CHUNK_BYTES as u64) as usize;
        if slots_needed > JOURNAL_SLOTS_MAX {
            return Err(VolumeError::ChunkMapFull { device: self.device.name(), chunks });
        }
        while next.journal_slots.len() < slots_needed {
            let slot = space.lock().take_slot(Purpose::Journal)?;
            taken.push(slot);
            next.journal_slots.push(slot);
        }
        assert!(start.is_multiple_of(BLOCK_ALIGNMENT as u64), "a journal block would begin at byte {start}");
        let mut bytes = bytes.as_slice();
        while !bytes.is_empty() {
            let (slot, within) = (start / CHUNK_BYTES as u64, start % CHUNK_BYTES as u64);
            let (piece, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - within as usize));
            io.write(u64::from(next.journal_slots[slot as usize]) * CHUNK_BYTES as u64 + within, piece)?;
            start += piece.len() as u64;
            bytes = rest;
        }
        Ok(sequence)
    }

    /// The device holds `next` now.
    fn adopt(&mut self, next: Superblock, next_sequence: u64, space: &mut Space) {
        for slot in &self.superblock.journal_slots {
            if !next.journal_slots.contains(slot) {
                space.retire_journal_slot(*slot, next.generation);
            }
        }
        assert_eq!(next.generation.0, self.superblock.generation.0 + 1, "generations are not counted one by one");
        assert!(next.next_chunk >= self.superblock.next_chunk, "{} would be allocated again", next.next_chunk);
        assert!(next_sequence >= self.next_sequence, "journal block {next_sequence} was written before");
        space.published(next.generation, self.superblock.generation);
        self.superblock = next;
        self.next_sequence = next_sequence;
    }
}

/// The chunk map as records, in the order that makes the longest runs.
fn whole_map(space: &Space) -> Records {
    let mut chunks: Vec<_> = space.chunks.iter().collect();
    chunks.sort_unstable_by_key(|(chunk, _)| **chunk);
    let mut records = Records::default();
    chunks.iter().for_each(|(chunk, state)| records.assign(**chunk, state.location));
    chunks.iter().for_each(|(chunk, state)| records.live(**chunk, state.live_pages));
    records
}
