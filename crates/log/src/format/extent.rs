//! Extent headers: the first block of a slot says which extent is in it.
//!
//! All of it lies in the first 512 bytes, which a device writes at once even when the power goes: a slot holds the old
//! extent or the new one, never half of each. The header is durable before the first frame is written behind it.

use saki_base::bytes::{put_u32, put_u64, u32_at, u64_at};
use saki_base::checksum;

use crate::format::{BLOCK_BYTES, FORMAT_VERSION, Identity, Incarnation, TIMESTAMP_MAX};

/// Covered by the checksum: the sector that holds the header.
pub const HEADER_BYTES: usize = 512;
const MAGIC: [u8; 8] = *b"SAKI-LOG";

/// What the first block of a slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentHeader {
    pub identity: Identity,
    pub incarnation: Incarnation,
    pub extent_bytes: u64,
    /// Counts the extents of a log, over all incarnations, from 1.
    pub sequence: u64,
    /// Everything through this timestamp is durable elsewhere.
    pub cut: u64,
    /// The oldest extent of this log that was still needed.
    pub oldest: u64,
}

/// What the first block of a slot may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeaderFound {
    /// Never written.
    Empty,
    Header(ExtentHeader),
    /// Of another version of the format.
    Version(u32),
    /// It says that it is a header, and its checksum does not agree.
    Damaged,
    /// Something else.
    Foreign,
    /// The checksum agrees with what cannot be.
    Impossible(String),
}

impl ExtentHeader {
    /// Fills a block.
    pub fn encode(&self, block: &mut [u8]) {
        assert_eq!(block.len(), BLOCK_BYTES, "a header takes one block");
        block.fill(0);
        block[8..16].copy_from_slice(&MAGIC);
        put_u32(block, 16, FORMAT_VERSION);
        put_u32(block, 20, self.identity.log);
        put_u32(block, 24, self.identity.logs);
        put_u32(block, 28, self.incarnation.number);
        put_u64(block, 32, self.identity.database);
        put_u64(block, 40, self.extent_bytes);
        put_u64(block, 48, self.sequence);
        put_u64(block, 56, self.incarnation.recovered_through);
        put_u64(block, 64, self.incarnation.first);
        put_u64(block, 72, self.cut);
        put_u64(block, 80, self.oldest);
        let sum = checksum(&block[8..HEADER_BYTES]);
        put_u64(block, 0, sum);
    }

    /// Reads the first block of a slot, which may be anything.
    pub fn decode(block: &[u8]) -> HeaderFound {
        let sector = &block[..HEADER_BYTES];
        if sector[8..16] != MAGIC {
            let empty = sector.iter().all(|byte| *byte == 0);
            return if empty { HeaderFound::Empty } else { HeaderFound::Foreign };
        }
        if u64_at(sector, 0) != Some(checksum(&sector[8..])) {
            return HeaderFound::Damaged;
        }
        // Checksum, magic and version stay where they are in every version.
        match u32_at(sector, 16) {
            Some(FORMAT_VERSION) => {}
            Some(version) => return HeaderFound::Version(version),
            None => return HeaderFound::Damaged,
        }
        let Some(header) = Self::fields(sector) else { return HeaderFound::Damaged };
        match header.fault() {
            None => HeaderFound::Header(header),
            Some(fault) => HeaderFound::Impossible(fault),
        }
    }

    /// What a header of this version says.
    fn fields(sector: &[u8]) -> Option<Self> {
        let (log, logs, database) = (u32_at(sector, 20)?, u32_at(sector, 24)?, u64_at(sector, 32)?);
        Some(Self {
            identity: Identity { database, log, logs },
            incarnation: Incarnation {
                number: u32_at(sector, 28)?,
                recovered_through: u64_at(sector, 56)?,
                first: u64_at(sector, 64)?,
            },
            extent_bytes: u64_at(sector, 40)?,
            sequence: u64_at(sector, 48)?,
            cut: u64_at(sector, 72)?,
            oldest: u64_at(sector, 80)?,
        })
    }

    /// What later arithmetic relies on.
    fn fault(&self) -> Option<String> {
        let Self { incarnation, sequence, cut, oldest, extent_bytes, .. } = *self;
        let block = BLOCK_BYTES as u64;
        if !extent_bytes.is_multiple_of(block) || !(4 * block..=1 << 40).contains(&extent_bytes) {
            return Some(format!("extents of {extent_bytes} bytes"));
        }
        // Both are counted on from: half the range is left for that.
        if sequence == 0 || sequence > u64::MAX / 2 || oldest == 0 || oldest > sequence {
            return Some(format!("extent {sequence}, of which {oldest} is the oldest"));
        }
        if incarnation.number == 0 || incarnation.number > u32::MAX / 2 {
            return Some(format!("incarnation {}", incarnation.number));
        }
        if incarnation.first > TIMESTAMP_MAX
            || incarnation.recovered_through >= incarnation.first
            || cut > TIMESTAMP_MAX
        {
            return Some(format!(
                "recovered through {}, first timestamp {}, cut {cut}",
                incarnation.recovered_through, incarnation.first
            ));
        }
        None
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> ExtentHeader {
        ExtentHeader {
            identity: Identity { database: 0x0807_0605_0403_0201, log: 2, logs: 3 },
            incarnation: Incarnation { number: 4, recovered_through: 5, first: 7 },
            extent_bytes: 0x10000,
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
        assert_eq!(ExtentHeader::decode(&block), HeaderFound::Header(header()));
    }

    #[test]
    fn what_is_no_header_is_told_apart() {
        let mut block = [0; BLOCK_BYTES];
        assert_eq!(ExtentHeader::decode(&block), HeaderFound::Empty);
        block[300] = 1;
        assert_eq!(ExtentHeader::decode(&block), HeaderFound::Foreign);
        let impossible = [
            ExtentHeader { extent_bytes: 4096, ..header() },
            ExtentHeader { extent_bytes: 3 * BLOCK_BYTES as u64, ..header() },
            ExtentHeader { extent_bytes: 1 << 60, ..header() },
            ExtentHeader { sequence: 0, ..header() },
            ExtentHeader { sequence: u64::MAX / 2 + 1, ..header() },
            ExtentHeader { oldest: 10, ..header() },
            ExtentHeader { cut: TIMESTAMP_MAX + 1, ..header() },
            ExtentHeader { incarnation: Incarnation { number: 0, ..header().incarnation }, ..header() },
            ExtentHeader { incarnation: Incarnation { number: u32::MAX / 2 + 1, ..header().incarnation }, ..header() },
            ExtentHeader { incarnation: Incarnation { first: 5, ..header().incarnation }, ..header() },
            ExtentHeader { incarnation: Incarnation { first: u64::MAX, ..header().incarnation }, ..header() },
        ];
        for header in impossible {
            header.encode(&mut block);
            assert!(matches!(ExtentHeader::decode(&block), HeaderFound::Impossible(_)), "{header:?}");
        }
    }

    #[test]
    fn what_is_just_possible_is_a_header() {
        let possible = [
            ExtentHeader { extent_bytes: 4 * BLOCK_BYTES as u64, ..header() },
            ExtentHeader { sequence: u64::MAX / 2, ..header() },
            ExtentHeader { oldest: 9, ..header() },
            ExtentHeader { cut: TIMESTAMP_MAX, ..header() },
            ExtentHeader { incarnation: Incarnation { number: u32::MAX / 2, ..header().incarnation }, ..header() },
            ExtentHeader { incarnation: Incarnation { first: TIMESTAMP_MAX, ..header().incarnation }, ..header() },
        ];
        for header in possible {
            let mut block = [0; BLOCK_BYTES];
            header.encode(&mut block);
            assert_eq!(ExtentHeader::decode(&block), HeaderFound::Header(header));
        }
    }

    proptest! {
        #[test]
        fn every_flip_is_noticed(at in 0..HEADER_BYTES, bit in 0_u32..8) {
            let mut block = [0; BLOCK_BYTES];
            header().encode(&mut block);
            block[at] ^= 1_u8 << bit;
            let found = ExtentHeader::decode(&block);
            prop_assert!(matches!(found, HeaderFound::Damaged | HeaderFound::Foreign), "{:?}", found);
        }
    }
}
