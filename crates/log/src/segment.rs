//! Segment headers: the first block of a slot says which segment is in it.
//!
//! All of it lies in the first 512 bytes, which a device writes at once even when the power goes: a slot holds the old segment
//! or the new one, never half of each. The header is durable before the first frame is written behind it.

use saki_base::checksum;

use crate::format::{
    BLOCK_BYTES, FORMAT_VERSION, Identity, Run, TIMESTAMP_MAX, read_u32, read_u64, write_u32, write_u64,
};

/// Covered by the checksum: the sector that holds the header.
pub const HEADER_BYTES: usize = 512;
const MAGIC: [u8; 8] = *b"SAKI-LOG";

/// What the first block of a slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    pub identity: Identity,
    pub run: Run,
    pub segment_bytes: u64,
    /// Counts the segments of a log, over all runs, from 1.
    pub sequence: u64,
    /// Everything through this timestamp is durable elsewhere.
    pub cut: u64,
    /// The oldest segment of this log that was still needed.
    pub oldest: u64,
}

/// What the first block of a slot may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeaderFound {
    /// Never written.
    Empty,
    Header(SegmentHeader),
    /// Of another version of the format.
    Version(u32),
    /// It says that it is a header, and its checksum does not agree.
    Damaged,
    /// Something else.
    Foreign,
    /// The checksum agrees with what cannot be.
    Impossible(String),
}

impl SegmentHeader {
    /// Fills a block.
    pub fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        block[8..16].copy_from_slice(&MAGIC);
        write_u32(block, 16, FORMAT_VERSION);
        write_u32(block, 20, self.identity.log);
        write_u32(block, 24, self.identity.logs);
        write_u32(block, 28, self.run.number);
        write_u64(block, 32, self.identity.database);
        write_u64(block, 40, self.segment_bytes);
        write_u64(block, 48, self.sequence);
        write_u64(block, 56, self.run.recovered_through);
        write_u64(block, 64, self.run.first);
        write_u64(block, 72, self.cut);
        write_u64(block, 80, self.oldest);
        let sum = checksum(&block[8..HEADER_BYTES]);
        write_u64(block, 0, sum);
    }

    /// Reads the first block of a slot, which may be anything.
    pub fn decode(block: &[u8]) -> HeaderFound {
        let sector = &block[..HEADER_BYTES];
        if sector[8..16] != MAGIC {
            let empty = sector.iter().all(|byte| *byte == 0);
            return if empty { HeaderFound::Empty } else { HeaderFound::Foreign };
        }
        if checksum(&sector[8..]) != read_u64(sector, 0) {
            return HeaderFound::Damaged;
        }
        // Checksum, magic and version stay where they are in every version.
        let version = read_u32(sector, 16);
        if version != FORMAT_VERSION {
            return HeaderFound::Version(version);
        }
        let header = Self {
            identity: Identity {
                log: read_u32(sector, 20),
                logs: read_u32(sector, 24),
                database: read_u64(sector, 32),
            },
            run: Run {
                number: read_u32(sector, 28),
                recovered_through: read_u64(sector, 56),
                first: read_u64(sector, 64),
            },
            segment_bytes: read_u64(sector, 40),
            sequence: read_u64(sector, 48),
            cut: read_u64(sector, 72),
            oldest: read_u64(sector, 80),
        };
        match header.fault() {
            None => HeaderFound::Header(header),
            Some(fault) => HeaderFound::Impossible(fault),
        }
    }

    /// What later arithmetic relies on.
    fn fault(&self) -> Option<String> {
        let Self { run, sequence, cut, oldest, segment_bytes, .. } = *self;
        let block = BLOCK_BYTES as u64;
        if !segment_bytes.is_multiple_of(block) || !(4 * block..=1 << 40).contains(&segment_bytes) {
            return Some(format!("segments of {segment_bytes} bytes"));
        }
        // Both are counted on from: half the range is left for that.
        if sequence == 0 || sequence > u64::MAX / 2 || oldest == 0 || oldest > sequence {
            return Some(format!("segment {sequence}, of which {oldest} is the oldest"));
        }
        if run.number == 0 || run.number > u32::MAX / 2 {
            return Some(format!("run {}", run.number));
        }
        if run.first > TIMESTAMP_MAX || run.recovered_through >= run.first || cut > TIMESTAMP_MAX {
            return Some(format!(
                "recovered through {}, first timestamp {}, cut {cut}",
                run.recovered_through, run.first
            ));
        }
        None
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            identity: Identity { database: 0x0807_0605_0403_0201, log: 2, logs: 3 },
            run: Run { number: 4, recovered_through: 5, first: 7 },
            segment_bytes: 0x10000,
            sequence: 9,
            cut: 10,
            oldest: 8,
        }
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let mut block = [0xee; BLOCK_BYTES];
        header().encode(&mut block);
        let expected: [&[u8]; 13] = [
            b"SAKI-LOG",
            &[1, 0, 0, 0],
            &[2, 0, 0, 0],
            &[3, 0, 0, 0],
            &[4, 0, 0, 0],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[0, 0, 1, 0, 0, 0, 0, 0],
            &[9, 0, 0, 0, 0, 0, 0, 0],
            &[5, 0, 0, 0, 0, 0, 0, 0],
            &[7, 0, 0, 0, 0, 0, 0, 0],
            &[10, 0, 0, 0, 0, 0, 0, 0],
            &[8, 0, 0, 0, 0, 0, 0, 0],
            &[0; BLOCK_BYTES - 88],
        ];
        assert_eq!(block[8..], expected.concat());
        assert_eq!(block[..8], checksum(&block[8..512]).to_le_bytes());
        assert_eq!(SegmentHeader::decode(&block), HeaderFound::Header(header()));
    }

    #[test]
    fn what_is_no_header_is_told_apart() {
        let mut block = [0; BLOCK_BYTES];
        assert_eq!(SegmentHeader::decode(&block), HeaderFound::Empty);
        block[300] = 1;
        assert_eq!(SegmentHeader::decode(&block), HeaderFound::Foreign);
        let impossible = [
            SegmentHeader { segment_bytes: 4096, ..header() },
            SegmentHeader { segment_bytes: 1 << 60, ..header() },
            SegmentHeader { sequence: 0, ..header() },
            SegmentHeader { sequence: u64::MAX, ..header() },
            SegmentHeader { oldest: 10, ..header() },
            SegmentHeader { cut: u64::MAX, ..header() },
            SegmentHeader { run: Run { number: 0, ..header().run }, ..header() },
            SegmentHeader { run: Run { first: 5, ..header().run }, ..header() },
            SegmentHeader { run: Run { first: u64::MAX, ..header().run }, ..header() },
        ];
        for header in impossible {
            header.encode(&mut block);
            assert!(matches!(SegmentHeader::decode(&block), HeaderFound::Impossible(_)), "{header:?}");
        }
    }

    proptest! {
        #[test]
        fn every_flip_is_noticed(at in 0..HEADER_BYTES, bit in 0_u32..8) {
            let mut block = [0; BLOCK_BYTES];
            header().encode(&mut block);
            block[at] ^= 1_u8 << bit;
            let found = SegmentHeader::decode(&block);
            prop_assert!(matches!(found, HeaderFound::Damaged | HeaderFound::Foreign), "{:?}", found);
        }
    }
}
