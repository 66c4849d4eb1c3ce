//! Frames: what one write puts into a log.
//!
//! A header of 64 bytes, a piece of the stream of records, zeros up to the next block. A frame says where it lies (database,
//! log, run, segment, block), so what a reused slot still holds of an older segment is not taken for it, and its checksum
//! covers header and payload.

use saki_base::checksum;

use crate::format::{BLOCK_BYTES, Identity, TIMESTAMP_MAX, read_u32, read_u64, whole_blocks, write_u32, write_u64};

pub const FRAME_HEADER_BYTES: usize = 64;
const MAGIC: [u8; 4] = *b"SKLF";

/// Where a frame lies: which it is, of all that were ever written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramePlace {
    pub identity: Identity,
    pub run: u32,
    /// Sequence number of the segment.
    pub segment: u64,
    /// Block within the segment.
    pub block: u32,
}

/// What a frame says besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    pub payload_bytes: u32,
    /// The durable horizon when the frame was written: all records through it can be read, in one log or another.
    pub proven: u64,
    /// Everything through this timestamp is durable elsewhere.
    pub cut: u64,
    /// Bytes at the payload's beginning that end a record begun in an earlier frame.
    pub continued_bytes: u32,
}

/// Why bytes are not the frame that was looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameFault {
    /// Not a frame at all, or one of another place: here the log was never written.
    Absent,
    /// It says that it is this frame, and its checksum does not agree.
    Torn,
    /// The checksum agrees with what cannot be.
    Impossible,
}

impl FrameHeader {
    /// Makes a frame of `frame`, whole blocks whose payload is in its place already: header, zeros, checksum.
    pub fn seal(&self, place: &FramePlace, frame: &mut [u8]) {
        let end = self.end();
        debug_assert_eq!(frame.len(), whole_blocks(end));
        frame[end..].fill(0);
        frame[8..12].copy_from_slice(&MAGIC);
        write_u32(frame, 12, self.payload_bytes);
        write_u64(frame, 16, place.identity.database);
        write_u64(frame, 24, place.segment);
        write_u32(frame, 32, place.identity.log);
        write_u32(frame, 36, place.block);
        write_u64(frame, 40, self.proven);
        write_u64(frame, 48, self.cut);
        write_u32(frame, 56, self.continued_bytes);
        write_u32(frame, 60, place.run);
        let sum = checksum(&frame[8..end]);
        write_u64(frame, 0, sum);
    }

    /// Reads a frame's first block, of which only the place can be judged yet; `bytes_max` is what the segment has left from here.
    /// Its [`length`](Self::frame_bytes) tells how much [`verify`](Self::verify) wants.
    pub fn peek(place: &FramePlace, block: &[u8], bytes_max: usize) -> Result<Self, FrameFault> {
        let here = block[8..12] == MAGIC
            && read_u64(block, 16) == place.identity.database
            && read_u64(block, 24) == place.segment
            && read_u32(block, 32) == place.identity.log
            && read_u32(block, 36) == place.block
            && read_u32(block, 60) == place.run;
        if !here {
            return Err(FrameFault::Absent);
        }
        let header = Self {
            payload_bytes: read_u32(block, 12),
            proven: read_u64(block, 40),
            cut: read_u64(block, 48),
            continued_bytes: read_u32(block, 56),
        };
        // Bounds every later slice, and what is read for this frame.
        if FRAME_HEADER_BYTES as u64 + u64::from(header.payload_bytes) > bytes_max as u64 {
            return Err(FrameFault::Torn);
        }
        Ok(header)
    }

    /// Checks the whole frame.
    pub fn verify(&self, frame: &[u8]) -> Result<(), FrameFault> {
        if checksum(&frame[8..self.end()]) != read_u64(frame, 0) {
            return Err(FrameFault::Torn);
        }
        if self.continued_bytes > self.payload_bytes || self.cut > self.proven || self.proven > TIMESTAMP_MAX {
            return Err(FrameFault::Impossible);
        }
        Ok(())
    }

    /// The payload of a frame that was verified.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        &frame[FRAME_HEADER_BYTES..self.end()]
    }

    fn end(&self) -> usize {
        FRAME_HEADER_BYTES + self.payload_bytes as usize
    }

    /// Whole blocks of header and payload.
    pub fn frame_bytes(&self) -> usize {
        whole_blocks(self.end())
    }
}

const _: () = assert!(FRAME_HEADER_BYTES < BLOCK_BYTES);
