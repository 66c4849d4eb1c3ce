//! Who may still look at what: the commit clock serves as the epoch of reclamation.
//!
//! Whoever reads shared memory is a *participant* and *pins* first: it writes the clock's time into a cache line of its own. What
//! nobody can reach any more is *retired* with the time of its retirement, and freed once every pin is later than that.
//!
//! ```text
//!   pin:      announce a = clock ── fence ── read shared memory       (a <= every snapshot taken under the pin)
//!   retire:   unlink ── fence ── r = clock                            free when r < horizon
//!   horizon:  bound = clock ── fence ── min(bound, every announcement)
//! ```
//!
//! # Why it is safe
//! Take a pin and a horizon computed elsewhere. Of their two fences one comes first. If it is the pin's, the horizon sees the
//! announcement and is no later than it. If it is the horizon's, then the pin's snapshot, read after its fence, is no earlier than
//! `bound`. Either way no snapshot is earlier than the horizon, and by the same argument a pin that is later than `r` has its
//! fence after that of the retirement, so it does not see what was unlinked. (`loom` checks it.)
//!
//! # Beside old snapshots
//! One old snapshot holds the horizon back, but sees only one version of a row. Versions between it and the newest are freed all the
//! same: an announcement that is *exact* says which versions its participant can still ask for, and a participant that is not in the
//! middle of a *visit* to a chain holds no pointer to any other. A visit is marked by two plain stores into the participant's own
//! line; whoever frees pays for the missing fence with the system call `membarrier`, once for many versions ([`Quiescence`]).
//!
//! # Taking over
//! A participant may take over the snapshot of another while that is announced: it announces the same, and only then the other may
//! go on or end. Whoever looks through the slots may come by the new one too early and by the old one too late; but then it has seen
//! the old one's end, and so finds the new announcement if it looks once more. Therefore all are looked at twice.
//!
//! The clock is 0 before the first commit; the first commit's timestamp is 1.
//!
//! `participant` is who announces, `places` the slots they have, `snapshots` what is known beside old ones, `garbage` what waits to be freed.

mod garbage;
mod participant;
mod places;
mod snapshots;

#[cfg(all(test, saki_loom))]
mod loom;

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::sync::{AtomicU64, AtomicUsize, Backoff, Ordering, fence};

pub use garbage::Garbage;
pub use participant::{Participant, Pin};
use places::Places;
pub use snapshots::{Quiescence, Snapshots};

/// An announcement of nobody.
const IDLE: u64 = u64::MAX;
/// In an announcement: it is the snapshot itself, not just a time before it.
const EXACT: u64 = 1 << 63;

/// The clock and the announcements.
pub struct Epochs {
    /// The latest commit timestamp handed out.
    clock: CachePadded<AtomicU64>,
    slots: Box<[CachePadded<Slot>]>,
    /// Slots in use are below this. Changed under the lock of `places`.
    slots_used: AtomicUsize,
    places: Mutex<Places>,
}

/// A participant's shared state: one cache line, written by its owner, and by others only to be told of its end.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The time of the pin, perhaps [`EXACT`], or [`IDLE`].
    announced: AtomicU64,
    /// A time that the horizon does not pass either, or [`IDLE`].
    held: AtomicU64,
    /// Odd during a visit to a chain.
    visits: AtomicU64,
    /// State of the participant's transaction: see `chain::Status`.
    pub(crate) status: AtomicU64,
    /// Its commit timestamp, once it has one.
    pub(crate) commit: AtomicU64,
    /// Not 0: somebody waits for its transaction to end. Written by those who wait, under their lock.
    pub(crate) awaited: AtomicU64,
}

impl Epochs {
    /// A clock that stands at `now`, for up to `participants` at once.
    pub fn new(now: u64, participants: usize) -> Arc<Self> {
        let slot = || {
            CachePadded::new(Slot {
                announced: AtomicU64::new(IDLE),
                held: AtomicU64::new(IDLE),
                visits: AtomicU64::new(0),
                status: AtomicU64::new(0),
                commit: AtomicU64::new(0),
                awaited: AtomicU64::new(0),
            })
        };
        Arc::new(Self {
            clock: CachePadded::new(AtomicU64::new(now)),
            slots: (0..participants).map(|_| slot()).collect(),
            slots_used: AtomicUsize::new(0),
            places: Mutex::new(Places::new(participants)),
        })
    }

    /// A place among the participants; `None` if all are taken.
    pub fn join(self: &Arc<Self>) -> Option<Participant> {
        let mut places = self.places.lock();
        let slot = places.take()?;
        // Before the first announcement, whose fence makes all see it.
        self.slots_used.store(places.end(), Ordering::Relaxed);
        Some(Participant { epochs: Arc::clone(self), slot })
    }

    /// Takes the place of a participant back.
    fn leave(&self, slot: u32) {
        let mut places = self.places.lock();
        places.give_back(slot);
        self.slots_used.store(places.end(), Ordering::Relaxed);
    }

    /// The latest commit timestamp handed out.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.load(Ordering::Acquire)
    }

    /// Hands out the next commit timestamp: the one shared write of a commit.
    #[inline]
    pub fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Waits for every transaction that is between its timestamp and its end.
    pub fn wait_for_commits(&self) {
        // In the order of all ticks: a transaction that ticked before is seen to be committing.
        self.clock.fetch_add(0, Ordering::SeqCst);
        let used = self.slots_used.load(Ordering::Acquire);
        for slot in &self.slots[..used] {
            let status = slot.status.load(Ordering::SeqCst);
            let mut backoff = Backoff::default();
            while status & 1 == 1 && slot.status.load(Ordering::SeqCst) == status {
                backoff.wait();
            }
        }
    }

    /// Sets the clock, while there is no participant yet: after recovery.
    pub fn set(&self, now: u64) {
        self.clock.store(now, Ordering::Release);
    }

    /// No snapshot, present or future, is earlier than this; nor is any pin that began after something was retired before it.
    pub fn horizon(&self) -> u64 {
        self.horizon_from(self.now())
    }

    /// The same, where snapshots may be as early as `bound`, which only grows.
    pub fn horizon_from(&self, bound: u64) -> u64 {
        let earliest = |bound: u64| {
            fence(Ordering::SeqCst);
            self.in_use().fold(bound, |horizon, slot| horizon.min(slot.earliest()))
        };
        // Twice: see "Taking over" above.
        earliest(earliest(bound))
    }

    /// The slots that may be in use.
    fn in_use(&self) -> impl Iterator<Item = &CachePadded<Slot>> {
        self.slots[..self.slots_used.load(Ordering::Acquire)].iter()
    }

    /// The snapshots that versions superseded by `bound` have to be kept for, where no snapshot begins before `bound` any more.
    pub fn snapshots(&self, bound: u64) -> Snapshots {
        fence(Ordering::SeqCst);
        let announced = || self.in_use().filter_map(|slot| slot.announcement());
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
            let used = self.slots_used.load(Ordering::Relaxed);
            let visits = self.slots[..used].iter().map(|slot| slot.visits.load(Ordering::Acquire));
            Quiescence { visits: (0..).zip(visits).filter(|(_, visits)| visits & 1 == 1).collect() }
        })
    }

    /// The time to retire something with that was just unlinked.
    pub fn retirement(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.now()
    }

    #[inline]
    pub(crate) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }
}

impl Slot {
    /// Goes on to the next status, at the end of a transaction that others may have met; whether one of them waits for it.
    #[inline]
    pub(crate) fn end_met(&self, next_status: u64) -> bool {
        self.status.store(next_status, Ordering::Release);
        fence(Ordering::SeqCst);
        self.awaited.load(Ordering::Relaxed) != 0
    }

    /// Asks to be told of the end of the transaction of that sequence; `false` if it has ended.
    pub(crate) fn await_end(&self, sequence: u64) -> bool {
        self.awaited.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.status.load(Ordering::Acquire) >> 1 == sequence
    }

    /// What the horizon must not pass.
    #[inline]
    fn earliest(&self) -> u64 {
        let announced = self.announcement().map_or(IDLE, |(at, _)| at);
        announced.min(self.held.load(Ordering::Acquire))
    }

    /// The time announced, and whether it is the snapshot itself.
    #[inline]
    fn announcement(&self) -> Option<(u64, bool)> {
        let announced = self.announced.load(Ordering::Acquire);
        (announced != IDLE).then_some((announced & !EXACT, announced & EXACT != 0))
    }
}
