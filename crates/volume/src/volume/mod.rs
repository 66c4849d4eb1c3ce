//! A volume: created, opened, looked at.

mod image;
mod open;
pub(crate) mod profile;
mod restoration;
mod survey;

use std::sync::Arc;

use parking_lot::{Condvar, Mutex, RwLock};
use saki_base::{
    CHUNK_BYTES, ChunkId, Critical, DeviceId, GenerationNumber, PageAddress, PageSize, Part, VolumeNumber,
};
use saki_io::{Device, DeviceError, Governor, Traffic};

use crate::device::{Member, Members};
use crate::durable::{Change, Durable};
use crate::error::VolumeError;
use crate::format::journal::Records;
use crate::format::table::{Class, DeviceEntry, Role};
use crate::map::{ChunkMap, Location};
use crate::places::SuperblockDamage;
use crate::space::{DeviceSlots, HeldGeneration, Space};

pub use image::{HeldImage, Image, ImageChunk, ImageReader};
pub(crate) use open::{check_label, prepare};
pub use profile::PROFILE_BYTES_MAX;
pub use restoration::{Restoration, RestorationWriter};

/// What a new volume is to be.
#[derive(Clone)]
pub struct VolumeOptions {
    /// Size of every page, for ever.
    pub page_size: PageSize,
    /// With what the addresses of its pages begin, for ever; another one than that of any volume whose pages are read
    /// together with its own.
    pub number: VolumeNumber,
    /// Names the database among all others; drawn at random if absent.
    pub database_id: Option<u128>,
    /// A new journal is begun when the old one would exceed this (and twice the map it describes), in bytes.
    pub journal_bytes_max: u64,
    /// Bounds the reads in flight at the first device; made from the stored device profile if absent.
    pub governor: Option<Arc<Governor>>,
}

impl VolumeOptions {
    pub fn new(page_size: PageSize) -> Self {
        Self {
            page_size,
            number: VolumeNumber(0),
            database_id: None,
            journal_bytes_max: JOURNAL_BYTES_MAX,
            governor: None,
        }
    }
}

/// A device that is to become part of a volume.
#[derive(Clone)]
pub struct NewDevice {
    pub device: Arc<dyn Device>,
    /// By what it is found again: as a rule its path. At most 900 bytes.
    pub label: String,
    pub class: Class,
    /// Whether it holds metadata is the volume's to decide.
    pub role: Role,
    /// Slots of 1 MiB that it may have at most.
    pub slots_max: Option<u64>,
}

impl NewDevice {
    /// A standard device for homes.
    pub fn new(device: Arc<dyn Device>, label: impl Into<String>) -> Self {
        Self { device, label: label.into(), class: Class::Standard, role: Role::HOMES, slots_max: None }
    }
}

/// Opens a device of a volume by what its table says of it.
pub type FindDevice = Arc<dyn Fn(&DeviceEntry) -> Result<Arc<dyn Device>, DeviceError> + Send + Sync>;

/// How a volume is to be opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// As in [`VolumeOptions`].
    pub journal_bytes_max: u64,
    /// As in [`VolumeOptions`].
    pub governor: Option<Arc<Governor>>,
    /// Where the newest generation may have been lost, go back to the one before instead of refusing.
    pub accept_loss: bool,
    /// Opens the other devices of the volume; without it they count as missing.
    pub find: Option<FindDevice>,
    /// By what the device is found now, if it has been moved.
    pub label: Option<String>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { journal_bytes_max: JOURNAL_BYTES_MAX, governor: None, accept_loss: false, find: None, label: None }
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

/// A device of a volume, as it is now.
#[derive(Clone, Debug)]
pub struct DeviceStatus {
    pub entry: DeviceEntry,
    /// The device's own name, or its label where it is missing.
    pub name: String,
    /// Why it is not there, if it is not.
    pub missing: Option<String>,
    pub slots: DeviceSlots,
    pub journal_slots: u64,
    /// Reads of pages and of chunks that moved, since the volume was opened.
    pub reads: Traffic,
    /// Bytes of pages, temporary data and chunks that moved, since then.
    pub written_bytes: u64,
    pub reads_in_flight: u32,
    pub reads_in_flight_max: u32,
}

/// A published chunk, as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishedChunk {
    pub chunk: ChunkId,
    pub home: Location,
    pub copy: Option<Location>,
    pub live_pages: u32,
    /// What has been written into it: one part, or several where none of them was large. Empty: not known, as an
    /// earlier version wrote it.
    pub parts: Vec<Part>,
}

/// Chunks on devices, with one published generation at a time. See the crate's introduction.
pub struct Volume {
    pub(crate) members: Arc<Members>,
    page_size: PageSize,
    database_id: u128,
    damages: Vec<SuperblockDamage>,
    pub(crate) map: Arc<ChunkMap>,
    pub(crate) space: Arc<Mutex<Space>>,
    /// Taken before `space` where both are needed.
    pub(crate) durable: Mutex<Durable>,
    current: RwLock<Arc<HeldGeneration>>,
    /// Whether a publication is running.
    publishing: Mutex<bool>,
    publication_ended: Condvar,
    /// Held while devices are added, drained or removed: one at a time.
    pub(crate) changing: Mutex<()>,
}

impl Volume {
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

    /// The first device, for messages.
    pub fn device_name(&self) -> String {
        self.members.first().1.name()
    }

    /// A device, to be measured; `None` if it is not there.
    pub fn device(&self, number: DeviceId) -> Option<Arc<dyn Device>> {
        self.members.device(number).ok()
    }

    /// A device, for messages.
    pub fn name_of(&self, number: DeviceId) -> String {
        self.members.get(number).map_or_else(|| format!("device {}", number.0), |member| member.name())
    }

    /// The devices, in the order of their numbers.
    pub fn devices(&self) -> Vec<DeviceStatus> {
        let journal: Vec<_> = self.durable.lock().journal_slots().collect();
        let space = self.space.lock();
        let status = |member: Arc<Member>| DeviceStatus {
            name: member.name(),
            missing: member.device.as_ref().err().cloned(),
            slots: space.device_slots(member.entry.number),
            journal_slots: journal.iter().filter(|location| location.device == member.entry.number).count() as u64,
            reads: member.admission.governor.traffic(),
            written_bytes: self.members.written_bytes(member.entry.number),
            reads_in_flight: member.admission.governor.in_flight(),
            reads_in_flight_max: member.admission.governor.limit(),
            entry: member.entry.clone(),
        };
        self.members.all().into_iter().map(status).collect()
    }

    /// What is missing, if anything: the label of each device that is not there, and why.
    pub fn missing_devices(&self) -> Vec<(String, String)> {
        let missing = |member: Arc<Member>| Some((member.entry.label.clone(), member.device.as_ref().err()?.clone()));
        self.members.all().into_iter().filter_map(missing).collect()
    }

    /// The newest published generation.
    pub fn generation(&self) -> GenerationNumber {
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
        let journal_slots = self.durable.lock().journal_slots().count() as u64;
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

    /// Every published chunk, in chunk order.
    pub fn published_chunks(&self) -> Vec<PublishedChunk> {
        let space = self.space.lock();
        let published = space.chunks.iter().map(|(chunk, state)| PublishedChunk {
            chunk: *chunk,
            home: state.location,
            copy: state.copy,
            live_pages: state.live_pages,
            parts: state.parts.iter().collect(),
        });
        let mut chunks: Vec<_> = published.collect();
        chunks.sort_unstable_by_key(|chunk| chunk.chunk);
        chunks
    }

    /// Where a page is read now.
    pub fn locate(&self, address: PageAddress) -> Option<Location> {
        Some(self.map.locate(self.page_size.chunk_of(address))?.location)
    }

    /// Calls `each` with every chunk that has been read since the volume was opened, and the requests and pages that
    /// were read of it, from home or copy; pages of it that were read one behind another count as one request. Both
    /// begin again at zero behind 2^32.
    pub fn chunk_reads(&self, each: impl FnMut(ChunkId, (u32, u32))) {
        self.map.reads(each);
    }

    /// Requests to all devices since the volume was opened: reads of pages, and of chunks that moved.
    pub fn reads(&self) -> u64 {
        self.members.all().iter().map(|member| member.admission.governor.traffic().requests).sum()
    }

    /// How often a chunk has come to be read elsewhere since the volume was opened: from a copy, or no longer from it,
    /// or from another home.
    pub fn moves(&self) -> u64 {
        self.map.epochs.ended()
    }

    /// What bounds the reads in flight at the first device that is there.
    pub fn governor(&self) -> Arc<Governor> {
        let (first, _) = self.members.first();
        Arc::clone(&self.members.get(first).expect("just found").admission.governor)
    }

    /// Copies that were dropped since the volume was opened because they were not what they should be.
    pub fn copies_distrusted(&self) -> u64 {
        self.space.lock().copies_distrusted
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
    pub(crate) fn publish_again(&self) -> Result<(), VolumeError> {
        let mut durable = self.durable.lock();
        let devices = durable.superblock.devices.clone();
        let failed_flushes = self.members.failed_flushes();
        self.publish_records(&mut durable, Records::default(), devices, failed_flushes).map(drop)
    }

    /// Publishes the newest generation once more, with chunks that have moved or another device table.
    pub(crate) fn publish_records(
        &self,
        durable: &mut Durable,
        records: Records,
        devices: Vec<DeviceEntry>,
        failed_flushes: u64,
    ) -> Result<GenerationNumber, VolumeError> {
        let superblock = &durable.superblock;
        let (tails, next_chunk) = (superblock.tails.clone(), superblock.next_chunk);
        let change = Change { records, tails, next_chunk, root: superblock.root.clone(), failed_flushes };
        let root = change.root.clone();
        let _critical = Critical::enter("publishing a generation");
        let generation = durable.publish_with(change, devices, &self.space)?;
        self.set_current(generation, root);
        Ok(generation)
    }

    /// Makes a generation that is on the device the current one, and reuses what nobody reaches now.
    pub(crate) fn set_current(&self, generation: GenerationNumber, root: Vec<u8>) {
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
