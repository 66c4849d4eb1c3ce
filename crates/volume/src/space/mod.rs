//! What is where: published chunks with their live pages, free slots, and what
//! waits to become free.
//!
//! A chunk that lost its last live page at generation G is *pending*: its slot is
//! reused only when no generation older than G is held **and** the older superblock
//! on the device is not older than G, so that falling back to it always finds its pages.

mod held;
pub mod slots;

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::{CHUNK_BYTES, ChunkId, DeviceId, Generation};
use saki_io::Device;

use crate::error::VolumeError;
use crate::format::journal::Record;
use crate::format::superblock::{Superblock, Tail};
use crate::map::{ChunkMap, Location, SLOTS_MAX};
use crate::space::slots::{Purpose, Slots};

pub use held::HeldGeneration;

/// A published chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkState {
    pub location: Location,
    pub live_pages: u32,
}

enum Waiting {
    Chunk(ChunkId, Location),
    JournalSlot(u32),
}

struct Pending {
    freed_at: Generation,
    what: Waiting,
}

/// Everything the allocator knows; always behind one mutex, held for microseconds
/// (longer only while the device grows).
pub(crate) struct Space {
    slots: Slots,
    pub chunks: HashMap<ChunkId, ChunkState>,
    pending: Vec<Pending>,
    pub next_chunk: ChunkId,
    /// Open chunks as of the last publication's end; the running publication has taken them.
    pub tails: Vec<Tail>,
    /// Generations somebody can still read.
    held: BTreeSet<Generation>,
    /// The generation of the older superblock on the device.
    fallback: Generation,
    map: Arc<ChunkMap>,
    pub scratch_slots: u64,
}

impl Space {
    /// The state a superblock and its journal describe. `older` is the superblock of the generation before, if it can
    /// be read: its journal's slots stay taken as well.
    pub fn recover(
        device: &Arc<dyn Device>,
        superblock: &Superblock,
        older: Option<&Superblock>,
        table: ChunkTable,
        map: Arc<ChunkMap>,
    ) -> Result<Self, VolumeError> {
        let slots_end = device.length_bytes()? / CHUNK_BYTES as u64;
        let mut retired: Vec<u32> = older.map_or(Vec::new(), |older| older.journal_slots.clone());
        retired.retain(|slot| !table.slots.contains(slot) && u64::from(*slot) < slots_end);
        let mut used: Vec<u32> = table.slots.iter().chain(&retired).copied().collect();
        used.sort_unstable();
        let slots = Slots::new(device, &used)?;
        let freed_at = superblock.generation;
        let chunk = |(chunk, location)| Pending { freed_at, what: Waiting::Chunk(chunk, location) };
        let journal = |slot| Pending { freed_at, what: Waiting::JournalSlot(slot) };
        for (chunk, state) in &table.chunks {
            map.map(*chunk, state.location);
        }
        Ok(Self {
            slots,
            chunks: table.chunks,
            pending: table.freed_now.into_iter().map(chunk).chain(retired.into_iter().map(journal)).collect(),
            next_chunk: superblock.next_chunk,
            tails: superblock.tails.clone(),
            held: BTreeSet::new(),
            fallback: Generation(superblock.generation.0.saturating_sub(1)),
            map,
            scratch_slots: 0,
        })
    }

    pub fn take_slot(&mut self, purpose: Purpose) -> Result<u32, VolumeError> {
        self.slots.take(purpose)
    }

    pub fn give_back_slot(&mut self, slot: u32) {
        self.slots.give_back(slot);
    }

    /// `count` new chunks with consecutive ids, mapped at once so that their pages can be read back before they are
    /// published.
    pub fn take_chunks(&mut self, count: usize) -> Result<Vec<(ChunkId, Location)>, VolumeError> {
        assert!(count > 0, "no chunks were asked for");
        let mut slots = Vec::with_capacity(count);
        for _ in 0..count {
            match self.slots.take(Purpose::Data) {
                Ok(slot) => slots.push(slot),
                Err(error) => {
                    slots.into_iter().for_each(|slot| self.slots.give_back(slot));
                    return Err(error);
                }
            }
        }
        let place = |slot: u32| {
            let chunk = self.next_chunk;
            assert!(!self.chunks.contains_key(&chunk), "{chunk} was allocated before");
            self.next_chunk.0 += 1;
            let location = Location { device: DeviceId(0), slot: u64::from(slot) };
            self.map.map(chunk, location);
            (chunk, location)
        };
        Ok(slots.into_iter().map(place).collect())
    }

    /// Takes back a chunk that no generation ever named.
    pub fn discard(&mut self, chunk: ChunkId, location: Location) {
        assert!(!self.chunks.contains_key(&chunk), "{chunk} is discarded while it is published");
        self.map.unmap(chunk, self.next_chunk);
        self.slots.give_back(location.slot as u32);
    }

    /// A published chunk has no live page from `freed_at` on.
    pub fn retire(&mut self, chunk: ChunkId, freed_at: Generation) {
        assert!(freed_at > self.fallback, "{chunk} is retired in a generation that is past");
        let state = self.chunks.remove(&chunk).expect("only published chunks are retired");
        self.pending.push(Pending { freed_at, what: Waiting::Chunk(chunk, state.location) });
    }

    /// A journal slot is no longer named by the superblock from `freed_at` on.
    pub fn retire_journal_slot(&mut self, slot: u32, freed_at: Generation) {
        assert!(slot != 0, "the slot of the superblocks is not the journal's");
        assert!(freed_at > self.fallback, "journal slot {slot} is retired in a generation that is past");
        self.pending.push(Pending { freed_at, what: Waiting::JournalSlot(slot) });
    }

    /// A generation is on the device, and the one before it is the fallback.
    pub fn published(&mut self, generation: Generation, fallback: Generation) {
        assert!(fallback <= generation, "generation {} falls back to {}", generation.0, fallback.0);
        assert!(self.fallback <= fallback, "the fallback goes back to generation {}", fallback.0);
        let is_new = self.held.insert(generation);
        assert!(is_new, "generation {} was published twice", generation.0);
        self.fallback = fallback;
    }

    pub fn generation_released(&mut self, generation: Generation) {
        let was_held = self.held.remove(&generation);
        assert!(was_held, "generation {} was let go of twice", generation.0);
        self.reclaim();
    }

    /// Gives back every pending slot that nobody can reach any more.
    pub fn reclaim(&mut self) {
        let reached = self.reached();
        let mut at = 0;
        while at < self.pending.len() {
            if self.pending[at].freed_at > reached {
                at += 1;
                continue;
            }
            match self.pending.swap_remove(at).what {
                Waiting::Chunk(chunk, location) => self.discard(chunk, location),
                Waiting::JournalSlot(slot) => self.slots.give_back(slot),
            }
        }
    }

    /// Everything freed at this generation or earlier is out of reach.
    fn reached(&self) -> Generation {
        self.held.first().map_or(self.fallback, |oldest| self.fallback.min(*oldest))
    }

    /// Whether writing the superblock once more would free slots.
    pub fn awaits_superblock(&self) -> bool {
        let oldest = self.held.first().copied().unwrap_or(Generation(u64::MAX));
        self.pending.iter().any(|pending| pending.freed_at > self.fallback && pending.freed_at <= oldest)
    }

    pub fn available_slots(&self) -> u64 {
        self.slots.available()
    }

    pub fn total_slots(&self) -> u64 {
        self.slots.total()
    }

    pub fn pending_slots(&self) -> u64 {
        self.pending.len() as u64
    }
}

/// The published chunks, being read from a journal; refuses whatever contradicts itself.
pub(crate) struct ChunkTable {
    pages_per_chunk: u32,
    next_chunk: ChunkId,
    slots_end: u64,
    pub chunks: HashMap<ChunkId, ChunkState>,
    /// Slots of chunks and journal.
    pub slots: hashbrown::HashSet<u32>,
    /// Freed by the newest generation: the older superblock still names them.
    pub freed_now: Vec<(ChunkId, Location)>,
    /// Set when a chunk lies behind the device's end: the slots the device must have at least.
    pub needed_slots: Option<u64>,
}

impl ChunkTable {
    /// `slots_end`: slots the device has room for.
    pub fn new(superblock: &Superblock, slots_end: u64) -> Self {
        Self {
            pages_per_chunk: superblock.page_size.pages_per_chunk() as u32,
            next_chunk: superblock.next_chunk,
            slots_end,
            chunks: HashMap::new(),
            slots: superblock.journal_slots.iter().copied().collect(),
            freed_now: Vec::new(),
            needed_slots: None,
        }
    }

    /// `newest`: whether the record belongs to the newest generation.
    pub fn apply(&mut self, record: Record, newest: bool) -> Result<(), String> {
        match record {
            Record::Assign { chunk, count, location } => (0..u64::from(count)).try_for_each(|index| {
                let location = Location { slot: location.slot.saturating_add(index), ..location };
                self.assign(ChunkId(chunk.0.saturating_add(index)), location)
            }),
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
                let location = self.state(chunk)?.location;
                self.chunks.remove(&chunk);
                // A slot freed by the newest generation stays taken for the sake of the one before.
                if newest {
                    self.freed_now.push((chunk, location));
                } else {
                    self.slots.remove(&(location.slot as u32));
                }
                Ok(())
            }
        }
    }

    fn assign(&mut self, chunk: ChunkId, location: Location) -> Result<(), String> {
        if location.device != DeviceId(0) {
            return Err(format!("{chunk} lies on device {}, which is not attached", location.device.0));
        }
        if location.slot == 0 || location.slot >= self.slots_end {
            self.needed_slots = (location.slot < SLOTS_MAX).then_some(location.slot + 1);
            return Err(format!("{chunk} lies in slot {}, the device has {}", location.slot, self.slots_end));
        }
        if chunk >= self.next_chunk {
            return Err(format!("{chunk} was never allocated"));
        }
        // Ids are never used again, so nothing is assigned once the newest generation has begun to free.
        if !self.freed_now.is_empty() {
            return Err(format!("{chunk} is assigned after chunks were freed"));
        }
        if !self.slots.insert(location.slot as u32) {
            return Err(format!("slot {} of {chunk} is in use already", location.slot));
        }
        match self.chunks.insert(chunk, ChunkState { location, live_pages: 0 }) {
            None => Ok(()),
            Some(_) => Err(format!("{chunk} is assigned twice")),
        }
    }

    fn state(&mut self, chunk: ChunkId) -> Result<&mut ChunkState, String> {
        self.chunks.get_mut(&chunk).ok_or_else(|| format!("{chunk} is not assigned"))
    }
}

/// A slot for temporary data: free again when dropped, and after a crash because nothing names it.
pub(crate) struct SlotLease {
    pub space: Arc<Mutex<Space>>,
    pub slot: u32,
}

impl Drop for SlotLease {
    fn drop(&mut self) {
        let mut space = self.space.lock();
        assert!(space.scratch_slots > 0, "scratch slot {} was never counted", self.slot);
        space.scratch_slots -= 1;
        space.give_back_slot(self.slot);
    }
}
