//! What can go wrong, by what the caller may do about it.

use std::fmt;

use saki_base::{GenerationNumber, InvalidPageSize};
use saki_io::DeviceError;

/// A volume could not do what was asked. Each message says what, where, and what to do.
#[derive(Clone, Debug)]
pub enum VolumeError {
    /// No slot is free and the device cannot grow: free space or enlarge the device, then repeat the statement.
    Full { device: String },
    /// The device failed, or refuses writes.
    Device(DeviceError),
    /// The device does not start with a superblock.
    NotADatabase { device: String },
    /// `create` found a database already there.
    AlreadyADatabase { device: String },
    /// The superblock was written by another version of the format.
    UnsupportedVersion { device: String, found: u32, supported: u32 },
    /// The superblock is whole but names an impossible page size.
    PageSize { device: String, error: InvalidPageSize },
    /// The device ends before data that the superblock names.
    Truncated { device: String, needed_bytes: u64, found_bytes: u64 },
    /// Bytes on the device are not what was written.
    Corrupt { device: String, offset: u64, what: String },
    /// Both superblocks of what may be the newest generation are damaged; `generation` is the newest that can be
    /// read. Restore the device from a copy, or open it with [`OpenOptions::accept_loss`](crate::OpenOptions).
    GenerationLost { device: String, generation: GenerationNumber, places: [u64; 2] },
    /// The root or the device profile is larger than its place.
    TooLarge { what: &'static str, bytes: usize, bytes_max: usize },
    /// The chunk map no longer fits in the slots a superblock can name.
    ChunkMapFull { device: String, chunks: usize },
    /// An earlier superblock could not be written, time and again, so it is unknown which generation is on the device:
    /// reopen the database.
    PublishOutcomeUnknown { device: String, reason: String },
    /// A flush failed since what was to be published began to be written, so some of it may be lost. Nothing was
    /// published: do it again.
    WritesInDoubt { device: String },
    /// A device is not the one of the database that it is taken for.
    WrongDevice { device: String, what: String },
    /// A device of the database is not there, and what was asked for needs it.
    MissingDevice { device: String, reason: String },
    /// What was asked for is not possible as things are.
    Refused { what: String },
    /// The caller broke this crate's contract (a bug above).
    Misuse { what: String },
}

impl VolumeError {
    pub(crate) fn misuse(what: impl Into<String>) -> Self {
        Self::Misuse { what: what.into() }
    }
}

impl From<DeviceError> for VolumeError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Full { device } => Self::Full { device },
            error => Self::Device(error),
        }
    }
}

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { device } => {
                write!(f, "{device}: no space left; free some or enlarge the device, then repeat the statement")
            }
            Self::Device(error) => error.fmt(f),
            Self::NotADatabase { device } => {
                write!(f, "{device}: is not a Sakigake database (no superblock at byte 0 or 524288); check the path")
            }
            Self::AlreadyADatabase { device } => {
                write!(f, "{device}: holds a Sakigake database already; open it, or remove it first")
            }
            Self::UnsupportedVersion { device, found, supported } => write!(
                f,
                "{device}: has format version {found}, this program reads version {supported}; \
                 use the program that wrote it"
            ),
            Self::PageSize { device, error } => write!(f, "{device}: the superblock is wrong: {error}"),
            Self::Truncated { device, needed_bytes, found_bytes } => write!(
                f,
                "{device}: is cut short: it has {found_bytes} bytes, the database needs {needed_bytes}; \
                 restore it from a copy"
            ),
            Self::Corrupt { device, offset, what } => {
                write!(f, "{device}: corrupt at byte {offset}: {what}; restore it from a copy")
            }
            Self::GenerationLost { device, generation, places: [first, second] } => write!(
                f,
                "{device}: both superblocks at bytes {first} and {second} are damaged, so what was published last may \
                 be lost; restore it from a copy, or accept the loss of what came after generation {}",
                generation.0
            ),
            Self::TooLarge { what, bytes, bytes_max } => {
                write!(f, "{what} has {bytes} bytes, its place in the volume holds {bytes_max}")
            }
            Self::ChunkMapFull { device, chunks } => {
                write!(f, "{device}: the map of {chunks} chunks does not fit in the journal a superblock can name")
            }
            Self::PublishOutcomeUnknown { device, reason } => write!(
                f,
                "{device}: a publish failed while its superblock was written ({reason}), so nothing more is published; \
                 reading goes on; reopen the database to go on writing"
            ),
            Self::WritesInDoubt { device } => write!(
                f,
                "{device}: a flush failed while this was written, so some of it may be lost; nothing was published: do \
                 it again"
            ),
            Self::WrongDevice { device, what } => write!(
                f,
                "{device}: {what}; attach the right one where it is looked for, or open the database by its own device"
            ),
            Self::MissingDevice { device, reason } => write!(
                f,
                "{device}: a device of the database is missing ({reason}); bring it back and open the database again"
            ),
            Self::Refused { what } => f.write_str(what),
            Self::Misuse { what } => write!(f, "internal error in the use of the volume: {what}"),
        }
    }
}

impl std::error::Error for VolumeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::PageSize { error, .. } => Some(error),
            _ => None,
        }
    }
}
