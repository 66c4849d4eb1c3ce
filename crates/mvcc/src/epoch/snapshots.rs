//! What is known of who can still see what, where an old snapshot holds the watermark back.

use super::epochs::Epochs;
use crate::sync::{Ordering, fence};

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
        self.visits.retain(|(number, visits)| epochs.announcement(*number).visits.load(Ordering::Acquire) == *visits);
        self.visits.is_empty()
    }
}

impl Epochs {
    /// The snapshots that versions superseded by `bound` have to be kept for, where no snapshot begins before `bound`
    /// any more.
    pub fn snapshots(&self, bound: u64) -> Snapshots {
        fence(Ordering::SeqCst);
        let announced = || self.in_use().filter_map(|announcement| announcement.time());
        // Someone who is just beginning may come to see anything since its announcement.
        let bound = announced().filter(|(_, exact)| !exact).fold(bound, |bound, (at, _)| bound.min(at));
        // Twice: see "Taking over" above.
        let exact = || announced().filter(|(_, exact)| *exact).map(|(at, _)| at);
        let mut taken: Vec<u64> = exact().collect();
        fence(Ordering::SeqCst);
        taken.extend(exact());
        taken.sort_unstable();
        Snapshots { taken, bound }
    }

    /// The visits that are going on, after a barrier for all threads; `None` where the system has none.
    pub fn quiescence(&self) -> Option<Quiescence> {
        crate::placement::barrier_for_all_threads().then(|| {
            let used = self.announcements_used.load(Ordering::Relaxed);
            let visits =
                self.announcements[..used].iter().map(|announcement| announcement.visits.load(Ordering::Acquire));
            Quiescence { visits: (0..).zip(visits).filter(|(_, visits)| visits & 1 == 1).collect() }
        })
    }
}
