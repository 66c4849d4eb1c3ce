//! What is where: published chunks with their live pages, free slots, and what
//! waits to become free.
//!
//! A chunk that lost its last live page at generation G is *pending*: its slot is
//! reused only when no generation older than G is held **and** the older superblock
//! on the device is not older than G, so that falling back to it always finds its pages.

mod held;
mod parts;
pub mod slots;
mod table;

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::{ChunkId, DeviceId, GenerationNumber};

use crate::error::VolumeError;
use crate::format::superblock::{Superblock, Tail};
use crate::format::table::Role;
use crate::map::{ChunkMap, Location, Place};
use crate::space::slots::{Purpose, Slots};

pub use held::HeldGeneration;
pub(crate) use parts::Parts;
pub(crate) use table::{ChunkState, ChunkTable};

enum Waiting {
    Chunk(ChunkId, ChunkState),
    Slot(Location),
}

struct Pending {
    freed_at: GenerationNumber,
    /// Lanes may read it until this epoch has passed.
    epoch: Option<u64>,
    what: Waiting,
}

/// A device's slots, and what they are for.
struct Shelf {
    slots: Slots,
    role: Role,
}

impl Shelf {
    /// Whether new chunks may lie here.
    fn takes_homes(&self) -> bool {
        self.role.homes && !self.role.draining
    }
}

/// What chunks are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    Data,
    /// What finds the rest: on the device that the database cannot do without anyway, if it takes homes.
    Metadata,
}

/// Everything the allocator knows; always behind one mutex, held for microseconds
/// (longer only while a device grows).
pub(crate) struct Space {
    /// By device number; none of devices that are missing.
    shelves: Vec<Option<Shelf>>,
    pub chunks: HashMap<ChunkId, ChunkState>,
    pending: Vec<Pending>,
    pub next_chunk: ChunkId,
    /// Open chunks as of the last publication's end; the running publication has taken them.
    pub tails: Vec<Tail>,
    /// Generations somebody can still read.
    held: BTreeSet<GenerationNumber>,
    /// The generation of the older superblock on the device.
    fallback: GenerationNumber,
    map: Arc<ChunkMap>,
    pub scratch_slots: u64,
    /// Copies that were dropped because they were not what they should be.
    pub copies_distrusted: u64,
}

/// How full a device is, in slots of 1 MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceSlots {
    /// Slots it has room for now (a file grows beyond them).
    pub total: u64,
    /// Slots that can be given out without growing it.
    pub free: u64,
    /// Chunks at home there.
    pub homes: u64,
    /// Copies of chunks that are at home elsewhere.
    pub copies: u64,
    /// Slots that nobody may have yet, since older generations or reads under way need them.
    pub pending: u64,
    pub live_pages: u64,
}

impl Space {
    /// The state a superblock and its journal describe. `retired`: slots of journals that the superblock does not name
    /// and an older one does; they stay taken as well. `shelves`: the devices that are there, whose slots are still to
    /// be told.
    pub fn recover(
        superblock: &Superblock,
        table: ChunkTable,
        retired: Vec<Location>,
        devices: Vec<(DeviceId, Role, Slots)>,
        map: Arc<ChunkMap>,
    ) -> Self {
        let mut space = Self {
            shelves: Vec::new(),
            chunks: table.chunks,
            pending: Vec::new(),
            next_chunk: superblock.next_chunk,
            tails: superblock.tails.clone(),
            held: BTreeSet::new(),
            fallback: GenerationNumber(superblock.generation.0.saturating_sub(1)),
            map,
            scratch_slots: 0,
            copies_distrusted: 0,
        };
        let freed_at = superblock.generation;
        for (number, role, mut slots) in devices {
            let of_device = |location: &&Location| location.device == number;
            let mut used: Vec<_> = table.slots.iter().chain(&retired).filter(of_device).collect();
            used.sort_unstable();
            used.dedup();
            used.into_iter().for_each(|location| slots.mark_used(location.slot as u32));
            space.put_shelf(number, role, slots);
        }
        for (chunk, state) in &space.chunks {
            space.map.map(*chunk, state.location);
        }
        let waits = |what| Pending { freed_at, epoch: None, what };
        let chunk = |(chunk, state)| waits(Waiting::Chunk(chunk, state));
        let slot = |location| waits(Waiting::Slot(location));
        let left = table.left_now.into_iter().chain(retired);
        space.pending = table.freed_now.into_iter().map(chunk).chain(left.map(slot)).collect();
        space
    }

    /// A device is there, with these slots.
    pub fn put_shelf(&mut self, number: DeviceId, role: Role, slots: Slots) {
        let place = usize::from(number.0);
        if self.shelves.len() <= place {
            self.shelves.resize_with(place + 1, || None);
        }
        self.shelves[place] = Some(Shelf { slots, role });
    }

    pub fn set_role(&mut self, number: DeviceId, role: Role) {
        if let Some(shelf) = self.shelves.get_mut(usize::from(number.0)).and_then(Option::as_mut) {
            shelf.role = role;
        }
    }

    /// A device is gone; it has nothing any more.
    pub fn drop_shelf(&mut self, number: DeviceId) {
        if let Some(shelf) = self.shelves.get_mut(usize::from(number.0)) {
            *shelf = None;
        }
    }

    fn shelf(&mut self, number: DeviceId) -> Option<&mut Shelf> {
        self.shelves.get_mut(usize::from(number.0))?.as_mut()
    }

    /// Whether new chunks may lie on a device, and open ones be written on.
    pub fn takes_homes(&self, number: DeviceId) -> bool {
        self.shelves.get(usize::from(number.0)).and_then(Option::as_ref).is_some_and(Shelf::takes_homes)
    }

    /// Whether a content may lie on a device: anything anywhere, if the device where it belongs takes nothing.
    pub fn suits(&self, number: DeviceId, content: Content) -> bool {
        content == Content::Data || self.metadata_home().is_none_or(|home| home == number)
    }

    /// The first device with superblocks and journal that takes homes. By its path the database is opened.
    fn metadata_home(&self) -> Option<DeviceId> {
        let takes = |shelf: &Shelf| shelf.role.metadata && shelf.takes_homes();
        let found = self.shelves.iter().position(|shelf| shelf.as_ref().is_some_and(takes));
        found.map(|place| DeviceId(place as u16))
    }

    /// Whether chunks may be copied to a device.
    pub fn takes_copies(&self, number: DeviceId) -> bool {
        let shelf = self.shelves.get(usize::from(number.0)).and_then(Option::as_ref);
        shelf.is_some_and(|shelf| shelf.role.copies && !shelf.role.draining)
    }

    /// A slot for the journal on one of its devices.
    pub fn take_journal_slot(&mut self, number: DeviceId) -> Result<u32, VolumeError> {
        self.shelf(number).expect("the journal's devices are there").slots.take(Purpose::Journal)
    }

    /// A slot on a device that takes homes: the emptiest, and if that is full, another.
    pub fn take_slot(&mut self) -> Result<Location, VolumeError> {
        self.take_slots(1, Content::Data).map(|slots| slots[0])
    }

    /// Slots on devices that take homes, on one of them if it has room for all.
    fn take_slots(&mut self, count: usize, content: Content) -> Result<Vec<Location>, VolumeError> {
        let mut order: Vec<_> = (0..self.shelves.len() as u16)
            .map(DeviceId)
            .filter_map(|number| {
                let is_second_choice = !self.suits(number, content);
                let shelf = self.shelf(number)?;
                shelf.takes_homes().then(|| (is_second_choice, shelf.slots.used(), number))
            })
            .collect();
        order.sort_unstable();
        let mut taken = Vec::with_capacity(count);
        let mut refusal = None;
        for (.., number) in order {
            while taken.len() < count {
                match self.take_slot_on(number) {
                    Ok(location) => taken.push(location),
                    Err(error) => {
                        refusal.get_or_insert(error);
                        break;
                    }
                }
            }
        }
        if taken.len() == count {
            return Ok(taken);
        }
        taken.into_iter().for_each(|location| self.give_back(location));
        let nowhere = || VolumeError::Refused { what: "no device of the database takes new data".to_owned() };
        Err(refusal.unwrap_or_else(nowhere))
    }

    /// A slot of a device, whatever its role.
    pub fn take_slot_on(&mut self, number: DeviceId) -> Result<Location, VolumeError> {
        let gone = || VolumeError::Refused { what: format!("device {} is not there", number.0) };
        let slot = self.shelf(number).ok_or_else(gone)?.slots.take(Purpose::Data)?;
        Ok(Location { device: number, slot: u64::from(slot) })
    }

    /// Of a device that is missing nothing is given out, so there is nothing to give back to.
    pub fn give_back(&mut self, location: Location) {
        if let Some(shelf) = self.shelf(location.device) {
            shelf.slots.give_back(location.slot as u32);
        }
    }

    /// `count` new chunks with consecutive ids, mapped at once so that their pages can be read back before they are
    /// published.
    pub fn take_chunks(&mut self, count: usize, content: Content) -> Result<Vec<(ChunkId, Location)>, VolumeError> {
        assert!(count > 0, "no chunks were asked for");
        let locations = self.take_slots(count, content)?;
        let place = |location: Location| {
            let chunk = self.next_chunk;
            assert!(!self.chunks.contains_key(&chunk), "{chunk} was allocated before");
            self.next_chunk.0 += 1;
            assert!(self.next_chunk.volume() == chunk.volume(), "{} has no addresses left", chunk.volume());
            self.map.map(chunk, location);
            (chunk, location)
        };
        Ok(locations.into_iter().map(place).collect())
    }

    /// Takes back a chunk that no generation ever named.
    pub fn discard(&mut self, chunk: ChunkId, location: Location) {
        assert!(!self.chunks.contains_key(&chunk), "{chunk} is discarded while it is published");
        self.map.unmap(chunk, self.next_chunk);
        self.give_back(location);
    }

    /// A published chunk has no live page from `freed_at` on.
    pub fn retire(&mut self, chunk: ChunkId, freed_at: GenerationNumber) {
        assert!(freed_at > self.fallback, "{chunk} is retired in a generation that is past");
        let state = self.chunks.remove(&chunk).expect("only published chunks are retired");
        self.pending.push(Pending { freed_at, epoch: None, what: Waiting::Chunk(chunk, state) });
    }

    /// A journal slot is no longer named by the superblock from `freed_at` on.
    pub fn retire_journal_slot(&mut self, location: Location, freed_at: GenerationNumber) {
        assert!(location.slot != 0, "the slot of the superblocks is not the journal's");
        assert!(freed_at > self.fallback, "journal slot {} is retired in a generation that is past", location.slot);
        self.pending.push(Pending { freed_at, epoch: None, what: Waiting::Slot(location) });
    }

    /// A chunk's home is elsewhere from generation `moved_at` on, which is on the device.
    pub fn move_home(&mut self, chunk: ChunkId, home: Location, moved_at: GenerationNumber) {
        let state = self.chunks.get_mut(&chunk).expect("only published chunks are moved");
        let before = std::mem::replace(&mut state.location, home);
        // Read from a copy, it goes on to be; then nobody reads its old home but who came before the copy.
        let epoch = match state.copy {
            None => self.map.redirect(chunk, Place::home(home)),
            Some(_) => self.map.epochs.end(),
        };
        self.pending.push(Pending { freed_at: moved_at, epoch: Some(epoch), what: Waiting::Slot(before) });
    }

    /// A chunk is read from its copy from now on.
    pub fn put_copy(&mut self, chunk: ChunkId, copy: Location) {
        let state = self.chunks.get_mut(&chunk).expect("only published chunks are copied");
        assert!(state.copy.is_none(), "{chunk} is copied twice");
        state.copy = Some(copy);
        self.map.redirect(chunk, Place::copy(copy));
    }

    /// Pages that have been written into an open chunk; `None` of one that is not, or is being written.
    pub fn written_into(&self, chunk: ChunkId) -> Option<u32> {
        self.tails.iter().find(|tail| tail.chunk == chunk).map(|tail| tail.next_page)
    }

    /// Where a chunk of a held generation is at home now.
    pub fn home_of(&self, chunk: ChunkId) -> Option<Location> {
        let retired = |pending: &Pending| match &pending.what {
            Waiting::Chunk(waiting, state) if *waiting == chunk => Some(state.location),
            _ => None,
        };
        let published = self.chunks.get(&chunk).map(|state| state.location);
        published.or_else(|| self.pending.iter().find_map(retired))
    }

    /// What was read of a chunk came from a copy, and was not what it should be: it is dropped.
    pub fn distrust_copy(&mut self, chunk: ChunkId) {
        if self.drop_copy(chunk) {
            self.copies_distrusted += 1;
            tracing::warn!("the copy of {chunk} is not what it should be, and dropped: it is read from its home");
        }
    }

    /// A chunk is read from its home again. `false` if it has no copy.
    pub fn drop_copy(&mut self, chunk: ChunkId) -> bool {
        let published = self.chunks.get_mut(&chunk);
        let retired = self.pending.iter_mut().find_map(|pending| match &mut pending.what {
            Waiting::Chunk(waiting, state) if *waiting == chunk => Some(state),
            _ => None,
        });
        let Some(state) = published.or(retired) else { return false };
        let Some(copy) = state.copy.take() else { return false };
        let epoch = Some(self.map.redirect(chunk, Place::home(state.location)));
        self.pending.push(Pending { freed_at: GenerationNumber(0), epoch, what: Waiting::Slot(copy) });
        true
    }

    /// A generation is on the device, and the one before it is the fallback.
    pub fn published(&mut self, generation: GenerationNumber, fallback: GenerationNumber) {
        assert!(fallback <= generation, "generation {} falls back to {}", generation.0, fallback.0);
        assert!(self.fallback <= fallback, "the fallback goes back to generation {}", fallback.0);
        let is_new = self.held.insert(generation);
        assert!(is_new, "generation {} was published twice", generation.0);
        self.fallback = fallback;
    }

    pub fn generation_released(&mut self, generation: GenerationNumber) {
        let was_held = self.held.remove(&generation);
        assert!(was_held, "generation {} was let go of twice", generation.0);
        self.reclaim();
    }

    /// Gives back every pending slot that nobody can reach any more.
    pub fn reclaim(&mut self) {
        let reached = self.reached();
        let mut at = 0;
        while at < self.pending.len() {
            let Pending { freed_at, epoch, what } = &self.pending[at];
            // Whoever holds a generation finds its chunks by the map, wherever they are: only chunks wait for it.
            let reached = if matches!(what, Waiting::Slot(_)) { self.fallback } else { reached };
            if *freed_at > reached || epoch.is_some_and(|epoch| !self.map.epochs.has_passed(epoch)) {
                at += 1;
                continue;
            }
            match self.pending.swap_remove(at).what {
                Waiting::Chunk(chunk, state) => {
                    self.discard(chunk, state.location);
                    state.copy.into_iter().for_each(|copy| self.give_back(copy));
                }
                Waiting::Slot(location) => self.give_back(location),
            }
        }
    }

    /// Everything freed at this generation or earlier is out of reach.
    fn reached(&self) -> GenerationNumber {
        self.held.first().map_or(self.fallback, |oldest| self.fallback.min(*oldest))
    }

    /// Whether writing the superblock once more would free slots.
    pub fn awaits_superblock(&self) -> bool {
        let oldest = self.held.first().copied().unwrap_or(GenerationNumber(u64::MAX));
        let is_held = |pending: &Pending| matches!(pending.what, Waiting::Chunk(..)) && pending.freed_at > oldest;
        self.pending.iter().any(|pending| pending.freed_at > self.fallback && !is_held(pending))
    }

    pub fn available_slots(&self) -> u64 {
        self.shelves.iter().flatten().map(|shelf| shelf.slots.available()).sum()
    }

    pub fn total_slots(&self) -> u64 {
        self.shelves.iter().flatten().map(|shelf| shelf.slots.total()).sum()
    }

    pub fn pending_slots(&self) -> u64 {
        self.pending.iter().map(|pending| pending.slots().count() as u64).sum()
    }

    /// How full a device is; of one that is missing, what should be there.
    pub fn device_slots(&self, number: DeviceId) -> DeviceSlots {
        let is_there = |location: &Location| location.device == number;
        let mut slots = DeviceSlots::default();
        if let Some(Some(shelf)) = self.shelves.get(usize::from(number.0)) {
            (slots.total, slots.free) = (shelf.slots.total(), shelf.slots.available());
        }
        for state in self.chunks.values() {
            if is_there(&state.location) {
                slots.homes += 1;
                slots.live_pages += u64::from(state.live_pages);
            }
            slots.copies += u64::from(state.copy.as_ref().is_some_and(is_there));
        }
        slots.pending = self.pending.iter().flat_map(Pending::slots).filter(is_there).count() as u64;
        slots
    }

    /// Copies of published chunks.
    pub fn copies(&self) -> impl Iterator<Item = (ChunkId, Location)> {
        self.chunks.iter().filter_map(|(chunk, state)| Some((*chunk, state.copy?)))
    }

    /// Chunks with a copy on a device, those that wait to be given back too.
    pub fn copied_to(&self, number: DeviceId) -> Vec<ChunkId> {
        let waiting = self.pending.iter().filter_map(|pending| match &pending.what {
            Waiting::Chunk(chunk, state) => Some((*chunk, state.copy?)),
            Waiting::Slot(_) => None,
        });
        self.copies().chain(waiting).filter(|(_, copy)| copy.device == number).map(|(chunk, _)| chunk).collect()
    }

    /// Slots of a device that are not free, slot 0 among them.
    pub fn used_slots(&self, number: DeviceId) -> u64 {
        let shelf = self.shelves.get(usize::from(number.0)).and_then(Option::as_ref);
        shelf.map_or(0, |shelf| shelf.slots.used())
    }

    /// Takes the slot of a copy that was there before the volume was opened. `false` if it is not free.
    pub fn claim_slot(&mut self, location: Location) -> bool {
        let free = |shelf: &mut Shelf| u32::try_from(location.slot).is_ok_and(|slot| shelf.slots.claim(slot));
        self.shelf(location.device).is_some_and(free)
    }
}

impl Pending {
    fn slots(&self) -> impl Iterator<Item = Location> {
        let (first, second) = match &self.what {
            Waiting::Chunk(_, state) => (state.location, state.copy),
            Waiting::Slot(location) => (*location, None),
        };
        std::iter::once(first).chain(second)
    }
}

/// A slot for temporary data: free again when dropped, and after a crash because nothing names it.
pub(crate) struct SlotLease {
    pub space: Arc<Mutex<Space>>,
    pub location: Location,
}

impl Drop for SlotLease {
    fn drop(&mut self) {
        let mut space = self.space.lock();
        assert!(space.scratch_slots > 0, "a scratch slot of {:?} was never counted", self.location);
        space.scratch_slots -= 1;
        space.give_back(self.location);
    }
}
