//! Sizes and marks of the format.

/// Unit of alignment of everything on the device.
pub const BLOCK_BYTES: usize = 4096;
