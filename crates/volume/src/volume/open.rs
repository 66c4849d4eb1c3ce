//! Making a volume, and opening one.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex, RwLock};
use saki_base::{CHUNK_BYTES, DeviceId, GenerationNumber};
use saki_io::{Device, DeviceError};

use super::profile::governor;
use super::survey::{FoundSeat, Survey};
use super::{NewDevice, OpenOptions, Volume, VolumeOptions};
use crate::blocking::BlockingIo;
use crate::device::admission::Admission;
use crate::device::{Member, Members};
use crate::durable::{Durable, Seat};
use crate::error::VolumeError;
use crate::format::journal::replay;
use crate::format::superblock::{FORMAT_VERSION, Superblock, Tail};
use crate::format::table::{DEVICES_MAX, DeviceEntry, LABEL_BYTES_MAX, METADATA_MAX, Role};
use crate::map::{ChunkMap, Location};
use crate::places::label::{label_of, read_label, write_label};
use crate::places::{Places, places_of};
use crate::space::slots::Slots;
use crate::space::{ChunkTable, HeldGeneration, Space};

impl Volume {
    /// Makes an empty volume on one device, generation 1 with an empty root. Refuses a device that holds one already.
    pub fn create(device: Arc<dyn Device>, options: VolumeOptions) -> Result<Arc<Self>, VolumeError> {
        let label = device.name();
        Self::create_on(vec![NewDevice::new(device, label)], options)
    }

    /// The same on several devices. The first two that take homes hold superblocks and journal.
    pub fn create_on(devices: Vec<NewDevice>, options: VolumeOptions) -> Result<Arc<Self>, VolumeError> {
        let entries = entries_of(&devices)?;
        let database_id = options.database_id.map_or_else(random_id, Ok)?;
        let superblock = Superblock {
            version: FORMAT_VERSION,
            page_size: options.page_size,
            database_id,
            generation: GenerationNumber(0),
            next_chunk: options.number.first_chunk(),
            journal_length: 0,
            journal_sequence: 0,
            journal_slots: Vec::new(),
            tails: Vec::new(),
            root: Vec::new(),
            devices: entries.clone(),
        };
        for NewDevice { device, .. } in &devices {
            prepare(device)?;
        }
        // The first device's label comes last: a superblock without one is the first device's.
        let label = |at: usize| -> Result<(), VolumeError> {
            write_label(&mut BlockingIo::open(&devices[at].device)?, label_of(&entries[at], database_id))
        };
        (1..devices.len()).try_for_each(label)?;
        for (entry, new) in entries.iter().zip(&devices).filter(|(entry, _)| entry.role.metadata) {
            let mut superblock = superblock.clone();
            superblock.journal_slots.clear();
            Places::create(&new.device, &mut BlockingIo::open(&new.device)?, superblock)
                .inspect_err(|error| tracing::debug!("device {}: {error}", entry.number.0))?;
        }
        label(0)?;
        let first = Arc::clone(&devices[0].device);
        let find = move |entry: &DeviceEntry| Ok(Arc::clone(&devices[usize::from(entry.number.0)].device));
        let VolumeOptions { journal_bytes_max, governor, .. } = options;
        let options = OpenOptions { journal_bytes_max, governor, find: Some(Arc::new(find)), ..OpenOptions::default() };
        Self::open_with(first, options)
    }

    /// Opens a volume of one device at its newest published generation.
    pub fn open(device: Arc<dyn Device>) -> Result<Arc<Self>, VolumeError> {
        Self::open_with(device, OpenOptions::default())
    }

    /// Opens a volume at its newest published generation, by one of the devices that hold its metadata.
    ///
    /// Devices that are missing are told by [`Self::missing_devices`]: what lies there cannot be read, everything else
    /// can. If one of them holds metadata, nothing is published.
    ///
    /// # Errors
    /// `GenerationLost` if that cannot be read, unless the loss is accepted; `WrongDevice` if a device is another than
    /// the table says; whatever else is wrong with the devices or what they hold.
    pub fn open_with(device: Arc<dyn Device>, options: OpenOptions) -> Result<Arc<Self>, VolumeError> {
        let survey = Survey::of(&device, &options)?;
        let damages = survey.damages();
        let mut superblock = survey.superblock().clone();
        superblock.devices = survey.devices.iter().map(|(entry, _)| entry.clone()).collect();
        let (newest, lost) = (superblock.generation, survey.newest_places().lost());
        if let (Some(places), false) = (lost, options.accept_loss) {
            let device = survey.newest_device().1.name();
            return Err(VolumeError::GenerationLost { device, generation: newest, places });
        }
        let (table, next_sequence) = read_chunks(&survey, &superblock)?;
        if !device.read_only() {
            survey.mend()?;
        }
        let members = members_of(&survey, &device, &superblock, &options)?;
        let map = Arc::new(ChunkMap::default());
        let mut space = recover_space(&survey, &superblock, table, &map)?;
        space.published(newest, GenerationNumber(newest.0.saturating_sub(1)));
        let space = Arc::new(Mutex::new(space));
        let seats = survey.seats.iter().map(seat_of).collect();
        let root = superblock.root.clone();
        let (page_size, database_id) = (superblock.page_size, superblock.database_id);
        let mut durable = Durable::new(&members, seats, superblock, next_sequence, options.journal_bytes_max);
        let missing = survey.missing_seat();
        let (is_stale, is_empty) = survey.stale_seats();
        missing.clone().into_iter().for_each(|reason| durable.refuse(reason));
        if is_stale {
            durable.renew();
        }
        let volume = Arc::new(Self {
            members,
            page_size,
            database_id,
            damages,
            map,
            current: RwLock::new(HeldGeneration::new(newest, root, &space)),
            space,
            durable: Mutex::new(durable),
            publishing: Mutex::new(false),
            publication_ended: Condvar::new(),
            changing: Mutex::new(()),
        });
        for (label, reason) in volume.missing_devices() {
            tracing::warn!("{label}: a device of the database is missing, and what lies there: {reason}");
        }
        if (lost.is_some() || is_stale) && missing.is_none() && !device.read_only() {
            if lost.is_some() {
                tracing::warn!("{}: gone back to generation {}, as accepted", device.name(), newest.0);
            }
            // From here on this is what there was, on every device of the metadata; and in all places of each.
            volume.publish_again()?;
            if is_empty {
                volume.publish_again()?;
            }
        }
        Ok(volume)
    }
}

/// Makes room for what lies in slot 0, and refuses a device that belongs to a database.
pub(crate) fn prepare(device: &Arc<dyn Device>) -> Result<(), VolumeError> {
    device.ensure_length(CHUNK_BYTES as u64)?;
    let mut io = BlockingIo::open(device)?;
    match read_label(device, &mut io)?.is_some() || Places::are_there(&mut io)? {
        true => Err(VolumeError::AlreadyADatabase { device: device.name() }),
        false => Ok(()),
    }
}

/// Refuses what cannot be a label.
pub(crate) fn check_label(label: &str) -> Result<(), VolumeError> {
    match label.len() {
        0..=LABEL_BYTES_MAX => Ok(()),
        bytes => Err(VolumeError::TooLarge { what: "the label of a device", bytes, bytes_max: LABEL_BYTES_MAX }),
    }
}

/// The table of a new volume.
fn entries_of(devices: &[NewDevice]) -> Result<Vec<DeviceEntry>, VolumeError> {
    let refused = |what: String| Err(VolumeError::Refused { what });
    if devices.len() > DEVICES_MAX {
        return refused(format!("{} devices: a database has at most {DEVICES_MAX}", devices.len()));
    }
    let mut entries: Vec<DeviceEntry> = Vec::new();
    let mut metadata = 0;
    for (number, new) in (0..).zip(devices) {
        check_label(&new.label)?;
        if entries.iter().any(|entry| entry.label == new.label) {
            return refused(format!("{}: the device is given twice", new.label));
        }
        let holds_metadata = new.role.homes && metadata < METADATA_MAX;
        metadata += usize::from(holds_metadata);
        entries.push(DeviceEntry {
            number: DeviceId(number),
            label: new.label.clone(),
            class: new.class,
            role: Role { metadata: holds_metadata, draining: false, ..new.role },
            attached: GenerationNumber(0),
            slots_max: new.slots_max,
        });
    }
    match entries.first() {
        Some(first) if first.role.metadata => Ok(entries),
        _ => refused("the first device of a database is at home to its data: it cannot be for copies alone".to_owned()),
    }
}

fn random_id() -> Result<u128, VolumeError> {
    use std::io::Read;
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| VolumeError::misuse(format!("no randomness for a database id: {error}")))?;
    Ok(u128::from_le_bytes(bytes))
}

fn members_of(
    survey: &Survey,
    first: &Arc<dyn Device>,
    superblock: &Superblock,
    options: &OpenOptions,
) -> Result<Arc<Members>, VolumeError> {
    let member = |(entry, found): &(DeviceEntry, Result<Arc<dyn Device>, String>)| {
        let governor = match (found, &options.governor) {
            (Ok(device), Some(given)) if Arc::ptr_eq(device, first) => Arc::clone(given),
            (Ok(device), _) => governor(device, superblock.page_size)?,
            (Err(_), _) => saki_io::Governor::new(&saki_io::DeviceProfile::assumed(), superblock.page_size.into()),
        };
        Ok(Member { entry: entry.clone(), device: found.clone(), admission: Admission::new(governor) })
    };
    let members = survey.devices.iter().map(member).collect::<Result<_, VolumeError>>()?;
    Ok(Members::new(members))
}

fn seat_of(seat: &FoundSeat) -> Seat {
    let journal_slots = seat.places.as_ref().map_or(Vec::new(), |places| places.newest().journal_slots.clone());
    Seat { number: seat.number, device: Arc::clone(&seat.device), journal_slots }
}

/// Slots of a device's journals.
fn journal_of(seat: &FoundSeat, superblock: &Superblock) -> impl Iterator<Item = Location> {
    let device = seat.number;
    let slots = superblock.journal_slots.clone();
    slots.into_iter().map(move |slot| Location { device, slot: u64::from(slot) })
}

fn recover_space(
    survey: &Survey,
    superblock: &Superblock,
    table: ChunkTable,
    map: &Arc<ChunkMap>,
) -> Result<Space, VolumeError> {
    let mut retired: Vec<Location> = Vec::new();
    for seat in &survey.seats {
        let slots_end = seat.device.length_bytes()? / CHUNK_BYTES as u64;
        let whole = seat.places.iter().flat_map(Places::whole);
        retired.extend(whole.flat_map(|superblock| journal_of(seat, superblock)).filter(|it| it.slot < slots_end));
    }
    retired.sort_unstable();
    retired.dedup();
    retired.retain(|location| !table.slots.contains(location));
    let present = survey.devices.iter().filter_map(|(entry, found)| Some((entry, found.as_ref().ok()?)));
    let slots = |(entry, device): (&DeviceEntry, &Arc<dyn Device>)| {
        Ok((entry.number, entry.role, Slots::new(device, entry.slots_max, entry.role.metadata)?))
    };
    let devices = present.map(slots).collect::<Result<_, VolumeError>>()?;
    Ok(Space::recover(superblock, table, retired, devices, Arc::clone(map)))
}

fn truncated(device: &Arc<dyn Device>, needed_bytes: u64) -> VolumeError {
    let found_bytes = device.length_bytes().unwrap_or(0);
    VolumeError::Truncated { device: device.name(), needed_bytes, found_bytes }
}

/// The published chunks as the journal has them, and the sequence number of its next block.
fn read_chunks(survey: &Survey, superblock: &Superblock) -> Result<(ChunkTable, u64), VolumeError> {
    let (_, device) = survey.newest_device();
    let stream = read_journal(device, superblock)?;
    let end = |found: &Arc<dyn Device>| found.length_bytes().map(|bytes| bytes / CHUNK_BYTES as u64);
    let end = |(entry, found): &(DeviceEntry, Result<Arc<dyn Device>, String>)| {
        Ok((entry.number, found.as_ref().ok().map(end).transpose()?))
    };
    let slots_end: HashMap<_, _> = survey.devices.iter().map(end).collect::<Result<_, DeviceError>>()?;
    let seats = survey.seats.iter().filter_map(|seat| Some((seat, seat.places.as_ref()?.newest())));
    let mut table =
        ChunkTable::new(superblock, slots_end, seats.flat_map(|(seat, superblock)| journal_of(seat, superblock)));
    let newest = superblock.generation;
    let replayed = replay(&stream, superblock.journal_sequence, newest, |record, generation| {
        table.apply(record, generation == newest)
    });
    let next_sequence = replayed.map_err(|fault| match table.needed_slots {
        Some((number, slots)) => {
            let short = survey.devices.iter().find(|(entry, _)| entry.number == number);
            let short = short.and_then(|(_, found)| found.as_ref().ok()).unwrap_or(device);
            truncated(short, slots * CHUNK_BYTES as u64)
        }
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

fn read_journal(device: &Arc<dyn Device>, superblock: &Superblock) -> Result<Vec<u8>, VolumeError> {
    let mut io = BlockingIo::open(device)?;
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
