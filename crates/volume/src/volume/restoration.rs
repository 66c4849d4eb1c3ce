//! A volume made anew from an image: chunks first, superblocks last.
//!
//! Until the last step there is neither superblock nor label on the device, so what an interruption leaves is no
//! database.

use std::sync::Arc;

use saki_base::{CHUNK_BYTES, ChunkId, DeviceId, GenerationNumber};
use saki_io::Device;

use super::image::Image;
use super::open::{check_label, prepare};
use crate::blocking::BlockingIo;
use crate::error::VolumeError;
use crate::format::journal::Records;
use crate::format::superblock::{FORMAT_VERSION, JOURNAL_SLOTS_MAX, ROOT_BYTES_MAX, Superblock, TAILS_MAX, Tail};
use crate::format::table::{Class, DeviceEntry, Role};
use crate::map::{Location, SLOTS_MAX};
use crate::places::Places;
use crate::places::label::{label_of, write_label};

const DEVICE: DeviceId = DeviceId(0);
/// The device grows by so many slots at a time.
const GROWTH_SLOTS: u64 = 64;

/// A volume of one device that is being written as an [`Image`] says. Several threads may write chunks at once.
pub struct Restoration {
    device: Arc<dyn Device>,
    label: String,
    image: Image,
}

impl Restoration {
    /// Begins on a device that holds no database; `label`: by what it is found again.
    ///
    /// # Errors
    /// `AlreadyADatabase`; `Refused` if the image contradicts itself; of the device.
    pub fn begin(device: Arc<dyn Device>, label: String, image: Image) -> Result<Self, VolumeError> {
        check_label(&label)?;
        check(&image)?;
        prepare(&device)?;
        Ok(Self { device, label, image })
    }

    pub fn image(&self) -> &Image {
        &self.image
    }

    /// A writer of chunks, for one thread.
    ///
    /// # Errors
    /// Of the device.
    pub fn writer(&self) -> Result<RestorationWriter<'_>, VolumeError> {
        Ok(RestorationWriter { restoration: self, io: BlockingIo::open(&self.device)? })
    }

    /// Makes what was written a volume: every chunk of the image has been.
    ///
    /// # Errors
    /// `ChunkMapFull`; of the device. Then there is no volume.
    pub fn finish(self) -> Result<(), VolumeError> {
        let mut io = BlockingIo::open(&self.device)?;
        let entry = DeviceEntry {
            number: DEVICE,
            label: self.label.clone(),
            class: Class::Standard,
            role: Role { metadata: true, ..Role::HOMES },
            attached: GenerationNumber(0),
            slots_max: None,
        };
        let mut journal = Vec::new();
        // Of the first generation that there will be.
        self.records().encode(GenerationNumber(0), 0, &mut journal);
        let first = 1 + self.image.chunks.len() as u64;
        let slots = journal.len().div_ceil(CHUNK_BYTES);
        if slots > JOURNAL_SLOTS_MAX || first + slots as u64 > SLOTS_MAX {
            let (device, chunks) = (self.device.name(), self.image.chunks.len());
            return Err(VolumeError::ChunkMapFull { device, chunks });
        }
        self.device.ensure_length((first + slots as u64) * CHUNK_BYTES as u64)?;
        let journal_slots: Vec<u32> = (first..first + slots as u64).map(|slot| slot as u32).collect();
        for (slot, piece) in journal_slots.iter().zip(journal.chunks(CHUNK_BYTES)) {
            io.write(u64::from(*slot) * CHUNK_BYTES as u64, piece)?;
        }
        // The superblocks name what is durable.
        io.flush()?;
        let superblock = Superblock {
            version: FORMAT_VERSION,
            page_size: self.image.page_size,
            database_id: self.image.database_id,
            generation: GenerationNumber(0),
            next_chunk: self.image.next_chunk,
            journal_length: journal.len() as u64,
            journal_sequence: 0,
            journal_slots,
            tails: self.tails(),
            root: self.image.root.clone(),
            devices: vec![entry.clone()],
        };
        Places::create(&self.device, &mut io, superblock)?;
        write_label(&mut io, label_of(&entry, self.image.database_id))
    }

    fn records(&self) -> Records {
        let mut records = Records::default();
        let chunks = &self.image.chunks;
        (1..).zip(chunks).for_each(|(slot, it)| records.assign(it.chunk, Location { device: DEVICE, slot }));
        let parts = chunks.iter().flat_map(|it| it.parts.iter().map(|part| (*part, it.chunk)));
        let mut parts: Vec<_> = parts.collect();
        parts.sort_unstable();
        parts.into_iter().for_each(|(part, chunk)| records.part(chunk, part));
        chunks.iter().for_each(|it| records.live(it.chunk, it.live_pages));
        records
    }

    fn tails(&self) -> Vec<Tail> {
        let tail = |it: &super::ImageChunk| Some(Tail { chunk: it.chunk, next_page: it.written? });
        self.image.chunks.iter().filter_map(tail).collect()
    }
}

/// One thread's way to write chunks of a [`Restoration`].
pub struct RestorationWriter<'a> {
    restoration: &'a Restoration,
    io: BlockingIo,
}

impl RestorationWriter<'_> {
    /// Writes a chunk; what it has less than 1 MiB is zeros.
    ///
    /// # Errors
    /// `Refused` if the image does not have it, or it is too long; of the device.
    pub fn write(&mut self, chunk: ChunkId, bytes: &[u8]) -> Result<(), VolumeError> {
        let Restoration { device, image, .. } = self.restoration;
        let place = image.chunks.binary_search_by_key(&chunk, |it| it.chunk);
        let Ok(place) = place else {
            return Err(VolumeError::Refused { what: format!("{chunk} is not part of what is restored") });
        };
        if bytes.len() > CHUNK_BYTES {
            return Err(VolumeError::Refused { what: format!("{chunk} would have {} bytes", bytes.len()) });
        }
        let slot = place as u64 + 1;
        let slots = (slot + 1).next_multiple_of(GROWTH_SLOTS).min(image.chunks.len() as u64 + 1);
        device.ensure_length(slots * CHUNK_BYTES as u64)?;
        let mut whole = bytes.to_vec();
        whole.resize(CHUNK_BYTES, 0);
        Ok(self.io.write(slot * CHUNK_BYTES as u64, &whole)?)
    }
}

/// Refuses what no volume can have been: an image may come from anywhere.
fn check(image: &Image) -> Result<(), VolumeError> {
    let refused =
        |what: String| Err(VolumeError::Refused { what: format!("what is restored contradicts itself: {what}") });
    let pages = image.page_size.pages_per_chunk() as u32;
    if !image.chunks.is_sorted_by(|a, b| a.chunk < b.chunk) {
        return refused("its chunks are not in order".to_owned());
    }
    if image.root.len() > ROOT_BYTES_MAX {
        return refused(format!("its root has {} bytes", image.root.len()));
    }
    if image.chunks.iter().filter(|it| it.written.is_some()).count() > TAILS_MAX {
        return refused(format!("more than {TAILS_MAX} chunks are open"));
    }
    for it in &image.chunks {
        let written = it.written.unwrap_or(pages);
        if it.chunk >= image.next_chunk || it.live_pages > written || written > pages {
            return refused(format!("{} has {} live pages of {written}", it.chunk, it.live_pages));
        }
    }
    Ok(())
}
