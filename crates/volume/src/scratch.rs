//! Temporary data: runs of bytes in slots that no generation names. They vanish
//! when dropped, and with a crash.
//!
//! A run is written once, front to back, in blocks of [`SCRATCH_BLOCK_BYTES`]; the blocks' checksums
//! stay in memory. Many runs are read side by side, each with its next block on the way.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{AlignedBuffer, Buffer, CHUNK_BYTES, checksum};
use saki_io::{Completion, Operation, OperationKind, Wait};

use crate::blocking::{PIECE_BYTES, PieceWriter};
use crate::device::DeviceLanes;
use crate::error::VolumeError;
use crate::map::Location;
use crate::space::SlotLease;
use crate::volume::Volume;

/// Bytes of a scratch run that are read, written and verified together.
pub const SCRATCH_BLOCK_BYTES: usize = PIECE_BYTES;
/// Blocks a reader holds per run: the one being looked at, and the next.
pub const SCRATCH_BLOCKS_PER_RUN: usize = 2;
const BLOCKS_PER_SLOT: usize = CHUNK_BYTES / SCRATCH_BLOCK_BYTES;
const _: () = assert!(CHUNK_BYTES.is_multiple_of(SCRATCH_BLOCK_BYTES), "a slot holds whole blocks");

/// A place for temporary data on a volume.
#[derive(Clone)]
pub struct ScratchSpace {
    volume: Arc<Volume>,
}

impl Volume {
    pub fn scratch(self: &Arc<Self>) -> ScratchSpace {
        ScratchSpace { volume: Arc::clone(self) }
    }
}

impl ScratchSpace {
    /// Begins a run. Memory: 8 MiB in flight at most.
    pub fn writer(&self) -> ScratchWriter {
        ScratchWriter {
            pieces: PieceWriter::new(&self.volume.members),
            volume: Arc::clone(&self.volume),
            block: None,
            run: ScratchRun { slots: Vec::new(), checksums: Vec::new(), length: 0 },
        }
    }

    /// Reads runs side by side. Memory: [`SCRATCH_BLOCKS_PER_RUN`] blocks per run.
    pub fn reader(&self, runs: Vec<ScratchRun>) -> Result<ScratchReader, VolumeError> {
        let lane = DeviceLanes::open(&self.volume.members, None)?;
        let is_whole = |run: &ScratchRun| run.length.div_ceil(SCRATCH_BLOCK_BYTES as u64) == run.checksums.len() as u64;
        assert!(runs.iter().all(is_whole), "a run of other blocks than its length says");
        let cursor = |run| Cursor { run, current: None, next: Next::Nothing, asked: 0, length: 0 };
        let mut reader = ScratchReader {
            lane,
            volume: Arc::clone(&self.volume),
            cursors: runs.into_iter().map(cursor).collect(),
            completions: Vec::new(),
            spare: Vec::new(),
        };
        (0..reader.cursors.len()).for_each(|run| reader.ask(run));
        reader.lane.flush_submissions();
        Ok(reader)
    }
}

/// A finished run; its slots are free again when it (or the reader that took it) is dropped.
pub struct ScratchRun {
    slots: Vec<SlotLease>,
    checksums: Vec<u64>,
    length: u64,
}

impl ScratchRun {
    /// Bytes written.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The slot of a block, and its first byte on the device.
    fn place(&self, block: usize) -> (Location, u64) {
        let location = self.slots[block / BLOCKS_PER_SLOT].location;
        (location, location.offset() + (block % BLOCKS_PER_SLOT * SCRATCH_BLOCK_BYTES) as u64)
    }
}

/// Writes one run.
pub struct ScratchWriter {
    /// First: its lane drains before the slots are given back.
    pieces: PieceWriter,
    volume: Arc<Volume>,
    block: Option<(AlignedBuffer, usize)>,
    run: ScratchRun,
}

impl ScratchWriter {
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), VolumeError> {
        self.run.length += bytes.len() as u64;
        while !bytes.is_empty() {
            let (mut block, filled) = self.block.take().unwrap_or_else(|| (self.pieces.piece(), 0));
            let count = bytes.len().min(SCRATCH_BLOCK_BYTES - filled);
            block[filled..filled + count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.block = Some((block, filled + count));
            if filled + count == SCRATCH_BLOCK_BYTES {
                self.write_block()?;
            }
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<ScratchRun, VolumeError> {
        self.write_block()?;
        self.pieces.settle()?;
        Ok(self.run)
    }

    fn write_block(&mut self) -> Result<(), VolumeError> {
        let Some((block, filled)) = self.block.take() else { return Ok(()) };
        assert!(filled > 0, "an empty block");
        let index = self.run.checksums.len();
        if index.is_multiple_of(BLOCKS_PER_SLOT) {
            let location = self.volume.allocate(|space| {
                let location = space.take_slot()?;
                space.scratch_slots += 1;
                Ok(location)
            })?;
            self.run.slots.push(SlotLease { space: Arc::clone(&self.volume.space), location });
        }
        self.run.checksums.push(checksum(&block[..filled]));
        let (location, offset) = self.run.place(index);
        Ok(self.pieces.write(location.device, offset, block, filled.next_multiple_of(4096))?)
    }
}

enum Next {
    /// The run has no further block.
    Nothing,
    Asked,
    Here(AlignedBuffer),
}

struct Cursor {
    run: ScratchRun,
    current: Option<AlignedBuffer>,
    next: Next,
    /// Blocks asked for so far.
    asked: usize,
    /// Bytes of the current block.
    length: usize,
}

/// Reads runs side by side, block by block.
pub struct ScratchReader {
    /// First: it drains before the runs' slots are given back.
    lane: DeviceLanes,
    volume: Arc<Volume>,
    cursors: Vec<Cursor>,
    completions: Vec<Completion>,
    spare: Vec<AlignedBuffer>,
}

impl ScratchReader {
    pub fn runs(&self) -> usize {
        self.cursors.len()
    }

    /// Makes a run's next block its current one, waiting for it if it must. `false` at the run's end.
    pub fn advance(&mut self, run: usize) -> Result<bool, VolumeError> {
        while matches!(self.cursors[run].next, Next::Asked) {
            self.lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut self.completions);
            self.deliver()?;
        }
        let cursor = &mut self.cursors[run];
        self.spare.extend(cursor.current.take().filter(|block| block.len() == SCRATCH_BLOCK_BYTES));
        cursor.length = 0;
        let Next::Here(block) = std::mem::replace(&mut cursor.next, Next::Nothing) else { return Ok(false) };
        let index = cursor.asked - 1;
        let before = (index * SCRATCH_BLOCK_BYTES) as u64;
        cursor.length = (cursor.run.length - before).min(SCRATCH_BLOCK_BYTES as u64) as usize;
        if checksum(&block[..cursor.length]) != cursor.run.checksums[index] {
            let what = "temporary data is not what was written".to_owned();
            let (location, offset) = cursor.run.place(index);
            return Err(VolumeError::Corrupt { device: self.volume.name_of(location.device), offset, what });
        }
        cursor.current = Some(block);
        self.ask(run);
        Ok(true)
    }

    /// The current block of a run; empty before the first and behind the last.
    pub fn block(&self, run: usize) -> &[u8] {
        let cursor = &self.cursors[run];
        cursor.current.as_ref().map_or(&[], |block| &block[..cursor.length])
    }

    fn ask(&mut self, run: usize) {
        let cursor = &mut self.cursors[run];
        if cursor.asked == cursor.run.checksums.len() {
            return;
        }
        let (location, offset) = cursor.run.place(cursor.asked);
        let left = cursor.run.length - (cursor.asked * SCRATCH_BLOCK_BYTES) as u64;
        cursor.asked += 1;
        cursor.next = Next::Asked;
        let buffer = if left >= SCRATCH_BLOCK_BYTES as u64 {
            self.spare.pop().unwrap_or_else(|| AlignedBuffer::new(SCRATCH_BLOCK_BYTES))
        } else {
            AlignedBuffer::new((left as usize).next_multiple_of(4096))
        };
        let buffer = Some(Buffer::Aligned(buffer));
        self.lane.submit(location.device, Operation { kind: OperationKind::Read, token: run as u64, offset, buffer });
        self.lane.flush_submissions();
    }

    fn deliver(&mut self) -> Result<(), VolumeError> {
        let mut failure = None;
        for completion in self.completions.drain(..) {
            let Some(Buffer::Aligned(block)) = completion.buffer else {
                unreachable!("a lane returns the buffer it was given");
            };
            let cursor = &mut self.cursors[completion.token as usize];
            assert!(matches!(cursor.next, Next::Asked), "a block came that was not asked for");
            match completion.result {
                Ok(()) => cursor.next = Next::Here(block),
                Err(error) => {
                    cursor.next = Next::Nothing;
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}
