//! What formats are made of: little-endian numbers at places, and checksums over them.
//!
//! Reading is checked: bytes may be hostile, and a number that would lie outside of them is `None`. Writing panics
//! instead, as whoever writes has made the room.

/// xxh3-64 of `bytes`: what a parent stores beside a page's address, and what blocks and records carry.
#[inline]
pub fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// The bytes at `at`; `None` if they would lie outside.
#[inline]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The number at `at`.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

/// The number at `at`.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

/// The number at `at`.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

/// The number at `at`.
#[inline]
pub fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    array_at(bytes, at).map(u128::from_le_bytes)
}

/// Writes a number at `at`.
#[inline]
pub fn put_u16(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + size_of::<u16>()].copy_from_slice(&number.to_le_bytes());
}

/// Writes a number at `at`.
#[inline]
pub fn put_u32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + size_of::<u32>()].copy_from_slice(&number.to_le_bytes());
}

/// Writes a number at `at`.
#[inline]
pub fn put_u64(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + size_of::<u64>()].copy_from_slice(&number.to_le_bytes());
}

/// Writes a number at `at`.
#[inline]
pub fn put_u128(bytes: &mut [u8], at: usize, number: u128) {
    bytes[at..at + size_of::<u128>()].copy_from_slice(&number.to_le_bytes());
}

/// Reads one field after the other. What is not there is `None`, and nothing is taken then.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'b> {
    rest: &'b [u8],
}

impl<'b> ByteReader<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'b [u8] {
        self.rest
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read() {
        let mut bytes = [0; 32];
        put_u16(&mut bytes, 0, 0x0102);
        put_u32(&mut bytes, 2, 0x0304_0506);
        put_u64(&mut bytes, 6, 7);
        put_u128(&mut bytes, 16, u128::MAX - 1);
        assert_eq!(bytes[..7], [2, 1, 6, 5, 4, 3, 7]);
        assert_eq!((u16_at(&bytes, 0), u32_at(&bytes, 2)), (Some(0x0102), Some(0x0304_0506)));
        assert_eq!((u64_at(&bytes, 6), u128_at(&bytes, 16)), (Some(7), Some(u128::MAX - 1)));
    }

    #[test]
    fn what_lies_outside_is_none() {
        let bytes = [1; 8];
        for at in [1, 8, 9, usize::MAX] {
            assert_eq!((u64_at(&bytes, at), u128_at(&bytes, at)), (None, None), "at {at}");
        }
        assert_eq!((u16_at(&bytes, 6), u16_at(&bytes, 7)), (Some(0x0101), None));
        assert_eq!((u32_at(&bytes, 4), u32_at(&bytes, 5)), (Some(0x0101_0101), None));
    }

    #[test]
    fn a_reader_takes_what_is_whole() {
        let mut reader = ByteReader::new(&[1, 2, 0, 3, 0, 0, 0, 9, 9, 9]);
        assert_eq!((reader.u8(), reader.u16(), reader.u32()), (Some(1), Some(2), Some(3)));
        assert_eq!((reader.u64(), reader.u32(), reader.take(4)), (None, None, None));
        assert_eq!((reader.take(2), reader.rest()), (Some(&[9, 9][..]), &[9][..]));
        assert_eq!((reader.u8(), reader.u8()), (Some(9), None));
    }
}
