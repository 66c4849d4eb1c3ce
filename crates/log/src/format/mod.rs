//! What headers share: the block, and where a frame lies. Byte by byte in `docs/log-format.md`.

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

/// Whose log it is: part of every header, so that what others left is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub database: u64,
    pub log: u32,
    /// How many logs the database has.
    pub logs: u32,
}

/// One incarnation: from an opening of the logs to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incarnation {
    /// Counts from 1.
    pub number: u32,
    /// Of earlier incarnations, everything through this timestamp counts and nothing after it.
    pub recovered_through: u64,
    /// The first timestamp of this incarnation. Those between are void.
    pub first: u64,
}
pub mod extent;
pub mod frame;
pub mod record;
