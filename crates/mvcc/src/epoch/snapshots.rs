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
        super::barrier::barrier_for_all_threads().then(|| {
            let used = self.announcements_used.load(Ordering::Relaxed);
            let visits =
                self.announcements[..used].iter().map(|announcement| announcement.visits.load(Ordering::Acquire));
            Quiescence { visits: (0..).zip(visits).filter(|(_, visits)| visits & 1 == 1).collect() }
        })
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;

    #[test]
    fn visits_that_go_on_are_waited_for_and_no_later_ones() {
        let epochs = Epochs::new(0, 3);
        let [one, two, late] = [(); 3].map(|()| epochs.join().expect("a place"));
        let visits_going_on = || epochs.quiescence().expect("this system has barriers");
        assert!(visits_going_on().is_over(&epochs));
        let is_outer = one.begin_visit();
        assert!(is_outer && one.is_visiting() && !two.is_visiting());
        let inner = one.begin_visit();
        two.visiting(|| {
            let mut before = visits_going_on();
            one.end_visit(inner);
            assert!(!before.is_over(&epochs), "within another");
            one.end_visit(is_outer);
            assert!(!one.is_visiting() && !before.is_over(&epochs), "the other one's");
        });
        let mut before = two.visiting(visits_going_on);
        late.visiting(|| assert!(before.is_over(&epochs), "what begins later has met nothing of before"));
        assert!(!two.is_visiting());
    }
}
