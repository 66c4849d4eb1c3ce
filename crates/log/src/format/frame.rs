//! Frames: what one write puts into a log.
//!
//! A header of 64 bytes, a piece of the stream of records, zeros up to the next block. A frame says where it lies
//! (database, log, incarnation, extent, block), so what a reused slot still holds of an older extent is not taken for
//! it, and its checksum covers header and payload.

use saki_base::bytes::{put_u32, put_u64, u32_at, u64_at};
use saki_base::checksum;

use crate::format::{BLOCK_BYTES, Identity, TIMESTAMP_MAX, whole_blocks};

pub const FRAME_HEADER_BYTES: usize = 64;
const MAGIC: u32 = u32::from_le_bytes(*b"SKLF");

/// Where a frame lies: which it is, of all that were ever written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramePlace {
    pub identity: Identity,
    pub incarnation: u32,
    /// Sequence number of the extent.
    pub extent: u64,
    /// Block within the extent.
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
        assert_eq!(frame.len(), whole_blocks(end), "a frame of {} bytes of payload", self.payload_bytes);
        frame[end..].fill(0);
        put_u32(frame, 8, MAGIC);
        put_u32(frame, 12, self.payload_bytes);
        put_u64(frame, 16, place.identity.database);
        put_u64(frame, 24, place.extent);
        put_u32(frame, 32, place.identity.log);
        put_u32(frame, 36, place.block);
        put_u64(frame, 40, self.proven);
        put_u64(frame, 48, self.cut);
        put_u32(frame, 56, self.continued_bytes);
        put_u32(frame, 60, place.incarnation);
        let sum = checksum(&frame[8..end]);
        put_u64(frame, 0, sum);
    }

    /// Reads a frame's first block, of which only the place can be judged yet; `bytes_max` is what the extent has left
    /// from here. Its [`length`](Self::frame_bytes) tells how much [`verify`](Self::verify) wants.
    pub fn peek(place: &FramePlace, block: &[u8], bytes_max: usize) -> Result<Self, FrameFault> {
        let here = u32_at(block, 8) == Some(MAGIC)
            && u64_at(block, 16) == Some(place.identity.database)
            && u64_at(block, 24) == Some(place.extent)
            && u32_at(block, 32) == Some(place.identity.log)
            && u32_at(block, 36) == Some(place.block)
            && u32_at(block, 60) == Some(place.incarnation);
        if !here {
            return Err(FrameFault::Absent);
        }
        let header = Self::fields(block).ok_or(FrameFault::Absent)?;
        // Bounds every later slice, and what is read for this frame.
        if FRAME_HEADER_BYTES as u64 + u64::from(header.payload_bytes) > bytes_max as u64 {
            return Err(FrameFault::Torn);
        }
        Ok(header)
    }

    /// What a frame's first block says besides its place.
    fn fields(block: &[u8]) -> Option<Self> {
        Some(Self {
            payload_bytes: u32_at(block, 12)?,
            proven: u64_at(block, 40)?,
            cut: u64_at(block, 48)?,
            continued_bytes: u32_at(block, 56)?,
        })
    }

    /// Where a block that may be a frame's first says that it lies, if it is of this log.
    pub fn place(identity: Identity, block: &[u8]) -> Option<FramePlace> {
        let (incarnation, extent, number) = (u32_at(block, 60)?, u64_at(block, 24)?, u32_at(block, 36)?);
        let place = FramePlace { identity, incarnation, extent, block: number };
        Self::peek(&place, block, usize::MAX).is_ok().then_some(place)
    }

    /// Checks the whole frame.
    pub fn verify(&self, frame: &[u8]) -> Result<(), FrameFault> {
        if u64_at(frame, 0) != Some(checksum(&frame[8..self.end()])) {
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

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: FramePlace = FramePlace {
        identity: Identity { database: 0x0807_0605_0403_0201, log: 9, logs: 10 },
        incarnation: 11,
        extent: 12,
        block: 13,
    };

    fn sealed(payload: &[u8], header: &FrameHeader) -> Vec<u8> {
        let mut frame = vec![0xee; header.frame_bytes()];
        frame[FRAME_HEADER_BYTES..][..payload.len()].copy_from_slice(payload);
        header.seal(&PLACE, &mut frame);
        frame
    }

    fn header(payload: &[u8]) -> FrameHeader {
        FrameHeader { payload_bytes: payload.len() as u32, proven: 15, cut: 14, continued_bytes: 2 }
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let frame = sealed(b"abc", &header(b"abc"));
        assert_eq!(frame.len(), 4096);
        let expected: [&[u8]; 12] = [
            b"SKLF",
            &[3, 0, 0, 0],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[12, 0, 0, 0, 0, 0, 0, 0],
            &[9, 0, 0, 0],
            &[13, 0, 0, 0],
            &[15, 0, 0, 0, 0, 0, 0, 0],
            &[14, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0],
            &[11, 0, 0, 0],
            b"abc",
            &[0; 4096 - 67],
        ];
        assert_eq!(frame[8..], expected.concat());
        assert_eq!(frame[..8], checksum(&frame[8..67]).to_le_bytes());
    }

    #[test]
    fn frames_of_other_places_are_absent() {
        let frame = sealed(b"abc", &header(b"abc"));
        let identity = PLACE.identity;
        let others = [
            FramePlace { incarnation: 10, ..PLACE },
            FramePlace { extent: 11, ..PLACE },
            FramePlace { block: 14, ..PLACE },
            FramePlace { identity: Identity { log: 8, ..identity }, ..PLACE },
            FramePlace { identity: Identity { database: 1, ..identity }, ..PLACE },
        ];
        for other in others {
            assert_eq!(FrameHeader::peek(&other, &frame, 4096), Err(FrameFault::Absent));
        }
        assert_eq!(FrameHeader::peek(&PLACE, &[0; 4096], 4096), Err(FrameFault::Absent));
        assert_eq!(FrameHeader::peek(&PLACE, &frame, 66), Err(FrameFault::Torn), "longer than its extent");
    }

    #[test]
    fn what_a_frame_cannot_say_is_found() {
        let possible = [
            FrameHeader { continued_bytes: 3, ..header(b"abc") },
            FrameHeader { proven: 14, ..header(b"abc") },
            FrameHeader { proven: TIMESTAMP_MAX, ..header(b"abc") },
        ];
        let impossible = [
            FrameHeader { continued_bytes: 4, ..header(b"abc") },
            FrameHeader { proven: 13, ..header(b"abc") },
            FrameHeader { proven: TIMESTAMP_MAX + 1, ..header(b"abc") },
        ];
        let verified = |header: &FrameHeader| header.verify(&sealed(b"abc", header));
        possible.iter().for_each(|header| assert_eq!(verified(header), Ok(()), "{header:?}"));
        impossible.iter().for_each(|header| assert_eq!(verified(header), Err(FrameFault::Impossible), "{header:?}"));
    }

    proptest! {
        #[test]
        fn frames_round_trip_and_notice_every_flip(payload: Vec<u8>, flip: prop::sample::Index, bit in 0_u32..8) {
            let header = FrameHeader { continued_bytes: 0, ..header(&payload) };
            let mut frame = sealed(&payload, &header);
            let found = FrameHeader::peek(&PLACE, &frame, frame.len()).unwrap();
            prop_assert_eq!(found, header);
            prop_assert_eq!(found.verify(&frame), Ok(()));
            prop_assert_eq!(found.payload(&frame), &payload[..]);
            frame[flip.index(FRAME_HEADER_BYTES + payload.len())] ^= 1_u8 << bit;
            let bytes_max = frame.len();
            let verified = FrameHeader::peek(&PLACE, &frame, bytes_max).and_then(|found| found.verify(&frame));
            prop_assert!(verified.is_err());
        }

        #[test]
        fn any_bytes_are_judged(bytes: Vec<u8>, here: bool) {
            let mut frame = vec![0; 8192];
            if here {
                frame = [sealed(b"abc", &header(b"abc")), vec![0; 4096]].concat();
            }
            let length = bytes.len().min(64);
            frame[..length].iter_mut().zip(&bytes).for_each(|(byte, edit)| *byte ^= edit);
            if let Ok(found) = FrameHeader::peek(&PLACE, &frame, frame.len()) {
                prop_assert!(found.frame_bytes() <= frame.len());
                let _ = found.verify(&frame);
            }
        }
    }
}
