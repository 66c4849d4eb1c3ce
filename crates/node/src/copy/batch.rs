//! What the formats have in common: how large a batch gets, and the error for bytes that are not in the format.

use crate::failure::Failure;

/// Rows of a batch at most.
pub const BATCH_ROWS: usize = 8_192;
/// Bytes of values from which a batch is passed on.
pub const BATCH_BYTES: usize = 4 << 20;

/// Bytes that are not in the format.
pub fn bad(message: impl Into<String>) -> Failure {
    Failure::new("22P04", message)
}
