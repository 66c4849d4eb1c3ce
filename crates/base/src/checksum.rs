//! Checksums: xxh3-64 everywhere, of whole pages, records and blocks.

/// xxh3-64 of `bytes`: what a parent stores beside a page's address.
#[inline]
pub fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
