//! What is there of a volume: its devices, and the superblock that counts.
//!
//! One device is given. Its device table tells the others; if one of those has a newer superblock, that one's table
//! counts, and so on. A device that cannot be opened is missing; one that is there and is another is refused.

use std::sync::Arc;

use saki_base::{DeviceId, GenerationNumber};
use saki_io::{Device, DeviceError};

use super::OpenOptions;
use crate::blocking::BlockingIo;
use crate::error::VolumeError;
use crate::format::label::{LABEL_BYTES, LABEL_PLACES, Label};
use crate::format::superblock::Superblock;
use crate::format::table::DeviceEntry;
use crate::places::label::{expect_label, label_of, read_label, write_label};
use crate::places::{Places, SuperblockDamage};

/// A device, or why it is not there.
pub(super) type Found = Result<Arc<dyn Device>, String>;

/// A device of the metadata that is there.
pub(super) struct FoundSeat {
    pub number: DeviceId,
    pub device: Arc<dyn Device>,
    /// `None` if there is no whole superblock.
    pub places: Option<Places>,
}

pub(super) struct Survey {
    pub devices: Vec<(DeviceEntry, Found)>,
    pub seats: Vec<FoundSeat>,
    /// Which seat has the superblock that counts.
    newest: usize,
}

impl Survey {
    pub fn of(device: &Arc<dyn Device>, options: &OpenOptions) -> Result<Self, VolumeError> {
        let places = read_places(device)?;
        let own = own_number(device, places.newest())?;
        let seat = FoundSeat { number: own, device: Arc::clone(device), places: Some(places) };
        let mut survey = Self { devices: Vec::new(), seats: vec![seat], newest: 0 };
        loop {
            let superblock = survey.superblock().clone();
            survey.find_devices(own, device, &superblock, options)?;
            survey.read_seats()?;
            survey.newest = survey.newest_seat();
            if survey.superblock().generation == superblock.generation {
                survey.take_label(own, device, options);
                return Ok(survey);
            }
        }
    }

    pub fn superblock(&self) -> &Superblock {
        self.newest_places().newest()
    }

    pub fn newest_places(&self) -> &Places {
        self.seats[self.newest].places.as_ref().expect("the newest superblock is whole")
    }

    pub fn newest_device(&self) -> (DeviceId, &Arc<dyn Device>) {
        let seat = &self.seats[self.newest];
        (seat.number, &seat.device)
    }

    /// A device of the metadata that is not there.
    pub fn missing_seat(&self) -> Option<VolumeError> {
        let missing = self.devices.iter().filter(|(entry, _)| entry.role.metadata);
        missing.into_iter().find_map(|(entry, found)| {
            let (device, reason) = (entry.label.clone(), found.as_ref().err()?.clone());
            Some(VolumeError::MissingDevice { device, reason })
        })
    }

    /// Whether some seat does not have the newest generation, and whether some has none at all.
    pub fn stale_seats(&self) -> (bool, bool) {
        let newest = self.superblock().generation;
        let generation = |seat: &FoundSeat| seat.places.as_ref().map(|places| places.newest().generation);
        let generations: Vec<Option<GenerationNumber>> = self.seats.iter().map(generation).collect();
        (generations.iter().any(|found| *found != Some(newest)), generations.contains(&None))
    }

    pub fn damages(&self) -> Vec<SuperblockDamage> {
        let of_seat = |seat: &FoundSeat| {
            let damages = seat.places.as_ref().map(Places::damages).unwrap_or_default();
            damages.iter().for_each(|damage| tracing::warn!("{}: {damage}", seat.device.name()));
            damages
        };
        self.seats.iter().flat_map(of_seat).collect()
    }

    /// Gives every device its label, and every pair of superblocks a second one, as far as they lack it.
    pub fn mend(&self) -> Result<(), VolumeError> {
        let database_id = self.superblock().database_id;
        for (entry, found) in &self.devices {
            let Ok(device) = found else { continue };
            let mut io = BlockingIo::open(device)?;
            if !has_labels(&mut io, label_of(entry, database_id))? {
                write_label(&mut io, label_of(entry, database_id))?;
            }
        }
        for seat in &self.seats {
            if let Some(places) = &seat.places {
                places.mend(&mut BlockingIo::open(&seat.device)?)?;
            }
        }
        Ok(())
    }

    /// Opens what the table lists and has not been opened yet.
    fn find_devices(
        &mut self,
        own: DeviceId,
        device: &Arc<dyn Device>,
        superblock: &Superblock,
        options: &OpenOptions,
    ) -> Result<(), VolumeError> {
        let known = std::mem::take(&mut self.devices);
        let is_same = |a: &DeviceEntry, b: &DeviceEntry| (a.number, a.attached) == (b.number, b.attached);
        for entry in &superblock.devices {
            let found = match known.iter().find(|(other, _)| is_same(other, entry)) {
                Some((_, found)) => found.clone(),
                None if entry.number == own => Ok(Arc::clone(device)),
                None => find(entry, superblock.database_id, options)?,
            };
            self.devices.push((entry.clone(), found));
        }
        if !self.devices.iter().any(|(entry, _)| entry.number == own && entry.role.metadata) {
            let what = "it does not hold the database's metadata any more".to_owned();
            return Err(VolumeError::WrongDevice { device: device.name(), what });
        }
        let is_listed =
            |seat: &FoundSeat| self.devices.iter().any(|(entry, _)| entry.number == seat.number && entry.role.metadata);
        self.seats.retain(is_listed);
        Ok(())
    }

    /// Reads the superblocks of the metadata's devices that have not been read yet.
    fn read_seats(&mut self) -> Result<(), VolumeError> {
        for (entry, found) in &self.devices {
            let Ok(device) = found else { continue };
            if !entry.role.metadata || self.seats.iter().any(|seat| seat.number == entry.number) {
                continue;
            }
            let places = match read_places(device) {
                Ok(places) => Some(places),
                Err(error @ VolumeError::Device(_)) => return Err(error),
                Err(error) => {
                    tracing::warn!("{error}; what it should hold is written anew");
                    None
                }
            };
            self.seats.push(FoundSeat { number: entry.number, device: Arc::clone(device), places });
        }
        Ok(())
    }

    /// A generation that was acknowledged is on every seat. So one seat that has lost nothing is enough.
    fn newest_seat(&self) -> usize {
        let rank = |places: &Places| (places.lost().is_none(), places.newest().generation);
        let ranked = self.seats.iter().enumerate().filter_map(|(at, seat)| Some((rank(seat.places.as_ref()?), at)));
        ranked.max_by_key(|(rank, at)| (*rank, std::cmp::Reverse(*at))).expect("the first seat has a superblock").1
    }

    /// Notes by what the first device is found now.
    fn take_label(&mut self, own: DeviceId, device: &Arc<dyn Device>, options: &OpenOptions) {
        let label = options.label.clone().unwrap_or_else(|| device.name());
        let is_taken = self.devices.iter().any(|(entry, _)| entry.number != own && entry.label == label);
        let entry = self.devices.iter_mut().map(|(entry, _)| entry).find(|entry| entry.number == own);
        let entry = entry.expect("the device is part of its volume");
        if !is_taken && (options.label.is_some() || entry.label.is_empty()) {
            entry.label = label;
        }
    }
}

/// The device's superblocks, flushed first.
fn read_places(device: &Arc<dyn Device>) -> Result<Places, VolumeError> {
    let mut io = BlockingIo::open(device)?;
    if !device.read_only() {
        // What is read from here on may have come from a cache: none of it may be lost once something is built on
        // it.
        io.flush()?;
    }
    Places::read(device, &mut io)
}

/// Which device of the volume this one is. One that has a superblock and no label is the first, of a volume that was
/// made before there were labels, or not quite made.
fn own_number(device: &Arc<dyn Device>, superblock: &Superblock) -> Result<DeviceId, VolumeError> {
    match read_label(device, &mut BlockingIo::open(device)?)? {
        None => Ok(superblock.devices.first().map_or(DeviceId(0), |entry| entry.number)),
        Some(label) if label.database_id == superblock.database_id => Ok(label.number),
        Some(_) => {
            let what = "its label and its superblocks are of different databases".to_owned();
            Err(VolumeError::Corrupt { device: device.name(), offset: LABEL_PLACES[0], what })
        }
    }
}

/// Opens a device of the table, and holds it to its label. One that cannot be opened is missing.
fn find(entry: &DeviceEntry, database_id: u128, options: &OpenOptions) -> Result<Found, VolumeError> {
    let Some(find) = &options.find else { return Ok(Err("nobody has looked for it".to_owned())) };
    let device = match find(entry) {
        Ok(device) => device,
        Err(error @ (DeviceError::Failed { .. } | DeviceError::OutOfRange { .. })) => {
            return Ok(Err(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    expect_label(&device, &mut BlockingIo::open(&device)?, entry, database_id)?;
    Ok(Ok(device))
}

/// Whether both places have this label.
fn has_labels(io: &mut BlockingIo, label: Label) -> Result<bool, VolumeError> {
    for place in LABEL_PLACES {
        if Label::decode(&io.read(place, LABEL_BYTES)?) != Some(label) {
            return Ok(false);
        }
    }
    Ok(true)
}
