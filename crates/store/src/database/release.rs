//! Rows that are in the base already and wait to leave memory.

use std::sync::Weak;

use saki_base::planted::{self, Fault};

use super::generation::Generation;

/// Rows that may leave memory once nobody reads a generation that lacks them.
pub struct Release {
    /// The base has every transaction up to this timestamp.
    pub through: u64,
    /// Those generations.
    pub older: Vec<Weak<Generation>>,
}

impl Release {
    /// Whether somebody still reads such a generation.
    pub fn is_held(&self) -> bool {
        !planted::is(Fault::ReleaseEarly) && self.older.iter().any(|generation| generation.strong_count() > 0)
    }
}
