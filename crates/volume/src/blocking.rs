//! Two ways to move bytes where a thread may wait: one operation at a time
//! ([`BlockingIo`], for superblocks and journal), and a stream of large writes with
//! many in flight ([`PieceWriter`], for pages and scratch runs).
//!
//! A lane belongs to the thread that uses it, so a piece writer opens its lane at the first write:
//! it may be made on one thread and used on another.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{AlignedBuffer, Buffer, DeviceId};
use saki_io::{Completion, Device, DeviceError, Lane, Operation, OperationKind, Wait};

use crate::device::{DeviceLanes, Members};

/// Bytes of a large write. With [`PIECES_IN_FLIGHT_MAX`] of them under way any device is busy.
pub(crate) const PIECE_BYTES: usize = 256 << 10;
/// Bounds a writer's memory: 8 MiB.
const PIECES_IN_FLIGHT_MAX: usize = 32;
const PATIENCE: Wait = Wait::AtMost(Duration::from_secs(1));

/// One operation at a time.
pub(crate) struct BlockingIo {
    lane: Box<dyn Lane>,
    completions: Vec<Completion>,
}

impl BlockingIo {
    pub fn open(device: &Arc<dyn Device>) -> Result<Self, DeviceError> {
        Ok(Self { lane: device.open_lane(None)?, completions: Vec::new() })
    }

    pub fn read(&mut self, offset: u64, length: usize) -> Result<AlignedBuffer, DeviceError> {
        match self.run(OperationKind::Read, offset, Some(AlignedBuffer::new(length)))? {
            Some(Buffer::Aligned(buffer)) => Ok(buffer),
            _ => unreachable!("a lane returns the buffer it was given"),
        }
    }

    /// Writes `bytes`, filled up with zeros to a multiple of 4096.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut buffer = AlignedBuffer::new(bytes.len().next_multiple_of(4096));
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.run(OperationKind::Write, offset, Some(buffer)).map(drop)
    }

    pub fn flush(&mut self) -> Result<(), DeviceError> {
        self.run(OperationKind::Flush, 0, None).map(drop)
    }

    fn run(
        &mut self,
        kind: OperationKind,
        offset: u64,
        buffer: Option<AlignedBuffer>,
    ) -> Result<Option<Buffer>, DeviceError> {
        self.lane.submit(Operation { kind, token: 0, offset, buffer: buffer.map(Buffer::Aligned) });
        while self.completions.is_empty() {
            self.lane.poll(PATIENCE, &mut self.completions);
        }
        let completion = self.completions.pop().expect("just seen");
        assert!(self.completions.is_empty(), "one operation was under way");
        completion.result.map(|()| completion.buffer)
    }
}

/// Large writes to any device, with a bounded number in flight. After the first failure every call fails with it.
pub(crate) struct PieceWriter {
    members: Arc<Members>,
    lanes: Option<DeviceLanes>,
    spare: Vec<AlignedBuffer>,
    completions: Vec<Completion>,
    failure: Option<DeviceError>,
}

impl PieceWriter {
    pub fn new(members: &Arc<Members>) -> Self {
        Self { members: Arc::clone(members), lanes: None, spare: Vec::new(), completions: Vec::new(), failure: None }
    }

    /// An empty piece of [`PIECE_BYTES`].
    pub fn piece(&mut self) -> AlignedBuffer {
        self.spare.pop().unwrap_or_else(|| AlignedBuffer::new(PIECE_BYTES))
    }

    /// Starts writing the first `length` bytes of a piece. Waits while too many are in flight.
    pub fn write(
        &mut self,
        device: DeviceId,
        offset: u64,
        piece: AlignedBuffer,
        length: usize,
    ) -> Result<(), DeviceError> {
        assert!(length > 0 && length <= piece.len(), "{length} bytes of a piece of {}", piece.len());
        self.check()?;
        // An operation writes its whole buffer, so a part of a piece moves to a buffer of its own.
        let buffer = if length == piece.len() {
            piece
        } else {
            let mut part = AlignedBuffer::new(length);
            part.copy_from_slice(&piece[..length]);
            self.spare.push(piece);
            part
        };
        self.wait_below(PIECES_IN_FLIGHT_MAX)?;
        let lanes = match &mut self.lanes {
            Some(lanes) => lanes,
            none => none.insert(DeviceLanes::open(&self.members, None)?),
        };
        let buffer = Some(Buffer::Aligned(buffer));
        self.members.written(device, length as u64);
        lanes.submit(device, Operation { kind: OperationKind::Write, token: 0, offset, buffer });
        lanes.flush_submissions();
        lanes.poll(Wait::No, &mut self.completions);
        self.reap()
    }

    /// Waits until every write has finished. The next one may come from another thread: it opens a lane anew.
    pub fn settle(&mut self) -> Result<(), DeviceError> {
        let settled = self.wait_below(1);
        self.lanes = None;
        settled?;
        self.check()
    }

    fn wait_below(&mut self, limit: usize) -> Result<(), DeviceError> {
        while let Some(lanes) = &mut self.lanes
            && lanes.in_flight() >= limit
        {
            lanes.poll(PATIENCE, &mut self.completions);
            self.reap()?;
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<(), DeviceError> {
        for completion in self.completions.drain(..) {
            if let Err(error) = completion.result {
                self.failure.get_or_insert(error);
            }
            if let Some(Buffer::Aligned(buffer)) = completion.buffer
                && buffer.len() == PIECE_BYTES
            {
                self.spare.push(buffer);
            }
        }
        self.check()
    }

    fn check(&self) -> Result<(), DeviceError> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}
