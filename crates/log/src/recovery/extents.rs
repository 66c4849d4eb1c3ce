//! Extents as bytes, to be kept elsewhere and put back: what a recovery would read of logs that go on meanwhile.
//!
//! Whoever copies has taken a durable horizon before, and sees to it that nothing is cut until the end. Then every
//! record through the horizon is in a frame that was whole by then, in an extent whose header was. What is later may be
//! copied in part; a recovery *through* the horizon leaves it out.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{AlignedBuffer, Buffer};
use saki_io::{Device, DeviceError, Operation, Wait};

use super::extent_reader::ExtentReader;
use super::scan::{ExtentAt, Scanned, scan};
use crate::error::LogError;
use crate::format::extent::{ExtentHeader, HeaderFound};
use crate::format::frame::{FrameHeader, FramePlace};
use crate::format::{BLOCK_BYTES, Identity};

/// How long a header may take that is being written just now.
const HEADER_PAUSE: Duration = Duration::from_millis(50);
const HEADER_TRIES: usize = 40;

/// An extent of a log that a recovery would read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    pub log: usize,
    /// Counts the extents of a log, over all incarnations.
    pub sequence: u64,
    /// Of each of the log's extents, in bytes.
    pub extent_bytes: u64,
    /// From its header to the end of its last frame.
    pub bytes: u64,
    at: ExtentAt,
}

/// The extents of one log, in their order.
pub fn extents(device: &Arc<dyn Device>, identity: Identity, extent_bytes: u64) -> Result<Vec<Extent>, LogError> {
    let log = identity.log as usize;
    let failed = |error| LogError::Device { log, error };
    let scanned = scan_whole(device, identity, extent_bytes)?;
    let oldest = scanned.oldest();
    let mut reader = ExtentReader::new(device, scanned.length, scanned.extent_bytes).map_err(failed)?;
    let needed = scanned.extents.iter().filter(|at| at.header.sequence >= oldest);
    let extent = |at: &ExtentAt| {
        let bytes = last_frame_end(&mut reader, identity, at).map_err(failed)?;
        Ok(Extent { log, sequence: at.header.sequence, extent_bytes: scanned.extent_bytes, bytes, at: *at })
    };
    needed.map(extent).collect()
}

/// Reads headers until none is being written.
pub fn scan_whole(device: &Arc<dyn Device>, identity: Identity, extent_bytes: u64) -> Result<Scanned, LogError> {
    let mut tries = 0;
    loop {
        let scanned = scan(Arc::clone(device), identity, extent_bytes)?;
        match scanned.damages.first() {
            None => return Ok(scanned),
            Some(damage) if tries == HEADER_TRIES => {
                // Nothing is known to be missing; but what is copied might not be all.
                return Err(LogError::Corrupt { timestamp: 0, proven: 0, damage: damage.clone() });
            }
            Some(_) => std::thread::sleep(HEADER_PAUSE),
        }
        tries += 1;
    }
}

/// Where an extent's last frame ends, from its beginning. A broken frame may have whole ones behind it.
fn last_frame_end(reader: &mut ExtentReader, identity: Identity, at: &ExtentAt) -> Result<u64, DeviceError> {
    reader.open(at.slot);
    let mut end = BLOCK_BYTES as u64;
    while reader.left() >= BLOCK_BYTES as u64 {
        let place = FramePlace {
            identity,
            incarnation: at.header.incarnation.number,
            extent: at.header.sequence,
            block: (reader.at() / BLOCK_BYTES as u64) as u32,
        };
        reader.ensure(BLOCK_BYTES)?;
        let left = reader.left().min(usize::MAX as u64) as usize;
        if let Ok(header) = FrameHeader::peek(&place, reader.bytes(), left) {
            reader.ensure(header.frame_bytes())?;
            if header.verify(reader.bytes()).is_ok() {
                reader.consume(header.frame_bytes());
                end = reader.at();
                continue;
            }
        }
        reader.consume(BLOCK_BYTES);
    }
    Ok(end)
}

/// `length` bytes of an extent from `offset` on, whole blocks. `None`: its slot has been given to another meanwhile, so
/// nobody needs it any more.
pub fn read(
    device: &Arc<dyn Device>,
    extent: &Extent,
    offset: u64,
    length: usize,
) -> Result<Option<AlignedBuffer>, LogError> {
    let start = extent.at.slot * extent.extent_bytes;
    let failed = |error| LogError::Device { log: extent.log, error };
    let bytes = transfer(device, |buffer| Operation::read(0, start + offset, buffer), AlignedBuffer::new(length));
    let bytes = bytes.map_err(failed)?;
    let header = transfer(device, |buffer| Operation::read(0, start, buffer), AlignedBuffer::new(BLOCK_BYTES));
    match ExtentHeader::decode(&header.map_err(failed)?) {
        HeaderFound::Header(header) if header == extent.at.header => Ok(Some(bytes)),
        _ => Ok(None),
    }
}

/// Puts bytes of an extent into a slot of a log that is not open, from `offset` on; whole blocks.
///
/// # Errors
/// Of the device.
pub fn write_extent(
    device: &Arc<dyn Device>,
    slot: u64,
    extent_bytes: u64,
    offset: u64,
    bytes: &[u8],
) -> Result<(), DeviceError> {
    device.ensure_length((slot + 1) * extent_bytes)?;
    let mut buffer = AlignedBuffer::new(bytes.len().next_multiple_of(BLOCK_BYTES));
    buffer[..bytes.len()].copy_from_slice(bytes);
    transfer(device, |buffer| Operation::write(0, slot * extent_bytes + offset, buffer), buffer).map(drop)
}

/// One operation, to its end.
pub fn transfer(
    device: &Arc<dyn Device>,
    operation: impl FnOnce(Buffer) -> Operation,
    buffer: AlignedBuffer,
) -> Result<AlignedBuffer, DeviceError> {
    let mut lane = device.open_lane(None)?;
    lane.submit(operation(Buffer::Aligned(buffer)));
    let mut completions = Vec::new();
    while completions.is_empty() {
        lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut completions);
    }
    let completion = completions.remove(0);
    completion.result?;
    match completion.buffer {
        Some(Buffer::Aligned(buffer)) => Ok(buffer),
        _ => unreachable!("a lane returns the buffer it was given"),
    }
}
