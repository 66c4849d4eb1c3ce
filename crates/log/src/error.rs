//! What can go wrong, by what one may do about it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use saki_io::DeviceError;

/// Why a call failed. Cheap to copy: one failure is told to many.
#[derive(Clone, Debug)]
pub enum LogError {
    /// No space for this record, on disk: nothing was lost, and a later try may succeed, as after
    /// [`cut`](crate::Logs::cut).
    Full { log: usize, device: String, bytes: u64 },
    /// A device failed, for longer than [`patience`](crate::Options::patience). Latched: nothing more becomes durable
    /// until the logs are opened again.
    Failed { log: usize, error: DeviceError },
    /// A device could not be read or prepared while opening.
    Device { log: usize, error: DeviceError },
    /// The record is longer than the options allow.
    TooLarge { bytes: u64, bytes_max: u64 },
    /// The logs are closed.
    Closed,
    /// A thread of the logs ended by a panic: a mistake of ours, or of a callback's.
    Internal { log: usize, message: String },
    /// The options contradict themselves.
    Options { message: String },
    /// The device holds something, but no log.
    NotALog { log: usize, device: String },
    /// A log of another database.
    OtherDatabase { log: usize, device: String, expected: u64, found: u64 },
    /// A log in the place of another of the same database.
    OtherLog { log: usize, device: String, found: u32 },
    /// There were more or fewer logs before.
    OtherCount { log: usize, device: String, expected: u32, found: u32 },
    /// Written by another version of the format.
    OtherVersion { log: usize, device: String, expected: u32, found: u32 },
    /// A device whose extents disagree, or claim what cannot be.
    Inconsistent { log: usize, device: String, extent: u64, offset: u64, expected: String, found: String },
    /// A record that was durable cannot be read, and this is the damage.
    Corrupt { timestamp: u64, proven: u64, damage: Damage },
    /// A record that was durable is in no log: a log, or the end of one, is gone.
    Missing { timestamp: u64, proven: u64, logs: Vec<Damage> },
    /// The logs have been cut beyond what the caller has: its base is older than the logs.
    CutBeyond { cut: u64, after: u64 },
    /// The logs do not tell of what the caller knows to have been in them: they are older than its base, or gone.
    Older { known: u64, newest: Option<u64> },
    /// The caller refused a record: the one that ends in the frame at this byte.
    Refused { log: usize, device: String, extent: u64, offset: u64, timestamp: u64, error: Refusal },
}

/// What the caller of a recovery says against a record.
pub type Refusal = Arc<dyn Error + Send + Sync>;

/// Where a log stops making sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    pub log: usize,
    pub device: String,
    /// Sequence number of the extent; 0 if the log has none.
    pub extent: u64,
    /// Byte offset on the device.
    pub offset: u64,
    pub expected: String,
    pub found: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log, device, extent, offset, expected, found } = self;
        write!(f, "log {log} ({device}), extent {extent}, byte {offset}: expected {expected}, found {found}")
    }
}

impl LogError {
    /// Whether space is what is wanting.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Failed { error: DeviceError::Full { .. }, .. })
    }
}

const RESTORE: &str = "restore the log from a copy, or accept the loss to go back to the moment before";

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { log, device, bytes } => {
                write!(f, "log {log} ({device}): no space for a record of {bytes} bytes; free some, or cut the logs")
            }
            Self::Failed { log, error } => {
                write!(
                    f,
                    "log {log} failed: {error}; nothing more becomes durable until the database is opened again, and \
                     only then is it known whether commits that were not confirmed are there"
                )
            }
            Self::Device { log, error } => write!(f, "log {log} cannot be opened: {error}"),
            Self::TooLarge { bytes, bytes_max } => {
                write!(f, "a record of {bytes} bytes is too large: the limit is {bytes_max}")
            }
            Self::Closed => f.write_str("the logs are closed"),
            Self::Internal { log, message } => write!(f, "the thread of log {log} ended by a panic: {message}"),
            Self::Options { message } => write!(f, "options of the logs: {message}"),
            Self::NotALog { log, device } => write!(
                f,
                "log {log} ({device}): holds something else than a log; name the right file, or empty this one"
            ),
            Self::OtherDatabase { log, device, expected, found } => {
                write!(f, "log {log} ({device}): belongs to another database ({found:016x} instead of {expected:016x})")
            }
            Self::OtherLog { log, device, found } => {
                write!(f, "log {log} ({device}): is log {found} of this database; name the logs in their order")
            }
            Self::OtherCount { log, device, expected, found } => {
                write!(f, "log {log} ({device}): is one of {found} logs, and {expected} were named")
            }
            Self::OtherVersion { log, device, expected, found } => {
                write!(f, "log {log} ({device}): has format version {found}, and this program knows {expected}")
            }
            Self::Inconsistent { log, device, extent, offset, expected, found } => {
                write!(f, "log {log} ({device}), extent {extent}, byte {offset}: expected {expected}, found {found}")
            }
            Self::Corrupt { timestamp, proven, damage } => write!(
                f,
                "the record of timestamp {timestamp} was durable (all through {proven} were) and cannot be read: \
                 {damage}; {RESTORE}"
            ),
            Self::Missing { timestamp, proven, logs } => {
                write!(
                    f,
                    "the record of timestamp {timestamp} was durable (all through {proven} were) and is in no log"
                )?;
                logs.iter().try_for_each(|end| write!(f, "; {end}"))?;
                write!(f, "; {RESTORE}")
            }
            Self::CutBeyond { cut, after } => write!(
                f,
                "the logs begin after timestamp {cut}, and the database ends at {after}: it is older than its logs; \
                 restore both from the same copy"
            ),
            Self::Older { known, newest } => {
                match newest {
                    Some(newest) => write!(f, "the logs end with timestamp {newest}")?,
                    None => f.write_str("the logs are empty")?,
                }
                write!(
                    f,
                    ", and the database knows of timestamp {known} in them: they are older than it; restore both \
                     from the same copy, or accept the loss of what is not there"
                )
            }
            Self::Refused { log, device, extent, offset, timestamp, error } => write!(
                f,
                "log {log} ({device}), extent {extent}, byte {offset}: the record of timestamp {timestamp} cannot be \
                 applied: {error}"
            ),
        }
    }
}

impl Error for LogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed { error, .. } | Self::Device { error, .. } => Some(error),
            Self::Refused { error, .. } => Some(&**error),
            _ => None,
        }
    }
}
