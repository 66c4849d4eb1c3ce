//! The boundary: a device opens lanes; a lane takes operations and gives back
//! completions. Every implementation passes the suite in `contract`.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{Arena, Buffer};

/// What an operation does with its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationKind {
    /// Fill the whole buffer from `offset`.
    Read,
    /// Write the whole buffer at `offset`.
    Write,
    /// Make every completed write durable. Carries no buffer.
    Flush,
}

/// A request. The buffer moves in and comes back with the completion.
#[derive(Debug)]
pub struct Operation {
    pub kind: OperationKind,
    /// Returned unchanged with the completion.
    pub token: u64,
    /// Byte offset on the device; a multiple of the device's block size.
    pub offset: u64,
    /// `Some` for reads and writes; its length is the transfer's.
    pub buffer: Option<Buffer>,
}

impl Operation {
    pub fn read(token: u64, offset: u64, buffer: Buffer) -> Self {
        Self { kind: OperationKind::Read, token, offset, buffer: Some(buffer) }
    }

    pub fn write(token: u64, offset: u64, buffer: Buffer) -> Self {
        Self { kind: OperationKind::Write, token, offset, buffer: Some(buffer) }
    }

    pub fn flush(token: u64) -> Self {
        Self { kind: OperationKind::Flush, token, offset: 0, buffer: None }
    }

    /// Bytes to transfer; 0 for a flush.
    pub fn length_bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.len())
    }

    /// Ends the operation, giving the buffer back.
    pub(crate) fn complete(self, result: Result<(), DeviceError>) -> Completion {
        Completion { token: self.token, buffer: self.buffer, result }
    }
}

/// The end of an operation: always exactly one per operation, in any order.
#[derive(Debug)]
pub struct Completion {
    pub token: u64,
    /// The operation's buffer, whole, whether it succeeded or not.
    pub buffer: Option<Buffer>,
    /// `Ok` only if the whole transfer happened: a short read or write is
    /// continued by the lane, and at the device's end an error.
    pub result: Result<(), DeviceError>,
}

/// How long `poll` may wait for the first completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Return what is there.
    No,
    /// Until a completion arrives, the lane's waker is called, or the time is over.
    AtMost(Duration),
}

impl Wait {
    /// When a wait that begins at `now` is over; `None` for no wait. A time
    /// too far for the clock counts as a day: poll may always return early.
    pub(crate) fn deadline(self, now: Instant) -> Option<Instant> {
        const DAY: Duration = Duration::from_secs(86_400);
        match self {
            Self::No => None,
            Self::AtMost(limit) => Some(now + limit.min(DAY)),
        }
    }
}

/// Interrupts a lane's `poll` from another thread. Cheap when nobody waits.
///
/// A wake is kept until a *waiting* poll has seen it: called before that poll
/// begins, it makes it return at once; `Wait::No` leaves it alone. Several
/// wakes before one poll count as one. Outliving the lane is harmless.
pub trait Waker: Send + Sync {
    fn wake(&self);
}

/// One thread's private path to a device. A lane may be moved to another
/// thread before its first use, not after it.
pub trait Lane: Send {
    /// Accepts an operation. Never blocks and never fails: an operation that
    /// the device refuses completes with an error. May be queued until `poll` or `flush_submissions`.
    fn submit(&mut self, operation: Operation);
    /// Hands queued operations to the device now, without waiting.
    fn flush_submissions(&mut self);
    /// Hands queued operations to the device and appends completions to
    /// `completions`; returns how many. With nothing in flight and `Wait::AtMost` it
    /// still waits for the waker.
    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize;
    /// Operations accepted and not yet returned.
    fn in_flight(&self) -> usize;
    fn waker(&self) -> Arc<dyn Waker>;
    /// Serves another device on this lane too: one ring, one wait for both. The number it has from then on in
    /// [`Self::submit_to`]; `None` if it needs a lane of its own.
    fn join(&mut self, _partner: &Partner) -> Option<u32> {
        None
    }
    /// As [`Self::submit`], for a device that has joined; 0 is the lane's own.
    fn submit_to(&mut self, file: u32, operation: Operation) {
        assert_eq!(file, 0, "no device has joined this lane");
        self.submit(operation);
    }
}

/// What a device gives of itself to a lane that it may [join](Lane::join).
/// Only its own backend knows what it is.
pub struct Partner(pub(crate) Box<dyn Any + Send + Sync>);

/// Something that completes reads and writes asynchronously.
pub trait Device: Send + Sync {
    /// For messages and outputs: backend and path, and for a modeled device its model.
    fn name(&self) -> String;
    fn length_bytes(&self) -> Result<u64, DeviceError>;
    /// Smallest transfer and alignment in bytes.
    fn block_bytes(&self) -> usize;
    fn read_only(&self) -> bool;
    /// Makes the device at least so long (files are preallocated; a block device that is too small is an error `Full`).
    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError>;
    /// Opens a lane; `arena` is registered with it where the backend can. A lane drains its
    /// operations when dropped, so that no buffer is freed under the device.
    fn open_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError>;
    /// For lanes of other devices to serve this one as well; `None` if it has to have its own.
    fn partner(&self) -> Option<Partner> {
        None
    }
}

/// What a backend checks of every operation before the system sees it, so
/// that a mistake has the same answer everywhere.
pub(crate) struct Limits<'a> {
    pub device: &'a str,
    pub length_bytes: u64,
    pub block_bytes: usize,
    pub read_only: bool,
}

impl Limits<'_> {
    pub fn check(&self, operation: &Operation) -> Result<(), DeviceError> {
        let Operation { kind, offset, buffer, .. } = operation;
        if *kind == OperationKind::Flush {
            return Ok(());
        }
        let Some(buffer) = buffer else {
            return Err(self.refused(operation, "the operation carries no buffer"));
        };
        let length = buffer.len() as u64;
        let block = self.block_bytes as u64;
        if !offset.is_multiple_of(block) || !length.is_multiple_of(block) || length == 0 {
            return Err(self.refused(operation, &format!("{length} bytes are not whole blocks of {block} bytes")));
        }
        if *kind == OperationKind::Write && self.read_only {
            return Err(DeviceError::ReadOnly { device: self.device.into() });
        }
        if offset.checked_add(length).is_none_or(|end| end > self.length_bytes) {
            return Err(DeviceError::OutOfRange { device: self.device.into(), offset: *offset, length });
        }
        Ok(())
    }

    fn refused(&self, operation: &Operation, message: &str) -> DeviceError {
        DeviceError::Failed {
            device: self.device.into(),
            action: operation.kind.action(),
            offset: operation.offset,
            message: message.into(),
            errno: None,
        }
    }
}

impl OperationKind {
    /// The word used in messages.
    pub(crate) fn action(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
        }
    }
}

/// What can go wrong, by what the caller may do about it.
#[derive(Clone, Debug)]
pub enum DeviceError {
    /// No space left: free some, or enlarge the device.
    Full { device: String },
    /// The device refuses writes.
    ReadOnly { device: String },
    /// Another process (or another open handle of this one) has the device locked.
    InUse { device: String },
    /// Beyond the end of the device.
    OutOfRange { device: String, offset: u64, length: u64 },
    /// The device failed; `errno` where the system gave one.
    Failed { device: String, action: &'static str, offset: u64, message: String, errno: Option<i32> },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { device } => write!(f, "{device}: no space left; free some or enlarge it"),
            Self::ReadOnly { device } => write!(f, "{device}: is read-only"),
            Self::InUse { device } => {
                write!(f, "{device}: is in use by another process; stop that process, or open another database")
            }
            Self::OutOfRange { device, offset, length } => {
                write!(f, "{device}: {length} bytes at {offset} lie beyond its end")
            }
            Self::Failed { device, action, offset, message, .. } => match *action {
                "read" | "write" => write!(f, "{device}: {action} at byte {offset} failed: {message}"),
                _ => write!(f, "{device}: cannot {action}: {message}"),
            },
        }
    }
}

impl std::error::Error for DeviceError {}

impl DeviceError {
    /// Sorts a system error by what the caller may do about it. A missing
    /// permission means a read-only device only where something was to be
    /// changed: io_uring, for one, is refused with the same error numbers.
    pub fn from_system(device: &str, action: &'static str, offset: u64, error: &std::io::Error) -> Self {
        let changes = matches!(action, "write" | "flush" | "grow");
        match error.raw_os_error() {
            // The last one: the file may not grow, by the limit of the process or of the file system.
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => Self::Full { device: device.into() },
            Some(libc::EROFS) => Self::ReadOnly { device: device.into() },
            Some(libc::EACCES | libc::EPERM) if changes => Self::ReadOnly { device: device.into() },
            errno => Self::Failed { device: device.into(), action, offset, message: error.to_string(), errno },
        }
    }
}
