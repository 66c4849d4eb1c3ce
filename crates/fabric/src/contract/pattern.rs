//! Bytes that differ with their place, so that what was read is known to be what was asked for.

use saki_base::random::hash_integer;

/// Fills `bytes`, which begin `offset` bytes (a multiple of 8) into a region of this seed.
pub fn fill(bytes: &mut [u8], seed: u64, offset: u64) {
    for (word, at) in bytes.chunks_mut(8).zip((offset..).step_by(8)) {
        word.copy_from_slice(&hash_integer(seed ^ at).to_le_bytes()[..word.len()]);
    }
}

/// Panics unless `bytes` are those.
pub fn expect_filled(bytes: &[u8], seed: u64, offset: u64) {
    for (word, at) in bytes.chunks(8).zip((offset..).step_by(8)) {
        let expected = hash_integer(seed ^ at).to_le_bytes();
        assert_eq!(word, &expected[..word.len()], "wrong bytes at {at} of a region of seed {seed}");
    }
}
