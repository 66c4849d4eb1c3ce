//! Which of a transaction's writes made a version.

use std::ptr::NonNull;

use hashbrown::HashMap;

use super::write::Write;
use crate::chain::Version;

/// So few writes are looked through.
const FEW: usize = 32;

/// Where in its list a transaction finds the write that made a version: in a map, once there are many.
#[derive(Default)]
pub(crate) struct Positions {
    by_version: HashMap<NonNull<Version>, usize>,
    /// Writes in the map: the first so many.
    through: usize,
}

impl Positions {
    /// The position of the write that made `version`; `None` if it is not of this transaction.
    pub fn find(&mut self, writes: &[Write], version: NonNull<Version>) -> Option<usize> {
        if writes.len() <= FEW {
            return writes.iter().rposition(|write| write.version == version);
        }
        self.by_version.extend((self.through..).zip(&writes[self.through..]).map(|(at, write)| (write.version, at)));
        self.through = writes.len();
        self.by_version.get(&version).copied()
    }

    /// The last write, at `position`, was taken back.
    pub fn forget(&mut self, position: usize, write: &Write) {
        if position < self.through {
            self.by_version.remove(&write.version);
            self.through = position;
        }
    }
}
