//! What is on the devices: the newest superblock, and the order of writes that
//! replaces it.
//!
//! One device holds superblocks and journal, or two of them hold the same (each in slots of its own). A publish writes
//! journal blocks behind the published ones, flushes (which also makes the data pages durable, on every device that
//! was written to), writes the first place of the older superblock, and flushes again: until then the devices hold the
//! old generation, from then on the new one. Then it does the same with the second place, so that rot of either costs
//! nothing (`places`).
//!
//! If the first place's write or flush fails, nobody knows which generation the device holds. It is done again, until
//! it succeeds or patience ends; then nothing more is published until the volume is opened anew, because whatever is
//! overwritten may belong to the new generation. If the second's fails, the generation is published all the same; the
//! next publication begins with it.
//!
//! Any other flush that fails may have lost whatever was written before it, by anybody, and says so only once. So what
//! was begun before it is not published: [`Change::failed_flushes`].
//!
//! A generation is acknowledged once every device of the metadata has it. So each of them by itself has all that was
//! acknowledged; and where one is missing nothing is published, for otherwise the other could later be opened without
//! what this one has.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hashbrown::HashSet;
use parking_lot::Mutex;
use saki_base::planted::{self, Fault};
use saki_base::{CHUNK_BYTES, ChunkId, DeviceId, GenerationNumber};
use saki_io::{Device, DeviceError};

use crate::blocking::BlockingIo;
use crate::device::Members;
use crate::error::VolumeError;
use crate::format::journal::{BLOCK_ALIGNMENT, Records};
use crate::format::superblock::{JOURNAL_SLOTS_MAX, SUPERBLOCK_BYTES, Superblock, Tail};
use crate::format::table::DeviceEntry;
use crate::map::Location;
use crate::places::places_of;
use crate::space::Space;

/// What one publish changes.
pub(crate) struct Change {
    pub records: Records,
    pub tails: Vec<Tail>,
    pub next_chunk: ChunkId,
    pub root: Vec<u8>,
    /// [`Members::failed_flushes`] from before the first byte was written of what is published.
    pub failed_flushes: u64,
}

/// A device that holds superblocks and journal.
pub(crate) struct Seat {
    pub number: DeviceId,
    pub device: Arc<dyn Device>,
    /// Where the journal lies there, in its order.
    pub journal_slots: Vec<u32>,
}

pub(crate) struct Durable {
    members: Arc<Members>,
    seats: Vec<Seat>,
    /// As it is on every seat, but for the slots of the journal.
    pub superblock: Superblock,
    /// Sequence number of the next journal block.
    next_sequence: u64,
    /// A new journal is begun when this one would grow beyond this and beyond twice the map it describes.
    journal_bytes_max: u64,
    /// A new journal is begun with the next generation, since a seat does not have all of this one.
    renews: bool,
    /// The superblock's second places are not known to be durable.
    lacks_copy: bool,
    /// Places behind whose superblock the device table is durable as it is now: there only what comes before it is
    /// written anew, as much as if there were no table.
    tables: HashSet<(DeviceId, u64)>,
    /// Why nothing is published.
    failed: Option<VolumeError>,
}

/// Between two attempts to write a superblock: the first pause, then twice as long each time, up to the longest. All
/// together they take ten seconds.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_DOUBLINGS: u32 = 8;
const TRIES_MAX: u32 = 46;

/// Estimate of a chunk's part of a fresh journal: an assign and a live record, and records of two parts.
const CHUNK_RECORD_BYTES: u64 = 96;

/// Blocks that are to be written behind a journal, or as a new one.
struct JournalPart {
    bytes: Vec<u8>,
    /// Where they begin in the journal's stream.
    start: u64,
    /// Of the block behind them.
    next_sequence: u64,
}

impl Durable {
    pub fn new(
        members: &Arc<Members>,
        seats: Vec<Seat>,
        superblock: Superblock,
        next_sequence: u64,
        journal_bytes_max: u64,
    ) -> Self {
        let members = Arc::clone(members);
        let (renews, lacks_copy, tables, failed) = (false, false, HashSet::new(), None);
        Self { members, seats, superblock, next_sequence, journal_bytes_max, renews, lacks_copy, tables, failed }
    }

    /// Publishes nothing from now on.
    pub fn refuse(&mut self, reason: VolumeError) {
        self.failed.get_or_insert(reason);
    }

    /// What is refused because a device was missing is not any more.
    pub fn accept(&mut self) {
        self.failed.take_if(|reason| matches!(reason, VolumeError::MissingDevice { .. }));
    }

    /// Has the next publication begin a new journal on every seat.
    pub fn renew(&mut self) {
        self.renews = true;
    }

    /// Journal slots of all seats.
    pub fn journal_slots(&self) -> impl Iterator<Item = Location> {
        let of_seat = |seat: &Seat| {
            let device = seat.number;
            seat.journal_slots.iter().map(move |slot| Location { device, slot: u64::from(*slot) }).collect::<Vec<_>>()
        };
        self.seats.iter().flat_map(of_seat)
    }

    pub fn holds_metadata(&self, number: DeviceId) -> bool {
        self.seats.iter().any(|seat| seat.number == number)
    }

    /// One more device has superblocks and journal, from the next publication on.
    pub fn add_seat(&mut self, number: DeviceId, device: Arc<dyn Device>) {
        self.seats.push(Seat { number, device, journal_slots: Vec::new() });
        self.renews = true;
    }

    /// A device holds no superblocks any more; its journal's slots are no longer named. `None` if it was missing.
    pub fn remove_seat(&mut self, number: DeviceId) -> Option<Seat> {
        let place = self.seats.iter().position(|seat| seat.number == number)?;
        assert!(self.seats.len() > 1, "the last device of the metadata is removed");
        Some(self.seats.remove(place))
    }

    /// Removing it has failed.
    pub fn put_back_seat(&mut self, seat: Option<Seat>) {
        self.seats.extend(seat);
    }

    /// Makes `change` the newest generation. On an error before the superblock is touched the old one simply stays.
    pub fn publish(&mut self, change: Change, space: &Mutex<Space>) -> Result<GenerationNumber, VolumeError> {
        let devices = self.superblock.devices.clone();
        self.publish_with(change, devices, space)
    }

    /// The same with another device table.
    pub fn publish_with(
        &mut self,
        change: Change,
        devices: Vec<DeviceEntry>,
        space: &Mutex<Space>,
    ) -> Result<GenerationNumber, VolumeError> {
        self.failed.clone().map_or(Ok(()), Err)?;
        let mut ios = self.seats.iter().map(|seat| BlockingIo::open(&seat.device)).collect::<Result<Vec<_>, _>>()?;
        if self.lacks_copy {
            self.write_copies(&mut ios)?;
        }
        let mut next = self.superblock.clone();
        next.generation.0 += 1;
        next.tails = change.tails;
        next.next_chunk = change.next_chunk;
        next.root = change.root;
        if devices != next.devices {
            self.tables.clear();
        }
        next.devices = devices;
        let mut taken = Vec::new();
        let prepared = self.prepare(&mut ios, &change.records, &mut next, space, &mut taken);
        let (part, lists) = match prepared.and_then(|it| self.refuse_in_doubt(change.failed_flushes).map(|()| it)) {
            Ok(written) => written,
            Err(error) => {
                let mut space = space.lock();
                taken.into_iter().for_each(|location| space.give_back(location));
                return Err(error);
            }
        };
        for ((io, seat), slots) in ios.iter_mut().zip(&self.seats).zip(&lists) {
            next.journal_slots.clone_from(slots);
            next.assert_sound();
            let place = (seat.number, places_of(next.generation)[0]);
            let stored = write_superblock_patiently(&self.members, io, place, &next, &mut self.tables);
            if let Err(error) = stored {
                let (device, reason) = (self.seats[0].device.name(), error.to_string());
                let unknown = VolumeError::PublishOutcomeUnknown { device, reason };
                self.failed = Some(unknown.clone());
                return Err(unknown);
            }
        }
        self.adopt(next, lists, part.next_sequence, &mut space.lock());
        if let Err(error) = self.write_copies(&mut ios) {
            tracing::warn!("the superblock's copy is not written, and tried again with the next generation: {error}");
        }
        Ok(self.superblock.generation)
    }

    /// Writes the superblock's second places, durably.
    fn write_copies(&mut self, ios: &mut [BlockingIo]) -> Result<(), VolumeError> {
        self.lacks_copy = true;
        for (io, seat) in ios.iter_mut().zip(&self.seats) {
            self.superblock.journal_slots.clone_from(&seat.journal_slots);
            let place = (seat.number, places_of(self.superblock.generation)[1]);
            write_superblock(&self.members, io, place, &self.superblock, &mut self.tables)?;
        }
        self.lacks_copy = false;
        Ok(())
    }

    /// Writes the journal's next part on every seat, and makes durable whatever has been written to any device. Also
    /// tells where the journal lies on each seat then; slots taken for it are listed in `taken`.
    fn prepare(
        &self,
        ios: &mut [BlockingIo],
        records: &Records,
        next: &mut Superblock,
        space: &Mutex<Space>,
        taken: &mut Vec<Location>,
    ) -> Result<(JournalPart, Vec<Vec<u32>>), VolumeError> {
        let part = self.journal_part(records, next, space)?;
        let mut lists = Vec::with_capacity(self.seats.len());
        for (io, seat) in ios.iter_mut().zip(&self.seats) {
            let mut slots = if part.start == 0 { Vec::new() } else { seat.journal_slots.clone() };
            while (slots.len() * CHUNK_BYTES) < next.journal_length as usize {
                let slot = space.lock().take_journal_slot(seat.number)?;
                taken.push(Location { device: seat.number, slot: u64::from(slot) });
                slots.push(slot);
            }
            write_part(io, &part, &slots)?;
            lists.push(slots);
        }
        let written = self.members.take_written();
        if let Err(error) = self.flush(ios, &written) {
            // What is not durable has to be flushed by whoever comes next.
            written.into_iter().for_each(|number| self.members.written(number, 0));
            return Err(error.into());
        }
        Ok((part, lists))
    }

    /// Flushes the seats and every other device that has been written to.
    fn flush(&self, ios: &mut [BlockingIo], written: &[DeviceId]) -> Result<(), DeviceError> {
        if planted::is(Fault::SuperblockEarly) {
            return Ok(());
        }
        for number in written.iter().filter(|number| !self.holds_metadata(**number)) {
            let mut io = BlockingIo::open(&self.members.device(*number)?)?;
            self.members.flush(|| io.flush())?;
        }
        ios.iter_mut().try_for_each(|io| self.members.flush(|| io.flush()))
    }

    /// Refuses to publish what a flush that failed may have lost.
    fn refuse_in_doubt(&self, failed_flushes: u64) -> Result<(), VolumeError> {
        match self.members.failed_flushes() == failed_flushes {
            true => Ok(()),
            false => Err(VolumeError::WritesInDoubt { device: self.seats[0].device.name() }),
        }
    }

    /// The records' blocks, or a new journal with the whole map before them. Updates the journal's place in `next`.
    fn journal_part(
        &self,
        records: &Records,
        next: &mut Superblock,
        space: &Mutex<Space>,
    ) -> Result<JournalPart, VolumeError> {
        let mut bytes = Vec::new();
        let mut next_sequence = records.encode(next.generation, self.next_sequence, &mut bytes);
        let chunks = space.lock().chunks.len();
        let length_max = self.journal_bytes_max.max(2 * chunks as u64 * CHUNK_RECORD_BYTES);
        let slots_needed = |length: u64| length.div_ceil(CHUNK_BYTES as u64) as usize;
        let mut start = next.journal_length;
        let length = start + bytes.len() as u64;
        if start > 0 && (self.renews || length > length_max || slots_needed(length) > JOURNAL_SLOTS_MAX) {
            bytes.clear();
            next.journal_sequence = self.next_sequence;
            next_sequence = whole_map(&space.lock()).encode(next.generation, self.next_sequence, &mut bytes);
            next_sequence = records.encode(next.generation, next_sequence, &mut bytes);
            start = 0;
        }
        next.journal_length = start + bytes.len() as u64;
        if slots_needed(next.journal_length) > JOURNAL_SLOTS_MAX {
            return Err(VolumeError::ChunkMapFull { device: self.seats[0].device.name(), chunks });
        }
        assert!(start.is_multiple_of(BLOCK_ALIGNMENT as u64), "a journal block would begin at byte {start}");
        Ok(JournalPart { bytes, start, next_sequence })
    }

    /// The devices hold `next` now.
    fn adopt(&mut self, next: Superblock, lists: Vec<Vec<u32>>, next_sequence: u64, space: &mut Space) {
        assert_eq!(next.generation.0, self.superblock.generation.0 + 1, "generations are not counted one by one");
        assert!(next.next_chunk >= self.superblock.next_chunk, "{} would be allocated again", next.next_chunk);
        assert!(next_sequence >= self.next_sequence, "journal block {next_sequence} was written before");
        for (seat, slots) in self.seats.iter_mut().zip(lists) {
            for slot in seat.journal_slots.iter().filter(|slot| !slots.contains(slot)) {
                let location = Location { device: seat.number, slot: u64::from(*slot) };
                space.retire_journal_slot(location, next.generation);
            }
            seat.journal_slots = slots;
        }
        space.published(next.generation, self.superblock.generation);
        self.superblock = next;
        self.next_sequence = next_sequence;
        self.renews = false;
    }
}

/// Writes a superblock into one of its places, durably, again and again while the device fails: as long as nobody knows
/// which generation it holds, nothing else can be published, and once it is there it is the newest like any other.
fn write_superblock_patiently(
    members: &Members,
    io: &mut BlockingIo,
    place: (DeviceId, u64),
    superblock: &Superblock,
    tables: &mut HashSet<(DeviceId, u64)>,
) -> Result<(), DeviceError> {
    let mut tries = 0;
    loop {
        let Err(error) = write_superblock(members, io, place, superblock, tables) else { return Ok(()) };
        // A full disk may have room again, and a part of it may be written.
        let may_pass = matches!(error, DeviceError::Failed { .. } | DeviceError::Full { .. });
        if !may_pass || tries == TRIES_MAX {
            return Err(error);
        }
        if tries == 0 {
            tracing::warn!("{error}; the superblock is written again");
        }
        thread::sleep(PAUSE * (1 << tries.min(PAUSE_DOUBLINGS)));
        tries += 1;
    }
}

/// The same, once.
fn write_superblock(
    members: &Members,
    io: &mut BlockingIo,
    place: (DeviceId, u64),
    superblock: &Superblock,
    tables: &mut HashSet<(DeviceId, u64)>,
) -> Result<(), DeviceError> {
    let bytes = superblock.encode();
    // Until it is known to be there again.
    let has_table = tables.remove(&place);
    io.write(place.1, if has_table { &bytes[..SUPERBLOCK_BYTES] } else { &bytes })?;
    members.flush(|| io.flush())?;
    tables.insert(place);
    Ok(())
}

/// Writes a part of the journal into its slots.
fn write_part(io: &mut BlockingIo, part: &JournalPart, slots: &[u32]) -> Result<(), DeviceError> {
    let (mut bytes, mut start) = (part.bytes.as_slice(), part.start);
    while !bytes.is_empty() {
        let (slot, within) = (start / CHUNK_BYTES as u64, start % CHUNK_BYTES as u64);
        let (piece, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - within as usize));
        io.write(u64::from(slots[slot as usize]) * CHUNK_BYTES as u64 + within, piece)?;
        start += piece.len() as u64;
        bytes = rest;
    }
    Ok(())
}

/// The chunk map as records, in the order that makes the longest runs.
fn whole_map(space: &Space) -> Records {
    let mut chunks: Vec<_> = space.chunks.iter().collect();
    chunks.sort_unstable_by_key(|(chunk, _)| **chunk);
    let mut records = Records::default();
    chunks.iter().for_each(|(chunk, state)| records.assign(**chunk, state.location));
    let mut parts: Vec<_> =
        chunks.iter().flat_map(|(chunk, state)| state.parts.iter().map(|part| (part, **chunk))).collect();
    parts.sort_unstable();
    parts.iter().for_each(|(part, chunk)| records.part(*chunk, *part));
    chunks.iter().for_each(|(chunk, state)| records.live(**chunk, state.live_pages));
    records
}
