//! The published chunks, being read from a journal.

use hashbrown::{HashMap, HashSet};
use saki_base::{ChunkId, DeviceId};

use crate::format::journal::Record;
use crate::format::superblock::Superblock;
use crate::map::{Location, SLOTS_MAX};
use crate::space::parts::Parts;

/// A published chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkState {
    /// Its home, which the journal names.
    pub location: Location,
    /// Where it is read instead, if anywhere: nothing names that but this.
    pub copy: Option<Location>,
    pub live_pages: u32,
    /// What its pages are of.
    pub parts: Parts,
}

/// The published chunks, being read from a journal; refuses whatever contradicts itself.
pub(crate) struct ChunkTable {
    pages_per_chunk: u32,
    next_chunk: ChunkId,
    /// Slots that each device has room for, by number; none of devices that are missing.
    slots_end: HashMap<DeviceId, Option<u64>>,
    pub chunks: HashMap<ChunkId, ChunkState>,
    /// Slots of chunks and journal.
    pub slots: HashSet<Location>,
    /// Freed by the newest generation: the older superblock still names them.
    pub freed_now: Vec<(ChunkId, ChunkState)>,
    /// Left by chunks that the newest generation has moved.
    pub left_now: Vec<Location>,
    /// Set when a chunk lies behind its device's end: the slots the device must have at least.
    pub needed_slots: Option<(DeviceId, u64)>,
}

impl ChunkTable {
    /// `slots_end`: slots that each device of the volume has room for; `None` if it is missing. `journal`: the slots
    /// of the journal.
    pub fn new(
        superblock: &Superblock,
        slots_end: HashMap<DeviceId, Option<u64>>,
        journal: impl Iterator<Item = Location>,
    ) -> Self {
        Self {
            pages_per_chunk: superblock.page_size.pages_per_chunk() as u32,
            next_chunk: superblock.next_chunk,
            slots_end,
            chunks: HashMap::new(),
            slots: journal.collect(),
            freed_now: Vec::new(),
            left_now: Vec::new(),
            needed_slots: None,
        }
    }

    /// `newest`: whether the record belongs to the newest generation.
    pub fn apply(&mut self, record: Record, newest: bool) -> Result<(), String> {
        let nth = |chunk: ChunkId, location: Location, index: u64| {
            let location = Location { slot: location.slot.saturating_add(index), ..location };
            (ChunkId(chunk.0.saturating_add(index)), location)
        };
        match record {
            Record::Assign { chunk, count, location } => (0..u64::from(count)).try_for_each(|index| {
                let (chunk, location) = nth(chunk, location, index);
                self.assign(chunk, location)
            }),
            Record::Move { chunk, count, location } => (0..u64::from(count)).try_for_each(|index| {
                let (chunk, location) = nth(chunk, location, index);
                self.occupy(chunk, location)?;
                let before = std::mem::replace(&mut self.state(chunk)?.location, location);
                self.leave(before, newest);
                Ok(())
            }),
            Record::Part { chunk, count, part } => {
                for id in chunk.0..chunk.0.saturating_add(count.into()) {
                    self.state(ChunkId(id))?.parts.add(part);
                }
                Ok(())
            }
            Record::Live { chunk, chunks, pages } => {
                if pages > self.pages_per_chunk {
                    return Err(format!("{chunk} has {pages} live pages of {}", self.pages_per_chunk));
                }
                for id in chunk.0..chunk.0.saturating_add(chunks) {
                    self.state(ChunkId(id))?.live_pages = pages;
                }
                Ok(())
            }
            Record::Free { chunk } => {
                let state = self.chunks.remove(&chunk).ok_or_else(|| format!("{chunk} is not assigned"))?;
                // A slot freed by the newest generation stays taken for the sake of the one before.
                if newest {
                    self.freed_now.push((chunk, state));
                } else {
                    self.slots.remove(&state.location);
                }
                Ok(())
            }
        }
    }

    fn leave(&mut self, location: Location, newest: bool) {
        match newest {
            true => self.left_now.push(location),
            false => drop(self.slots.remove(&location)),
        }
    }

    fn assign(&mut self, chunk: ChunkId, location: Location) -> Result<(), String> {
        if chunk >= self.next_chunk {
            return Err(format!("{chunk} was never allocated"));
        }
        if chunk.volume() != self.next_chunk.volume() {
            return Err(format!("{chunk} is of {}, and this is {}", chunk.volume(), self.next_chunk.volume()));
        }
        // Ids are never used again, so nothing is assigned once the newest generation has begun to free.
        if !self.freed_now.is_empty() {
            return Err(format!("{chunk} is assigned after chunks were freed"));
        }
        self.occupy(chunk, location)?;
        match self.chunks.insert(chunk, ChunkState { location, copy: None, live_pages: 0, parts: Parts::default() }) {
            None => Ok(()),
            Some(_) => Err(format!("{chunk} is assigned twice")),
        }
    }

    /// Counts a slot as used by a chunk.
    fn occupy(&mut self, chunk: ChunkId, location: Location) -> Result<(), String> {
        let Some(slots_end) = self.slots_end.get(&location.device) else {
            return Err(format!("{chunk} lies on device {}, which the database does not have", location.device.0));
        };
        let slots_end = slots_end.unwrap_or(SLOTS_MAX);
        if location.slot == 0 || location.slot >= slots_end {
            self.needed_slots = (location.slot < SLOTS_MAX).then_some((location.device, location.slot + 1));
            return Err(format!("{chunk} lies in slot {}, the device has {slots_end}", location.slot));
        }
        match self.slots.insert(location) {
            true => Ok(()),
            false => Err(format!("slot {} of {chunk} is in use already", location.slot)),
        }
    }

    fn state(&mut self, chunk: ChunkId) -> Result<&mut ChunkState, String> {
        self.chunks.get_mut(&chunk).ok_or_else(|| format!("{chunk} is not assigned"))
    }
}

#[cfg(test)]
mod tests {
    use saki_base::{CHUNKS_PER_VOLUME, GenerationNumber, PageSize, VolumeNumber};

    use super::*;
    use crate::format::superblock::FORMAT_VERSION;

    #[test]
    fn chunks_of_another_volume_are_refused() {
        let next_chunk = ChunkId(VolumeNumber(3).first_chunk().0 + 5);
        let superblock = Superblock {
            version: FORMAT_VERSION,
            page_size: PageSize::new(4096).expect("valid"),
            database_id: 1,
            generation: GenerationNumber(1),
            next_chunk,
            journal_length: 0,
            journal_sequence: 0,
            journal_slots: Vec::new(),
            tails: Vec::new(),
            root: Vec::new(),
            devices: Vec::new(),
        };
        let device = DeviceId(0);
        let mut table = ChunkTable::new(&superblock, HashMap::from([(device, Some(100))]), std::iter::empty());
        let mut assign = |chunk: u64| {
            let location = Location { device, slot: 1 + chunk % 50 };
            table.apply(Record::Assign { chunk: ChunkId(chunk), count: 1, location }, true)
        };
        assert_eq!(assign(next_chunk.0 - 5), Ok(()));
        assert_eq!(assign(next_chunk.0 - 1), Ok(()));
        for wrong in [0, next_chunk.0 - 6, next_chunk.0, next_chunk.0 + CHUNKS_PER_VOLUME] {
            assert!(assign(wrong).is_err(), "chunk {wrong}");
        }
    }
}
