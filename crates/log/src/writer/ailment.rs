//! A device that fails, as the writer knows of it.

use std::time::Instant;

/// What is wrong, and since when.
pub(super) struct Ailment {
    pub since: Instant,
    /// How often it was tried again in vain.
    pub tries: u32,
    /// A flush failed: what was written before it is in doubt.
    pub in_doubt: bool,
    /// What failed is over or being written again; otherwise, when that may begin.
    pub state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    TryAt(Instant),
    Trying,
}
