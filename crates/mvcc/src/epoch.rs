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
//! fence after that of the retirement, so it does not see what was unlinked. (`tests` below check it under `loom`.)
//!
//! # Beside old snapshots
//! One old snapshot holds the horizon back, but sees only one version of a row. Versions between it and the newest are freed all the
//! same: an announcement that is *exact* says which versions its participant can still ask for, and a participant that is not in the
//! middle of a *visit* to a chain holds no pointer to any other. A visit is marked by two plain stores into the participant's own
//! line; whoever frees pays for the missing fence with the system call `membarrier`, once for many versions ([`Quiescence`]).
//!
//! The clock is 0 before the first commit; the first commit's timestamp is 1.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::sync::{AtomicU64, AtomicUsize, Backoff, Ordering, fence};

/// An announcement of nobody.
const IDLE: u64 = u64::MAX;
/// In an announcement: it is the snapshot itself, not just a time before it.
const EXACT: u64 = 1 << 63;

/// The clock and the announcements.
pub struct Epochs {
    /// The latest commit timestamp handed out.
    clock: CachePadded<AtomicU64>,
    slots: Box<[CachePadded<Slot>]>,
    /// Slots below this may be in use, those above never were.
    slots_used: AtomicUsize,
    free: Mutex<Vec<u32>>,
}

/// A participant's shared state: one cache line, written by its owner only.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The time of the pin, perhaps [`EXACT`], or [`IDLE`].
    announced: AtomicU64,
    /// A time that the horizon does not pass either, or [`IDLE`].
    held: AtomicU64,
    /// Odd during a visit to a chain.
    visits: AtomicU64,
    /// State of the participant's transaction: see `transaction::status`.
    pub(crate) status: AtomicU64,
    /// Its commit timestamp, once it has one.
    pub(crate) commit: AtomicU64,
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
            })
        };
        Arc::new(Self {
            clock: CachePadded::new(AtomicU64::new(now)),
            slots: (0..participants).map(|_| slot()).collect(),
            slots_used: AtomicUsize::new(0),
            free: Mutex::new((0..participants as u32).rev().collect()),
        })
    }

    /// A place among the participants; `None` if all are taken.
    pub fn join(self: &Arc<Self>) -> Option<Participant> {
        let slot = self.free.lock().pop()?;
        self.slots_used.fetch_max(slot as usize + 1, Ordering::Relaxed);
        Some(Participant { epochs: Arc::clone(self), slot })
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
        fence(Ordering::SeqCst);
        let used = self.slots_used.load(Ordering::Relaxed);
        self.slots[..used].iter().fold(bound, |horizon, slot| horizon.min(slot.earliest()))
    }

    /// The snapshots that versions superseded by `bound` have to be kept for, where no snapshot begins before `bound` any more.
    pub fn snapshots(&self, bound: u64) -> Snapshots {
        fence(Ordering::SeqCst);
        let used = self.slots_used.load(Ordering::Relaxed);
        let announced = || self.slots[..used].iter().filter_map(|slot| slot.announcement());
        // Someone who is just beginning may come to see anything since its announcement.
        let bound = announced().filter(|(_, exact)| !exact).fold(bound, |bound, (at, _)| bound.min(at));
        let mut taken: Vec<u64> = announced().filter(|(_, exact)| *exact).map(|(at, _)| at).collect();
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

/// Who can still see what is superseded.
#[derive(Default)]
pub struct Snapshots {
    /// Ascending.
    taken: Vec<u64>,
    /// Of versions superseded later nothing is known.
    bound: u64,
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
    visits: Vec<(u32, u64)>,
}

impl Quiescence {
    /// Whether all of them have ended: what had been unlinked before is held by nobody.
    pub fn is_over(&mut self, epochs: &Epochs) -> bool {
        self.visits.retain(|(slot, visits)| epochs.slot(*slot).visits.load(Ordering::Acquire) == *visits);
        self.visits.is_empty()
    }
}

/// A right to pin, one pin at a time.
pub struct Participant {
    epochs: Arc<Epochs>,
    slot: u32,
}

impl Participant {
    #[inline]
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    #[inline]
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// The state that others read of it.
    #[inline]
    pub(crate) fn state(&self) -> &Slot {
        self.epochs.slot(self.slot)
    }

    /// The sequence of the transaction that this place runs next.
    pub(crate) fn sequence(&self) -> u64 {
        self.state().status.load(Ordering::Acquire) >> 1
    }

    /// Keeps everything that is reachable from now on from being freed, until the pin is dropped.
    #[inline]
    pub fn pin(&mut self) -> Pin<'_> {
        self.announce(self.epochs.now());
        Pin { participant: self }
    }

    /// Announces `at`, a time that every snapshot taken from here on will not precede.
    #[inline]
    pub(crate) fn announce(&self, at: u64) {
        // Release: a horizon that sees this announcement has also seen the end of this participant's pin before.
        self.epochs.slot(self.slot).announced.store(at, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Announces that `snapshot`, taken after the announcement before, is all that this participant looks at.
    #[inline]
    pub(crate) fn announce_exact(&self, snapshot: u64) {
        self.state().announced.store(snapshot | EXACT, Ordering::Release);
    }

    /// Keeps the horizon from passing `at`, a horizon of before, if it has not done so yet; the answer comes with
    /// [`is_holding`](Self::is_holding), after the next announcement.
    #[inline]
    pub(crate) fn hold(&self, at: u64) {
        self.state().held.store(at, Ordering::Release);
    }

    /// Whether the horizon has stayed at or before `at` since it was computed, and will until the end of this participant's pin.
    ///
    /// It has if another's snapshot is found to be that old, after this one's own hold could be seen by all: every horizon computed
    /// before met that snapshot's announcement (else the snapshot would be no earlier than it), and every one computed later meets
    /// the hold. Neither a hold, which may be in vain itself, nor a time announced before a snapshot proves as much.
    pub(crate) fn is_holding(&self, at: u64) -> bool {
        let used = self.epochs.slots_used.load(Ordering::Relaxed);
        let mut others = (0..).zip(&self.epochs.slots[..used]).filter(|(slot, _)| *slot != self.slot);
        let is_held = others.any(|(_, slot)| slot.announcement().is_some_and(|(taken, exact)| exact && taken <= at));
        if !is_held {
            self.state().held.store(IDLE, Ordering::Release);
        }
        is_held
    }

    /// A visit to chains: for the time of `visit` no version is freed that is linked at its begin. Visits within visits are part
    /// of them.
    #[inline]
    pub(crate) fn visiting<T>(&self, visit: impl FnOnce() -> T) -> T {
        let is_outer = self.begin_visit();
        let outcome = visit();
        self.end_visit(is_outer);
        outcome
    }

    /// Begins a visit, unless one is going on: the answer is for [`end_visit`](Self::end_visit).
    #[inline]
    pub(crate) fn begin_visit(&self) -> bool {
        let visits = &self.state().visits;
        let before = visits.load(Ordering::Relaxed);
        let is_outer = before & 1 == 0;
        if is_outer {
            visits.store(before + 1, Ordering::Relaxed);
            // No fence: see `Quiescence`. The compiler must not move reads of chains up here.
            crate::sync::light_fence();
        }
        is_outer
    }

    #[inline]
    pub(crate) fn is_visiting(&self) -> bool {
        self.state().visits.load(Ordering::Relaxed) & 1 == 1
    }

    #[inline]
    pub(crate) fn end_visit(&self, is_outer: bool) {
        if is_outer {
            let visits = &self.state().visits;
            // Release: whoever sees the end of the visit sees that it has read what it read.
            visits.store((visits.load(Ordering::Relaxed) | 1) + 1, Ordering::Release);
        }
    }

    /// Ends what `announce` began.
    #[inline]
    pub(crate) fn withdraw(&self) {
        let state = self.state();
        state.announced.store(IDLE, Ordering::Release);
        state.held.store(IDLE, Ordering::Release);
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.withdraw();
        self.epochs.free.lock().push(self.slot);
    }
}

/// Proof that its holder is pinned.
pub struct Pin<'a> {
    participant: &'a Participant,
}

impl<'a> Pin<'a> {
    /// A pin for a participant that has announced itself and stays so for `'a`.
    #[inline]
    pub(crate) fn of_announced(participant: &'a Participant) -> std::mem::ManuallyDrop<Self> {
        std::mem::ManuallyDrop::new(Self { participant })
    }

    #[inline]
    pub fn epochs(&self) -> &'a Epochs {
        &self.participant.epochs
    }

    #[inline]
    pub(crate) fn participant(&self) -> &'a Participant {
        self.participant
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.participant.withdraw();
    }
}

/// Memory that is unlinked and waits for the pins of its time to end. Not shared: each participant's worker has its own.
///
/// Entries come in the order of their retirement.
#[derive(Default)]
pub struct Garbage {
    entries: std::collections::VecDeque<Retired>,
}

/// What to do with `address` once nobody can see it.
struct Retired {
    at: u64,
    address: *mut u8,
    // SAFETY: sound once, for `address`, when nobody looks at it any more; `retire` was promised so.
    free: unsafe fn(*mut u8),
}

// SAFETY: what is retired is reachable through this entry alone, by the contract of `retire`.
unsafe impl Send for Garbage {}

impl Garbage {
    /// Frees `address` by `free` once no pin is as old as this call.
    ///
    /// # Safety
    /// `address` has been unlinked: whoever pins from now on cannot reach it. `free(address)` is sound once, from any thread, when
    /// nobody looks at it any more.
    pub unsafe fn retire(&mut self, epochs: &Epochs, address: *mut u8, free: unsafe fn(*mut u8)) {
        self.entries.push_back(Retired { at: epochs.retirement(), address, free });
    }

    /// Frees what was retired before `horizon`; how many there were.
    pub fn collect(&mut self, horizon: u64) -> usize {
        let ripe = self.entries.iter().take_while(|entry| entry.at < horizon).count();
        for entry in self.entries.drain(..ripe) {
            // SAFETY: every pin is later than `at`, so nobody sees the memory; `retire` was promised that `free` fits it.
            unsafe { (entry.free)(entry.address) };
        }
        ripe
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes over what another left behind.
    pub fn append(&mut self, other: &mut Self) {
        self.entries.append(&mut other.entries);
        self.entries.make_contiguous().sort_unstable_by_key(|entry| entry.at);
    }
}

#[cfg(all(test, saki_loom))]
mod loom {
    use std::sync::Arc;

    use ::loom::thread;

    use super::*;

    const FREED: u64 = 0;

    /// Frees memory that is not there: the cell at `address` turns to what no reader may see.
    unsafe fn poison(address: *mut u8) {
        // SAFETY: the tests retire addresses of leaked cells.
        unsafe { &*address.cast::<AtomicU64>() }.store(FREED, Ordering::Relaxed);
    }

    struct World {
        epochs: Arc<Epochs>,
        /// Which of the cells is linked.
        link: AtomicUsize,
        cells: &'static [AtomicU64; 2],
    }

    impl World {
        fn new() -> Arc<Self> {
            let cells = Box::leak(Box::new([AtomicU64::new(10), AtomicU64::new(11)]));
            Arc::new(Self { epochs: Epochs::new(0, 2), link: AtomicUsize::new(0), cells })
        }

        fn read_pinned(&self, participant: &mut Participant) {
            let _pin = participant.pin();
            let cell = self.link.load(Ordering::Acquire);
            assert_ne!(self.cells[cell].load(Ordering::Relaxed), FREED, "a reader sees freed memory");
        }

        /// Links the other cell, and frees the first as soon as that is allowed.
        fn replace(&self, ticks: usize) -> usize {
            self.link.store(1, Ordering::Release);
            let mut garbage = Garbage::default();
            let address = std::ptr::from_ref(&self.cells[0]).cast_mut().cast();
            // SAFETY: unlinked; `poison` is for such cells.
            unsafe { garbage.retire(&self.epochs, address, poison) };
            for _ in 0..ticks {
                self.epochs.tick();
            }
            garbage.collect(self.epochs.horizon())
        }
    }

    /// Whoever is pinned never sees memory freed, whenever the pin began.
    #[test]
    fn loom_pinned_readers_see_no_freed_memory() {
        ::loom::model(|| {
            let world = World::new();
            let mut participant = world.epochs.join().unwrap();
            let writer = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.replace(1))
            };
            world.read_pinned(&mut participant);
            writer.join().unwrap();
            world.read_pinned(&mut participant);
        });
    }

    /// The clock is advanced by another than the one who frees.
    #[test]
    fn loom_commits_of_others_do_not_free_too_early() {
        ::loom::model(|| {
            let world = World::new();
            let mut participant = world.epochs.join().unwrap();
            let writer = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.replace(0))
            };
            world.epochs.tick();
            world.read_pinned(&mut participant);
            writer.join().unwrap();
        });
    }

    /// What nobody sees is freed after the next commit.
    #[test]
    fn loom_garbage_goes_away() {
        ::loom::model(|| {
            let world = World::new();
            assert_eq!(world.replace(0), 0);
            assert_eq!(world.replace(1), 1);
        });
    }
}
