//! Hashes of group keys: folded 64-bit multiplication, as in wyhash (Wang Yi) and foldhash. Equal in every thread, so
//! that what several threads hold can be brought together by hash.

/// Digits of the golden ratio and of pi: odd, with no pattern in their bits.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const PI: [u64; 3] = [0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7344, 0xA409_3822_299F_31D1];

/// Both halves of the 128-bit product: every bit of the operands reaches bits all over the result.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline]
pub(crate) fn of_key(key: u64) -> u64 {
    fold(key ^ PI[0], GOLDEN)
}

#[inline]
fn read8(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

#[inline]
fn read4(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<4>().map_or(0, |chunk| u64::from(u32::from_le_bytes(*chunk)))
}

#[inline]
pub(crate) fn of_bytes(bytes: &[u8]) -> u32 {
    let length = bytes.len();
    let mut state = (length as u64).wrapping_mul(GOLDEN) ^ PI[0];
    let (blocks, rest) = bytes.as_chunks::<16>();
    for block in blocks {
        state = fold(read8(block) ^ PI[1], read8(&block[8..]) ^ state);
    }
    // The two halves of what is left may overlap.
    let (first, second) = match rest.len() {
        8.. => (read8(rest), read8(&rest[rest.len() - 8..])),
        4.. => (read4(rest), read4(&rest[rest.len() - 4..])),
        1.. => (u64::from(rest[0]) << 8 | u64::from(rest[rest.len() / 2]), u64::from(rest[rest.len() - 1])),
        0 => (0, 0),
    };
    let hash = fold(fold(first ^ PI[2], second ^ state), GOLDEN);
    (hash >> 32) as u32
}
