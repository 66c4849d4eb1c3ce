//! What every device of a volume says of itself, so that none is ever taken for another.
//!
//! ```text
//!    0  magic "SAKILABL"  8
//!    8  version           4   1
//!   12  number            2
//!   14  zero              2
//!   16  database id      16
//!   32  attached          8   the generation that first had it
//!   40  checksum          8   xxh3-64 of bytes 0..40
//! ```
//!
//! It lies in two places of slot 0; either is enough.

use saki_base::bytes::{put_u16, put_u32, put_u64, put_u128, u16_at, u32_at, u64_at, u128_at};
use saki_base::{DeviceId, GenerationNumber, checksum};

/// Where labels lie, in bytes from a device's start.
pub(crate) const LABEL_PLACES: [u64; 2] = [128 << 10, 640 << 10];
/// Bytes read and written of each.
pub(crate) const LABEL_BYTES: usize = 4096;
const MAGIC: &[u8; 8] = b"SAKILABL";
const VERSION: u32 = 1;
const OFFSET_CHECKSUM: usize = 40;

/// Which device of which database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label {
    pub database_id: u128,
    pub number: DeviceId,
    pub attached: GenerationNumber,
}

impl Label {
    pub fn encode(self) -> [u8; LABEL_BYTES] {
        let mut bytes = [0; LABEL_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u16(&mut bytes, 12, self.number.0);
        put_u128(&mut bytes, 16, self.database_id);
        put_u64(&mut bytes, 32, self.attached.0);
        let sum = checksum(&bytes[..OFFSET_CHECKSUM]);
        put_u64(&mut bytes, OFFSET_CHECKSUM, sum);
        bytes
    }

    /// `None` if there is no whole label.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let is_whole = bytes.len() >= LABEL_BYTES
            && &bytes[..8] == MAGIC
            && u32_at(bytes, 8) == Some(VERSION)
            && u64_at(bytes, OFFSET_CHECKSUM) == Some(checksum(&bytes[..OFFSET_CHECKSUM]));
        if !is_whole {
            return None;
        }
        let (number, attached) = (DeviceId(u16_at(bytes, 12)?), GenerationNumber(u64_at(bytes, 32)?));
        Some(Self { database_id: u128_at(bytes, 16)?, number, attached })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Label {
        Label { database_id: 0x11 << 120 | 0x22, number: DeviceId(5), attached: GenerationNumber(7) }
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let bytes = example().encode();
        let mut expected = b"SAKILABL\x01\0\0\0\x05\0\0\0\x22".to_vec();
        expected.resize(31, 0);
        expected.extend_from_slice(&[0x11, 7]);
        expected.resize(40, 0);
        assert_eq!(bytes[..40], expected);
        assert_eq!(bytes[40..48], checksum(&expected).to_le_bytes());
        assert_eq!(Label::decode(&bytes), Some(example()));
    }

    #[test]
    fn a_flipped_bit_is_never_accepted() {
        for bit in 0..48 * 8 {
            let mut bytes = example().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Label::decode(&bytes), None, "bit {bit}");
        }
        assert_eq!(Label::decode(&[0; 100]), None);
    }
}
