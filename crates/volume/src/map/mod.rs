//! The read side of the chunk map: where a chunk lies now.
//!
//! Every page miss of every thread looks here, so a lookup takes no shared lock and
//! writes no shared line except the chunk's own heat counter. The map is cut into
//! blocks of 1024 chunks; a thread's [`MapReader`] keeps the blocks it has met.
//! Chunk ids are never reused, so a block found once stays right for ever: its
//! cells change in place, and a block whose chunks are all gone can only ever
//! say "unmapped", which remains true.

pub mod epoch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;
use saki_base::{CHUNK_BYTES, ChunkId, DeviceId};

use self::epoch::{EpochReader, Epochs};

/// Where a chunk lies: a device and one of its 1 MiB slots. Slot 0 holds the superblocks, never a chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Location {
    pub device: DeviceId,
    pub slot: u64,
}

/// Slots of a device that a location can name: 2^32 (4 PiB), as the superblock writes them in four bytes.
pub(crate) const SLOTS_MAX: u64 = 1 << 32;

impl Location {
    /// Byte offset of the slot on its device.
    #[inline]
    pub fn offset(self) -> u64 {
        self.slot * CHUNK_BYTES as u64
    }
}

/// Where a chunk is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub location: Location,
    /// It is a copy's, not the chunk's home.
    pub is_copy: bool,
}

const COPY_BIT: u64 = 1 << 63;

impl Place {
    pub fn home(location: Location) -> Self {
        Self { location, is_copy: false }
    }

    pub fn copy(location: Location) -> Self {
        Self { location, is_copy: true }
    }

    fn pack(self) -> u64 {
        let Location { device, slot } = self.location;
        assert!(slot > 0 && slot < SLOTS_MAX, "slot {slot} holds no chunk");
        assert!(device.0 < 1 << 15, "device {} is none", device.0);
        u64::from(self.is_copy) << 63 | u64::from(device.0) << 48 | slot
    }

    fn unpack(packed: u64) -> Option<Self> {
        let slot = packed & ((1 << 48) - 1);
        let device = DeviceId((packed >> 48 & 0x7fff) as u16);
        (slot != 0).then_some(Self { location: Location { device, slot }, is_copy: packed & COPY_BIT != 0 })
    }
}

const BLOCK_CHUNKS: u64 = 1024;
const _: () = assert!(SLOTS_MAX <= 1 << 48, "a packed location has 48 bits for the slot");

struct Block {
    /// Packed places; zero is unmapped. Readers need no ordering with other
    /// memory: what a location leads to lies on a device, and a reader learns of
    /// a chunk only through a lock or channel taken after it was mapped. A place that changes has the bytes before
    /// the cell says so, and those that were read before keep theirs for an epoch.
    locations: Box<[AtomicU64]>,
    /// Of each chunk: requests in the upper half, and the pages that they were for in the lower. Reads that go on where
    /// another has ended are one request.
    reads: Box<[AtomicU64]>,
    /// Set when the map has let go of this block for ever.
    retired: AtomicBool,
}

impl Block {
    fn new() -> Self {
        Self {
            locations: (0..BLOCK_CHUNKS).map(|_| AtomicU64::new(0)).collect(),
            reads: (0..BLOCK_CHUNKS).map(|_| AtomicU64::new(0)).collect(),
            retired: AtomicBool::new(false),
        }
    }
}

fn place_of(chunk: ChunkId) -> (u64, usize) {
    (chunk.0 / BLOCK_CHUNKS, (chunk.0 % BLOCK_CHUNKS) as usize)
}

/// The map itself, shared by all threads.
pub(crate) struct ChunkMap {
    blocks: RwLock<HashMap<u64, Arc<Block>>>,
    pub epochs: Arc<Epochs>,
}

impl Default for ChunkMap {
    fn default() -> Self {
        Self { blocks: RwLock::default(), epochs: Epochs::new() }
    }
}

impl ChunkMap {
    pub fn map(&self, chunk: ChunkId, location: Location) {
        let (block, index) = place_of(chunk);
        let mut blocks = self.blocks.write();
        let block = blocks.entry(block).or_insert_with(|| Arc::new(Block::new()));
        let before = block.locations[index].swap(Place::home(location).pack(), Ordering::Release);
        assert_eq!(before, 0, "{chunk} mapped twice");
    }

    /// Has a chunk read elsewhere from now on. What it was read from before keeps its bytes until the epoch that is
    /// returned has passed.
    pub fn redirect(&self, chunk: ChunkId, place: Place) -> u64 {
        let (block, index) = place_of(chunk);
        let blocks = self.blocks.read();
        let block = blocks.get(&block).expect("only mapped chunks are moved");
        let before = block.locations[index].swap(place.pack(), Ordering::AcqRel);
        assert_ne!(before, 0, "{chunk} is moved, and not mapped");
        self.epochs.end()
    }

    /// `next_chunk`: ids from there on may still be mapped, so their blocks stay.
    pub fn unmap(&self, chunk: ChunkId, next_chunk: ChunkId) {
        assert!(chunk < next_chunk, "{chunk} unmapped, which was never allocated");
        let (number, index) = place_of(chunk);
        let mut blocks = self.blocks.write();
        let Some(block) = blocks.get(&number) else { return };
        block.locations[index].store(0, Ordering::Release);
        let complete = (number + 1) * BLOCK_CHUNKS <= next_chunk.0;
        if complete && block.locations.iter().all(|location| location.load(Ordering::Relaxed) == 0) {
            block.retired.store(true, Ordering::Relaxed);
            blocks.remove(&number);
        }
    }

    pub fn locate(&self, chunk: ChunkId) -> Option<Place> {
        let (block, index) = place_of(chunk);
        Place::unpack(self.blocks.read().get(&block)?.locations[index].load(Ordering::Acquire))
    }

    /// Calls `each` with every chunk that has been read, and its requests and pages. They are counted from when the
    /// chunk came, and begin again at zero behind 2^32.
    pub fn reads(&self, mut each: impl FnMut(ChunkId, (u32, u32))) {
        let blocks: Vec<_> = self.blocks.read().iter().map(|(number, block)| (*number, block.clone())).collect();
        for (number, block) in blocks {
            for (index, reads) in block.reads.iter().enumerate() {
                let reads = reads.load(Ordering::Relaxed);
                if reads > 0 {
                    each(ChunkId(number * BLOCK_CHUNKS + index as u64), ((reads >> 32) as u32, reads as u32));
                }
            }
        }
    }
}

/// Counts so many requests for so many pages of a chunk.
#[inline]
pub(crate) fn count_read(reads: &AtomicU64, requests: u64, pages: u64) {
    reads.fetch_add(requests << 32 | pages, Ordering::Relaxed);
}

/// One thread's reader of the map.
pub(crate) struct MapReader {
    map: Arc<ChunkMap>,
    epochs: EpochReader,
    seen: HashMap<u64, Arc<Block>>,
    /// Retired blocks are let go of when this many have been met.
    prune_at: usize,
}

impl MapReader {
    pub fn new(map: &Arc<ChunkMap>) -> Self {
        Self { map: Arc::clone(map), epochs: map.epochs.reader(), seen: HashMap::new(), prune_at: 64 }
    }

    /// Where a chunk is read, and its count of reads. Until the [epoch](Self::enter) that was entered before is left,
    /// it has its bytes there.
    #[inline]
    pub fn locate(&mut self, chunk: ChunkId) -> Option<(Place, &AtomicU64)> {
        let (number, index) = place_of(chunk);
        if !self.seen.contains_key(&number) {
            self.meet(number)?;
        }
        let block = self.seen.get(&number)?;
        let place = Place::unpack(block.locations[index].load(Ordering::Acquire))?;
        Some((place, &block.reads[index]))
    }

    /// Enters the present epoch: see [`Epochs`].
    #[inline]
    pub fn enter(&mut self) -> u64 {
        self.epochs.enter()
    }

    #[inline]
    pub fn leave(&mut self, epoch: u64) {
        self.epochs.leave(epoch);
    }

    fn meet(&mut self, number: u64) -> Option<()> {
        let block = self.map.blocks.read().get(&number).cloned()?;
        if self.seen.len() >= self.prune_at {
            self.seen.retain(|_, block| !block.retired.load(Ordering::Relaxed));
            self.prune_at = 2 * self.seen.len() + 64;
        }
        self.seen.insert(number, block);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(slot: u64) -> Location {
        Location { device: DeviceId(3), slot }
    }

    fn read(reader: &mut MapReader, chunk: ChunkId) -> Option<Place> {
        let (place, reads) = reader.locate(chunk)?;
        count_read(reads, 1, 3);
        Some(place)
    }

    #[test]
    fn readers_follow_the_map() {
        let map = Arc::new(ChunkMap::default());
        let mut reader = MapReader::new(&map);
        assert_eq!(read(&mut reader, ChunkId(5)), None);
        map.map(ChunkId(5), at(7));
        assert_eq!(read(&mut reader, ChunkId(5)), Some(Place::home(at(7))));
        assert_eq!(map.locate(ChunkId(5)), Some(Place::home(at(7))));
        map.unmap(ChunkId(5), ChunkId(6));
        assert_eq!(read(&mut reader, ChunkId(5)), None);
        map.map(ChunkId(6), at(8));
        assert_eq!(
            read(&mut reader, ChunkId(6)),
            Some(Place::home(at(8))),
            "the block stays while ids of it are to come"
        );
        let mut reads = Vec::new();
        map.reads(|chunk, count| reads.push((chunk.0, count)));
        assert_eq!(reads, [(5, (1, 3)), (6, (1, 3))]);
    }

    #[test]
    fn a_chunk_is_read_where_its_copy_is() {
        let map = Arc::new(ChunkMap::default());
        let mut reader = MapReader::new(&map);
        map.map(ChunkId(5), at(7));
        let epoch = reader.enter();
        let copy = Place::copy(Location { device: DeviceId(63), slot: SLOTS_MAX - 1 });
        let ended = map.redirect(ChunkId(5), copy);
        assert!(!map.epochs.has_passed(ended));
        reader.leave(epoch);
        assert!(map.epochs.has_passed(ended));
        assert_eq!(read(&mut reader, ChunkId(5)), Some(copy));
        map.unmap(ChunkId(5), ChunkId(6));
        assert_eq!(map.locate(ChunkId(5)), None);
    }

    #[test]
    fn dead_blocks_are_let_go() {
        let map = Arc::new(ChunkMap::default());
        let mut reader = MapReader::new(&map);
        for chunk in (0..300 * BLOCK_CHUNKS).step_by(BLOCK_CHUNKS as usize) {
            map.map(ChunkId(chunk), at(chunk + 1));
            assert!(read(&mut reader, ChunkId(chunk)).is_some());
            map.unmap(ChunkId(chunk), ChunkId(chunk + BLOCK_CHUNKS));
        }
        assert!(map.blocks.read().is_empty());
        assert!(reader.seen.len() <= 129);
    }
}
