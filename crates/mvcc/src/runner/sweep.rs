//! Everybody's garbage, where everybody comes to it.
//!
//! A runner frees its own garbage after its commits. What an old snapshot holds back then stays in its queue; and when
//! the snapshot ends, the runner may have nothing to do for long. So its queue lies under a lock which nobody but the
//! runner wants as a rule: it takes it once for each commit that leaves garbage, on a line of its own. Others *sweep*:
//! they try the lock now and then, and free what has become ripe, into memory of their own.
//!
//! ```text
//!   runner, at its commits:     lock own ── queue, free what is ripe
//!   any runner, as the watermark moves on, and Database::sweep:
//!                               watermark ── try_lock another's ── free a step of what is ripe ── the next one's
//! ```
//!
//! # Why it is safe
//! An entry is free to go by its own time and the watermark, whoever looks: both are of the clock, and the fences of
//! `epoch` stand between a retirement and a watermark that is later than it, on whichever threads these are, the
//! watermark computed before the lock was taken or after. What a pruned version waits for besides, the end of all
//! visits, lies in the queue with it. Of memory the sweeper needs only an arena: blocks belong to none.
//! (`loom` checks it: `epoch::loom`.)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::reclaim::{Means, Reclaimer, STEP};

/// A queue of garbage and its lock.
pub(crate) type Shelf = CachePadded<Mutex<Reclaimer>>;

/// Commits that the watermark has to move on by until somebody who frees garbage of its own looks at others' too.
const EVERY: u64 = if cfg!(debug_assertions) { 64 } else { 4096 };
/// Queues that are looked at then.
const SHELVES: usize = 64;

/// The garbage of all runners.
pub(crate) struct Reclaimers {
    /// First that of runners that have ended.
    shelves: Mutex<Vec<Arc<Shelf>>>,
    /// Whose turn it is.
    next: AtomicUsize,
    /// The watermark when others' garbage was looked at last.
    swept: CachePadded<AtomicU64>,
}

impl Default for Reclaimers {
    fn default() -> Self {
        Self { shelves: Mutex::new(vec![Arc::default()]), next: AtomicUsize::new(0), swept: CachePadded::default() }
    }
}

impl Reclaimers {
    /// A queue for a new runner.
    pub fn add(&self) -> Arc<Shelf> {
        let shelf = Arc::<Shelf>::default();
        self.shelves.lock().push(Arc::clone(&shelf));
        shelf
    }

    /// Takes the queue of a runner that ends; what is in it is left to the others.
    pub fn remove(&self, shelf: &Arc<Shelf>) {
        let ended = {
            let mut shelves = self.shelves.lock();
            shelves.retain(|other| !Arc::ptr_eq(other, shelf));
            Arc::clone(&shelves[0])
        };
        let left = std::mem::take(&mut *shelf.lock());
        if !left.is_empty() {
            ended.lock().adopt(left);
        }
    }

    /// Frees a step of others' garbage if the watermark has moved on far enough since that was done last. For a pinned
    /// caller that visits no chain and has no queue locked.
    pub fn sweep_now_and_then(&self, means: &mut Means<'_>) {
        let swept = self.swept.load(Ordering::Relaxed);
        if means.watermark < swept.saturating_add(EVERY) {
            return;
        }
        let is_mine = self.swept.compare_exchange(swept, means.watermark, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !is_mine {
            return;
        }
        let mut allowance = STEP;
        for _ in 0..SHELVES {
            let Some(shelf) = self.at(self.next.fetch_add(1, Ordering::Relaxed)) else {
                self.next.store(0, Ordering::Relaxed);
                break;
            };
            let freed = sweep(&shelf, &mut allowance, means);
            if allowance == 0 && freed > 0 {
                // There is more: the next to come by goes on.
                self.swept.store(swept, Ordering::Relaxed);
            }
            if allowance == 0 {
                break;
            }
        }
    }

    /// Frees a step of what is ripe from the queue at `from` on: where to go on, if that was not all. For a caller as
    /// above.
    pub fn sweep_from(&self, mut from: usize, means: &mut Means<'_>) -> Option<usize> {
        let mut allowance = STEP;
        loop {
            let shelf = self.at(from)?;
            let freed = sweep(&shelf, &mut allowance, means);
            if allowance == 0 && freed > 0 {
                return Some(from);
            }
            from += 1;
            if allowance == 0 {
                return Some(from);
            }
        }
    }

    fn at(&self, position: usize) -> Option<Arc<Shelf>> {
        self.shelves.lock().get(position).cloned()
    }

    /// Something about each queue, one after the other.
    pub fn each(&self, mut look: impl FnMut(&mut Reclaimer)) {
        let shelves = self.shelves.lock().clone();
        shelves.iter().for_each(|shelf| look(&mut shelf.lock()));
    }
}

/// Of whose runner is at it itself nothing is wanted.
fn sweep(shelf: &Shelf, allowance: &mut usize, means: &mut Means<'_>) -> usize {
    shelf.try_lock().map_or(0, |mut reclaimer| reclaimer.sweep(allowance, means))
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use saki_io::{Device, SimDevice, SimOptions};

    use super::*;
    use crate::{Catalog, Database, Options};

    #[test]
    fn runners_that_have_ended_have_no_queue() {
        let device = SimDevice::new(SimOptions { seed: 1, length_bytes: 0, ..SimOptions::default() });
        let devices = vec![device as Arc<dyn Device>];
        let database = Database::open_on(Catalog::in_memory(7, 1), devices, Options::default(), &|_| {}).unwrap();
        let queues = || {
            let mut count = 0;
            database.shared().reclaimers.each(|_| count += 1);
            count
        };
        let before = queues();
        let runners: Vec<_> = (0..5).map(|_| database.runner().unwrap()).collect();
        assert_eq!(queues(), before + 5);
        drop(runners);
        assert_eq!(queues(), before);
    }
}
