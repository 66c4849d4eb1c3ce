//! What is known of who can still see what, where an old snapshot holds the horizon back.

use super::Epochs;
use crate::sync::Ordering;

/// Who can still see what is superseded.
#[derive(Default)]
pub struct Snapshots {
    /// Ascending.
    pub(super) taken: Vec<u64>,
    /// Of versions superseded later nothing is known.
    pub(super) bound: u64,
}

impl Snapshots {
    /// Whether nobody sees, nor will, what began at `begin` and was superseded at `end`.
    pub fn none_sees(&self, begin: u64, end: u64) -> bool {
        end <= self.bound && self.taken.get(self.taken.partition_point(|at| *at < begin)).is_none_or(|at| *at >= end)
    }

    /// Versions superseded up to here may turn out to be seen by nobody.
    pub fn bound(&self) -> u64 {
        self.bound
    }
}

/// Visits that were going on at some time.
pub struct Quiescence {
    pub(super) visits: Vec<(u32, u64)>,
}

impl Quiescence {
    /// Whether all of them have ended: what had been unlinked before is held by nobody.
    pub fn is_over(&mut self, epochs: &Epochs) -> bool {
        self.visits.retain(|(slot, visits)| epochs.slot(*slot).visits.load(Ordering::Acquire) == *visits);
        self.visits.is_empty()
    }
}
