//! The boundary: a device opens lanes; a lane takes operations and gives back
//! completions. Every implementation passes the suite in `contract`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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

/// Interrupts a lane's `poll` from another thread. Cheap when nobody waits.
pub trait Waker: Send + Sync {
    fn wake(&self);
}

/// One thread's private path to a device.
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
}

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
}

/// What can go wrong, by what the caller may do about it.
#[derive(Clone, Debug)]
pub enum DeviceError {
    /// No space left: free some, or enlarge the device.
    Full { device: String },
    /// The device refuses writes.
    ReadOnly { device: String },
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
            Self::OutOfRange { device, offset, length } => {
                write!(f, "{device}: {length} bytes at {offset} lie beyond its end")
            }
            Self::Failed { device, action, offset, message, .. } => {
                write!(f, "{device}: {action} at byte {offset} failed: {message}")
            }
        }
    }
}

impl std::error::Error for DeviceError {}
