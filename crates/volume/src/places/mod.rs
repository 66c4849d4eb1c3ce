//! The four places of superblocks, and what may be concluded from what they hold.
//!
//! ```text
//!     0        first place of even generations         512 KiB  first place of odd generations
//!   256 KiB    second place of even generations        896 KiB  second place of odd generations
//! ```
//!
//! A publication writes its generation's first place, flushes, writes the second, and flushes; only then is it
//! acknowledged. So **a generation that was acknowledged was durable in both its places**, and at most one place at a
//! time is being written.
//!
//! - Power lost meanwhile leaves one place torn at most. If it is the first, the other generation's two places are as
//!   they were, and nobody was told of the new generation. If it is the second, the first is whole.
//! - One rotten place costs nothing: its twin says the same.
//! - Two bad places of one pair are no power loss. The newest generation may have been there, so opening refuses,
//!   unless it is told to accept the loss.
//!
//! Opening for writing flushes before it reads, so that what it finds is on the device and not only in a cache, and
//! [mends](Places::mend): each pair has two whole places before anything is written that could depend on it.

pub mod label;

use std::fmt;
use std::sync::Arc;

use saki_base::{CHUNK_BYTES, GenerationNumber};
use saki_io::Device;

use crate::blocking::BlockingIo;
use crate::error::VolumeError;
use crate::format::superblock::{
    FORMAT_VERSION, FORMAT_VERSION_ONE_COPY, SUPERBLOCK_BYTES, SUPERBLOCK_BYTES_MAX, Superblock, SuperblockFault,
};

/// Byte offsets: of even generations, then of odd ones; each the first place and the second.
const PLACES: [[u64; 2]; 2] = [[0, 256 << 10], [512 << 10, 896 << 10]];
const _: () = assert!(PLACES[1][1] as usize + SUPERBLOCK_BYTES_MAX <= CHUNK_BYTES);

/// Both places of a generation, in bytes from the device's start, in the order of writing.
pub(crate) const fn places_of(generation: GenerationNumber) -> [u64; 2] {
    PLACES[(generation.0 % 2) as usize]
}

/// A place that does not hold the superblock that it should. It cost nothing: its twin is whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SuperblockDamage {
    /// In bytes from the device's start.
    pub offset: u64,
    pub what: String,
}

impl fmt::Display for SuperblockDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the superblock at byte {}: {}; its copy is whole", self.offset, self.what)
    }
}

/// What a place holds.
type Place = Result<Superblock, SuperblockFault>;

/// What all places hold, of which at least one is whole.
pub(crate) struct Places {
    pairs: [[Place; 2]; 2],
    /// The pair of the newest generation found.
    newest: usize,
}

impl Places {
    /// Reads all places.
    ///
    /// # Errors
    /// The most telling one if there is no whole superblock, or one of another version or database.
    pub fn read(device: &Arc<dyn Device>, io: &mut BlockingIo) -> Result<Self, VolumeError> {
        let length = device.length_bytes()?;
        if length < SUPERBLOCK_BYTES as u64 {
            return Err(VolumeError::NotADatabase { device: device.name() });
        }
        if length < CHUNK_BYTES as u64 {
            let (needed_bytes, found_bytes) = (CHUNK_BYTES as u64, length);
            return Err(match Superblock::decode(&io.read(0, SUPERBLOCK_BYTES)?) {
                Err(SuperblockFault::Magic) => VolumeError::NotADatabase { device: device.name() },
                _ => VolumeError::Truncated { device: device.name(), needed_bytes, found_bytes },
            });
        }
        let mut place = |offset| Ok::<_, VolumeError>(Superblock::decode(&io.read(offset, SUPERBLOCK_BYTES_MAX)?));
        let [[a, b], [c, d]] = PLACES;
        let pairs = [[place(a)?, place(b)?], [place(c)?, place(d)?]];
        Self::judge(device, pairs)
    }

    fn judge(device: &Arc<dyn Device>, pairs: [[Place; 2]; 2]) -> Result<Self, VolumeError> {
        let faults = || pairs.iter().flatten().filter_map(|place| place.as_ref().err());
        // A whole superblock of another version: a newer program has been here.
        let other = faults().find(|fault| matches!(fault, SuperblockFault::Version { whole: true, .. }));
        if let Some(fault) = other {
            return Err(fault.clone().into_error(device.name()));
        }
        let generation = |pair: &[Place; 2]| newest_of(pair).map(|superblock| superblock.generation);
        let newest = usize::from(generation(&pairs[1]) > generation(&pairs[0]));
        let Some(superblock) = newest_of(&pairs[newest]) else {
            let fault = faults().max().expect("no place is whole").clone();
            return Err(fault.into_error(device.name()));
        };
        let ours = (superblock.database_id, superblock.page_size);
        let is_foreign = |place: &Place| place.as_ref().is_ok_and(|it| (it.database_id, it.page_size) != ours);
        if pairs.iter().flatten().any(is_foreign) {
            let what = "the superblocks are of different databases".to_owned();
            return Err(VolumeError::Corrupt { device: device.name(), offset: 0, what });
        }
        Ok(Self { pairs, newest })
    }

    /// The newest generation that can be read.
    pub fn newest(&self) -> &Superblock {
        newest_of(&self.pairs[self.newest]).expect("the newest pair has a whole place")
    }

    /// All that are whole.
    pub fn whole(&self) -> impl Iterator<Item = &Superblock> {
        self.pairs.iter().flatten().flatten()
    }

    /// The places where a newer generation may have been that can not be read: both are bad, which no power loss
    /// leaves. GenerationNumber 0 is only ever the newest one while a volume is being made.
    pub fn lost(&self) -> Option<[u64; 2]> {
        let is_lost = newest_of(&self.pairs[1 - self.newest]).is_none() && self.newest().generation.0 > 0;
        is_lost.then_some(PLACES[1 - self.newest])
    }

    /// Bad places whose twin is whole.
    pub fn damages(&self) -> Vec<SuperblockDamage> {
        let mut damages = Vec::new();
        for (pair, offsets) in self.pairs.iter().zip(PLACES) {
            match pair {
                [Err(fault), Ok(_)] => damages.push(SuperblockDamage { offset: offsets[0], what: fault.to_string() }),
                // The first version had no second places.
                [Ok(first), Err(fault)] if first.version != FORMAT_VERSION_ONE_COPY => {
                    damages.push(SuperblockDamage { offset: offsets[1], what: fault.to_string() });
                }
                _ => {}
            }
        }
        damages
    }

    /// Gives each pair that has a whole place a second one, durably. Afterwards the newest generation is durable in
    /// both its places.
    pub fn mend(&self, io: &mut BlockingIo) -> Result<(), VolumeError> {
        for (pair, offsets) in self.pairs.iter().zip(PLACES) {
            let Some(newest) = newest_of(pair) else { continue };
            for (place, offset) in pair.iter().zip(offsets) {
                if place.as_ref().map(|superblock| superblock.generation) != Ok(newest.generation) {
                    io.write(offset, &newest.encode())?;
                }
            }
        }
        Ok(io.flush()?)
    }

    /// Whether a place holds anything like a superblock.
    pub fn are_there(io: &mut BlockingIo) -> Result<bool, VolumeError> {
        for offset in PLACES.into_iter().flatten() {
            if Superblock::decode(&io.read(offset, SUPERBLOCK_BYTES_MAX)?) != Err(SuperblockFault::Magic) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes all superblocks of a device away.
    pub fn erase(io: &mut BlockingIo) -> Result<(), VolumeError> {
        for offset in PLACES.into_iter().flatten() {
            io.write(offset, &[0; SUPERBLOCK_BYTES])?;
        }
        Ok(io.flush()?)
    }

    /// Makes generations 0 and 1 of a new volume, one after the other: as soon as there is a generation 1, generation
    /// 0 is durable in both its places.
    ///
    /// # Errors
    /// `AlreadyADatabase` if a place holds anything like a superblock; of the device.
    pub fn create(
        device: &Arc<dyn Device>,
        io: &mut BlockingIo,
        mut superblock: Superblock,
    ) -> Result<(), VolumeError> {
        if Self::are_there(io)? {
            return Err(VolumeError::AlreadyADatabase { device: device.name() });
        }
        for generation in [GenerationNumber(0), GenerationNumber(1)] {
            superblock.generation = generation;
            for offset in places_of(generation) {
                io.write(offset, &superblock.encode())?;
            }
            io.flush()?;
        }
        Ok(())
    }
}

/// The whole superblock of a pair; if both are whole, the newer one.
fn newest_of(pair: &[Place; 2]) -> Option<&Superblock> {
    pair.iter().flatten().max_by_key(|superblock| superblock.generation)
}

impl fmt::Display for SuperblockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("no superblock"),
            Self::Checksum => f.write_str("wrong checksum"),
            Self::Field(what) => f.write_str(what),
            Self::PageSize(bytes) => write!(f, "{}", saki_base::InvalidPageSize(*bytes)),
            Self::Version { found, .. } => write!(f, "wrong version {found}, and wrong checksum"),
        }
    }
}

impl SuperblockFault {
    /// The error of a device whose most telling superblock has this fault.
    fn into_error(self, device: String) -> VolumeError {
        match self {
            Self::Magic => VolumeError::NotADatabase { device },
            Self::Version { found, .. } => VolumeError::UnsupportedVersion { device, found, supported: FORMAT_VERSION },
            Self::PageSize(bytes) => VolumeError::PageSize { device, error: saki_base::InvalidPageSize(bytes) },
            Self::Checksum | Self::Field(_) => {
                let what = format!("all superblocks (at bytes 0, 262144, 524288 and 917504) are damaged: {self}");
                VolumeError::Corrupt { device, offset: 0, what }
            }
        }
    }
}
