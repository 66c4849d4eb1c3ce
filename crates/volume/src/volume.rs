//! A volume: created, opened, looked at.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex, RwLock};
use saki_base::bytes::{put_u64, u64_at};
use saki_base::{CHUNK_BYTES, ChunkId, Generation, PageAddress, PageSize, checksum};
use saki_io::{Device, DeviceProfile, Governor};

use crate::admission::Admission;
use crate::blocking::BlockingIo;
use crate::durable::{Change, Durable};
use crate::error::VolumeError;
use crate::format::journal::{Records, replay};
use crate::format::superblock::{FORMAT_VERSION, SUPERBLOCK_BYTES, Superblock, Tail};
use crate::map::{ChunkMap, Location};
use crate::places::{Places, SuperblockDamage, places_of};
use crate::space::HeldGeneration;
use crate::space::{ChunkTable, Space};

/// Where the device profile lies: length 8, checksum 8, then its bytes.
const PROFILE_OFFSET: u64 = 768 << 10;
const PROFILE_HEADER_BYTES: usize = 16;
/// Largest device profile, in bytes.
pub const PROFILE_BYTES_MAX: usize = (64 << 10) - PROFILE_HEADER_BYTES;
/// Its bytes and the superblocks' lie apart.
const _: () = {
    let [first, second] = places_of(Generation(1));
    assert!(PROFILE_OFFSET >= first + SUPERBLOCK_BYTES as u64);
    assert!(PROFILE_OFFSET + ((PROFILE_HEADER_BYTES + PROFILE_BYTES_MAX) as u64) <= second);
};

/// What a new volume is to be.
#[derive(Clone)]
pub struct VolumeOptions {
    /// Size of every page, for ever.
    pub page_size: PageSize,
    /// Names the database among all others; drawn at random if absent.
    pub database_id: Option<u128>,
    /// A new journal is begun when the old one would exceed this (and twice the map it describes), in bytes.
    pub journal_bytes_max: u64,
    /// Bounds the reads in flight; made from the stored device profile if absent.
    pub governor: Option<Arc<Governor>>,
}

impl VolumeOptions {
    pub fn new(page_size: PageSize) -> Self {
        Self { page_size, database_id: None, journal_bytes_max: JOURNAL_BYTES_MAX, governor: None }
    }
}

/// How a volume is to be opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// As in [`VolumeOptions`].
    pub journal_bytes_max: u64,
    /// As in [`VolumeOptions`].
    pub governor: Option<Arc<Governor>>,
    /// Where the newest generation may have been lost, go back to the one before instead of refusing.
    pub accept_loss: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { journal_bytes_max: JOURNAL_BYTES_MAX, governor: None, accept_loss: false }
    }
}

const JOURNAL_BYTES_MAX: u64 = 1 << 20;

/// How full a volume is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VolumeStats {
    /// Slots the device has room for now (a file grows beyond them), 1 MiB each.
    pub total_slots: u64,
    /// Slots that can be given out without growing the device.
    pub free_slots: u64,
    /// Slots that become free when older generations are no longer held and another generation is published.
    pub pending_slots: u64,
    /// Slots of temporary data.
    pub scratch_slots: u64,
    /// Slots of the journal.
    pub journal_slots: u64,
    /// Published chunks.
    pub chunks: u64,
    /// Pages that the published generation refers to.
    pub live_pages: u64,
    /// Bytes of the device in use for anything.
    pub used_bytes: u64,
}

/// Chunks on a device, with one published generation at a time. See the crate's introduction.
pub struct Volume {
    pub(crate) device: Arc<dyn Device>,
    page_size: PageSize,
    database_id: u128,
    damages: Vec<SuperblockDamage>,
    pub(crate) map: Arc<ChunkMap>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) space: Arc<Mutex<Space>>,
    /// Taken before `space` where both are needed.
    pub(crate) durable: Mutex<Durable>,
    current: RwLock<Arc<HeldGeneration>>,
    /// Whether a publication is running.
    publishing: Mutex<bool>,
    publication_ended: Condvar,
}

impl Volume {
    /// Makes an empty volume, generation 1 with an empty root. Refuses a device that holds one already.
    pub fn create(device: Arc<dyn Device>, options: VolumeOptions) -> Result<Arc<Self>, VolumeError> {
        device.ensure_length(CHUNK_BYTES as u64)?;
        let mut io = BlockingIo::open(&device)?;
        let superblock = Superblock {
            version: FORMAT_VERSION,
            page_size: options.page_size,
            database_id: options.database_id.map_or_else(random_id, Ok)?,
            generation: Generation(0),
            next_chunk: ChunkId(0),
            journal_length: 0,
            journal_sequence: 0,
            journal_slots: Vec::new(),
            tails: Vec::new(),
            root: Vec::new(),
        };
        Places::create(&device, &mut io, superblock)?;
        drop(io);
        let VolumeOptions { journal_bytes_max, governor, .. } = options;
        Self::open_with(device, OpenOptions { journal_bytes_max, governor, accept_loss: false })
    }

    /// Opens a volume at its newest published generation.
    pub fn open(device: Arc<dyn Device>) -> Result<Arc<Self>, VolumeError> {
        Self::open_with(device, OpenOptions::default())
    }

    /// Opens a volume at its newest published generation.
    ///
    /// # Errors
    /// `GenerationLost` if that cannot be read, unless the loss is accepted; whatever else is wrong with the device
    /// or what it holds.
    pub fn open_with(device: Arc<dyn Device>, options: OpenOptions) -> Result<Arc<Self>, VolumeError> {
        let mut io = BlockingIo::open(&device)?;
        if !device.read_only() {
            // What is read from here on may have come from a cache: none of it may be lost once something is built on
            // it.
            io.flush()?;
        }
        let places = Places::read(&device, &mut io)?;
        let damages = places.damages();
        damages.iter().for_each(|damage| tracing::warn!("{}: {damage}", device.name()));
        let superblock = places.newest().clone();
        let lost = places.lost();
        if let (Some(places), false) = (lost, options.accept_loss) {
            let generation = superblock.generation;
            return Err(VolumeError::GenerationLost { device: device.name(), generation, places });
        }
        let (table, next_sequence) = read_chunks(&device, &mut io, &superblock)?;
        if !device.read_only() {
            places.mend(&mut io)?;
        }
        let governor = options.governor.map_or_else(|| governor(&mut io, superblock.page_size), Ok)?;
        let map = Arc::new(ChunkMap::default());
        let mut space = Space::recover(&device, &superblock, places.older(), table, Arc::clone(&map))?;
        let newest = superblock.generation;
        space.published(newest, Generation(newest.0.saturating_sub(1)));
        let space = Arc::new(Mutex::new(space));
        let volume = Arc::new(Self {
            page_size: superblock.page_size,
            database_id: superblock.database_id,
            damages,
            map,
            admission: Admission::new(governor),
            current: RwLock::new(HeldGeneration::new(newest, superblock.root.clone(), &space)),
            space,
            durable: Mutex::new(Durable::new(&device, superblock, next_sequence, options.journal_bytes_max)),
            publishing: Mutex::new(false),
            publication_ended: Condvar::new(),
            device,
        });
        if lost.is_some() && !volume.device.read_only() {
            tracing::warn!("{}: gone back to generation {}, as accepted", volume.device.name(), newest.0);
            // From here on this is what there was.
            volume.publish_again()?;
        }
        Ok(volume)
    }

    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// The database's name among all others.
    pub fn database_id(&self) -> u128 {
        self.database_id
    }

    /// Superblocks that were damaged when the volume was opened. It cost nothing, and opening for writing has mended
    /// them.
    pub fn superblock_damages(&self) -> &[SuperblockDamage] {
        &self.damages
    }

    /// The device, for messages.
    pub fn device_name(&self) -> String {
        self.device.name()
    }

    /// The newest published generation.
    pub fn generation(&self) -> Generation {
        self.current.read().generation()
    }

    /// The newest published root.
    pub fn root(&self) -> Vec<u8> {
        self.current.read().root().to_vec()
    }

    /// Holds the newest generation readable until dropped. Cheap.
    pub fn hold(&self) -> Arc<HeldGeneration> {
        Arc::clone(&self.current.read())
    }

    pub fn stats(&self) -> VolumeStats {
        // Not in the order of publishing (durable, then space), so never both at once.
        let journal_slots = self.durable.lock().superblock.journal_slots.len() as u64;
        let space = self.space.lock();
        VolumeStats {
            total_slots: space.total_slots(),
            free_slots: space.available_slots(),
            pending_slots: space.pending_slots(),
            scratch_slots: space.scratch_slots,
            journal_slots,
            chunks: space.chunks.len() as u64,
            live_pages: space.chunks.values().map(|chunk| u64::from(chunk.live_pages)).sum(),
            used_bytes: (space.total_slots() - space.available_slots()) * CHUNK_BYTES as u64,
        }
    }

    /// Live pages of every published chunk, in chunk order: what a walk over all roots must count too.
    pub fn live_pages(&self) -> Vec<(ChunkId, u32)> {
        let mut live: Vec<_> =
            self.space.lock().chunks.iter().map(|(chunk, state)| (*chunk, state.live_pages)).collect();
        live.sort_unstable();
        live
    }

    /// Where a page lies now.
    pub fn locate(&self, address: PageAddress) -> Option<Location> {
        self.map.locate(self.page_size.chunk_of(address))
    }

    /// Reads per chunk since the last call.
    pub fn take_chunk_reads(&self) -> Vec<(ChunkId, u32)> {
        let mut reads = Vec::new();
        self.map.take_reads(|chunk, count| reads.push((chunk, count)));
        reads
    }

    /// The stored device profile, if there is a whole one. A torn one is as good as none: it is measured again.
    pub fn device_profile(&self) -> Result<Option<Vec<u8>>, VolumeError> {
        read_profile(&mut BlockingIo::open(&self.device)?)
    }

    /// What bounds the reads in flight at the device.
    pub fn governor(&self) -> &Arc<Governor> {
        &self.admission.governor
    }

    /// Stores a device profile (JSON; opaque here) in its own place; generations do not come into it.
    pub fn store_device_profile(&self, profile: &[u8]) -> Result<(), VolumeError> {
        if profile.len() > PROFILE_BYTES_MAX {
            let what = "the device profile";
            return Err(VolumeError::TooLarge { what, bytes: profile.len(), bytes_max: PROFILE_BYTES_MAX });
        }
        let mut bytes = vec![0; PROFILE_HEADER_BYTES];
        put_u64(&mut bytes, 0, profile.len() as u64);
        put_u64(&mut bytes, 8, checksum(profile));
        bytes.extend_from_slice(profile);
        let mut io = BlockingIo::open(&self.device)?;
        io.write(PROFILE_OFFSET, &bytes)?;
        Ok(io.flush()?)
    }

    /// Runs `take`; if the device is full but slots wait only for the older superblock to go, writes that and tries
    /// again.
    pub(crate) fn allocate<T>(&self, take: impl Fn(&mut Space) -> Result<T, VolumeError>) -> Result<T, VolumeError> {
        let first = take(&mut self.space.lock());
        if !matches!(first, Err(VolumeError::Full { .. })) || !self.space.lock().awaits_superblock() {
            return first;
        }
        self.publish_again()?;
        take(&mut self.space.lock())
    }

    /// Publishes the newest generation once more, unchanged, so that the older superblock is no older than it.
    fn publish_again(&self) -> Result<(), VolumeError> {
        let mut durable = self.durable.lock();
        let superblock = &durable.superblock;
        let change = Change {
            records: Records::default(),
            tails: superblock.tails.clone(),
            next_chunk: superblock.next_chunk,
            root: superblock.root.clone(),
        };
        let root = change.root.clone();
        let generation = durable.publish(change, &self.space)?;
        self.set_current(generation, root);
        Ok(())
    }

    /// Makes a generation that is on the device the current one, and reuses what nobody reaches now.
    pub(crate) fn set_current(&self, generation: Generation, root: Vec<u8>) {
        let held = HeldGeneration::new(generation, root, &self.space);
        // The old one may be the last that holds its generation: its drop takes the space lock, so none is held here.
        let old = std::mem::replace(&mut *self.current.write(), held);
        drop(old);
        self.space.lock().reclaim();
    }

    pub(crate) fn start_publishing(&self) {
        let mut publishing = self.publishing.lock();
        while *publishing {
            self.publication_ended.wait(&mut publishing);
        }
        *publishing = true;
    }

    pub(crate) fn end_publishing(&self) {
        let was_publishing = std::mem::replace(&mut *self.publishing.lock(), false);
        assert!(was_publishing, "a publication ended twice");
        self.publication_ended.notify_one();
    }
}

fn read_profile(io: &mut BlockingIo) -> Result<Option<Vec<u8>>, VolumeError> {
    let bytes = io.read(PROFILE_OFFSET, PROFILE_HEADER_BYTES + PROFILE_BYTES_MAX)?;
    let length = u64_at(&bytes, 0).unwrap_or(0);
    if length == 0 || length > PROFILE_BYTES_MAX as u64 {
        return Ok(None);
    }
    let profile = &bytes[PROFILE_HEADER_BYTES..PROFILE_HEADER_BYTES + length as usize];
    Ok((u64_at(&bytes, 8) == Some(checksum(profile))).then(|| profile.to_vec()))
}

/// A governor that starts where the stored profile says, or an assumed one.
fn governor(io: &mut BlockingIo, page_size: PageSize) -> Result<Arc<Governor>, VolumeError> {
    let stored = read_profile(io)?.and_then(|profile| DeviceProfile::from_json(std::str::from_utf8(&profile).ok()?));
    Ok(Governor::new(&stored.unwrap_or_else(DeviceProfile::assumed), page_size.into()))
}

fn random_id() -> Result<u128, VolumeError> {
    use std::io::Read;
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| VolumeError::misuse(format!("no randomness for a database id: {error}")))?;
    Ok(u128::from_le_bytes(bytes))
}

fn truncated(device: &Arc<dyn Device>, needed_bytes: u64) -> VolumeError {
    let found_bytes = device.length_bytes().unwrap_or(0);
    VolumeError::Truncated { device: device.name(), needed_bytes, found_bytes }
}

/// The published chunks as the journal has them, and the sequence number of its next block.
fn read_chunks(
    device: &Arc<dyn Device>,
    io: &mut BlockingIo,
    superblock: &Superblock,
) -> Result<(ChunkTable, u64), VolumeError> {
    let stream = read_journal(device, io, superblock)?;
    let slots_end = device.length_bytes()? / CHUNK_BYTES as u64;
    let mut table = ChunkTable::new(superblock, slots_end);
    let newest = superblock.generation;
    let replayed = replay(&stream, superblock.journal_sequence, newest, |record, generation| {
        table.apply(record, generation == newest)
    });
    let next_sequence = replayed.map_err(|fault| match table.needed_slots {
        Some(slots) => truncated(device, slots * CHUNK_BYTES as u64),
        None => {
            let slot = superblock.journal_slots[fault.position / CHUNK_BYTES];
            let offset = u64::from(slot) * CHUNK_BYTES as u64 + (fault.position % CHUNK_BYTES) as u64;
            VolumeError::Corrupt { device: device.name(), offset, what: fault.what }
        }
    })?;
    // What is live in an open chunk has been written.
    let is_sound = |tail: &&Tail| table.chunks.get(&tail.chunk).is_some_and(|it| it.live_pages <= tail.next_page);
    if let Some(tail) = superblock.tails.iter().find(|tail| !is_sound(tail)) {
        let what = format!("the superblock's open {} is not as its journal says", tail.chunk);
        return Err(VolumeError::Corrupt { device: device.name(), offset: places_of(newest)[0], what });
    }
    Ok((table, next_sequence))
}

fn read_journal(
    device: &Arc<dyn Device>,
    io: &mut BlockingIo,
    superblock: &Superblock,
) -> Result<Vec<u8>, VolumeError> {
    let mut stream = Vec::with_capacity(superblock.journal_length as usize);
    let length = device.length_bytes()?;
    for slot in &superblock.journal_slots {
        let offset = u64::from(*slot) * CHUNK_BYTES as u64;
        let left = (superblock.journal_length as usize - stream.len()).min(CHUNK_BYTES);
        if left == 0 {
            break;
        }
        if *slot == 0 || offset + CHUNK_BYTES as u64 > length {
            return Err(truncated(device, offset + CHUNK_BYTES as u64));
        }
        stream.extend_from_slice(&io.read(offset, left.next_multiple_of(4096))?[..left]);
    }
    Ok(stream)
}
