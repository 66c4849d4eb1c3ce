//! What headers share: the block, integers at fixed places, and where a frame lies. Byte by byte in `docs/log-format.md`.

/// Unit of alignment of everything on the device.
pub const BLOCK_BYTES: usize = 4096;
/// The version that this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// No header says a later one: what is counted on from one does not overflow.
pub const TIMESTAMP_MAX: u64 = u64::MAX / 4;

/// Rounds up to whole blocks.
pub fn whole_blocks(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// The `u32` at `at`.
///
/// # Panics
/// If the bytes end before: headers are slices of their full length.
pub fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The `u64` at `at`; as [`read_u32`].
pub fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Puts a `u32` at `at`.
pub fn write_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Puts a `u64` at `at`.
pub fn write_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Whose log it is: part of every header, so that what others left is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub database: u64,
    pub log: u32,
    /// How many logs the database has.
    pub logs: u32,
}

/// One run: from an opening of the logs to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Counts from 1.
    pub number: u32,
    /// Of earlier runs, everything through this timestamp counts and nothing after it.
    pub recovered_through: u64,
    /// The first timestamp of this run. Those between are void.
    pub first: u64,
}
