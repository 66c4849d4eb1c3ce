//! The clock and everyone's announcements.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::places::Places;
use crate::sync::{AtomicU64, AtomicUsize, Backoff, Ordering, fence};

/// An announcement of nobody.
pub(super) const IDLE: u64 = u64::MAX;
/// In an announcement: it is the snapshot itself, not just a time before it.
pub(super) const EXACT: u64 = 1 << 63;

/// The clock and the announcements.
pub struct Epochs {
    pub(super) clock: CachePadded<Clock>,
    pub(super) announcements: Box<[CachePadded<Announcement>]>,
    /// Those in use are below this. Changed under the lock of `places`.
    pub(super) announcements_used: AtomicUsize,
    pub(super) places: Mutex<Places>,
}

/// One line, that every commit writes.
pub(super) struct Clock {
    /// The latest commit timestamp handed out.
    time: AtomicU64,
    /// How many want to know what is committed: see `runner::watch`.
    watchers: AtomicU64,
}

/// A participant's shared state: one cache line, written by its owner, and by others only to be told of its end.
#[derive(Debug)]
pub(crate) struct Announcement {
    /// The time of the pin, perhaps [`EXACT`], or [`IDLE`].
    pub(super) announced: AtomicU64,
    /// A time that the watermark does not pass either, or [`IDLE`].
    pub(super) held: AtomicU64,
    /// Odd during a visit to a chain.
    pub(super) visits: AtomicU64,
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
        let idle = || {
            CachePadded::new(Announcement {
                announced: AtomicU64::new(IDLE),
                held: AtomicU64::new(IDLE),
                visits: AtomicU64::new(0),
                status: AtomicU64::new(0),
                commit: AtomicU64::new(0),
                awaited: AtomicU64::new(0),
            })
        };
        Arc::new(Self {
            clock: CachePadded::new(Clock { time: AtomicU64::new(now), watchers: AtomicU64::new(0) }),
            announcements: (0..participants).map(|_| idle()).collect(),
            announcements_used: AtomicUsize::new(0),
            places: Mutex::new(Places::new(participants)),
        })
    }

    /// Takes the place of a participant back.
    pub(super) fn leave(&self, number: u32) {
        let mut places = self.places.lock();
        places.give_back(number);
        // Release, there and in `join`: who does not look at this place any more sees what its participant did.
        self.announcements_used.store(places.end(), Ordering::Release);
    }

    /// The latest commit timestamp handed out.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.time.load(Ordering::Acquire)
    }

    /// Hands out the next commit timestamp: the one shared write of a commit.
    #[inline]
    pub fn tick(&self) -> u64 {
        self.clock.time.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// From here on commits are watched. Every transaction that ticks after the next
    /// [`wait_for_commits`](Self::wait_for_commits) of the caller knows it.
    pub fn watch(&self) {
        self.clock.watchers.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends what `watch` began.
    pub fn unwatch(&self) {
        self.clock.watchers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether somebody watches commits: to be asked between the timestamp and the stamps.
    #[inline]
    pub fn is_watched(&self) -> bool {
        // In the order of all ticks, by the caller's.
        self.clock.watchers.load(Ordering::Relaxed) != 0
    }

    /// Waits for every transaction that is between its timestamp and its end; the latest timestamp that had been handed
    /// out when the wait began.
    pub fn wait_for_commits(&self) -> u64 {
        // In the order of all ticks: a transaction that ticked before is seen to be committing.
        let now = self.clock.time.fetch_add(0, Ordering::SeqCst);
        let used = self.announcements_used.load(Ordering::Acquire);
        for announcement in &self.announcements[..used] {
            let status = announcement.status.load(Ordering::SeqCst);
            let mut backoff = Backoff::default();
            while status & 1 == 1 && announcement.status.load(Ordering::SeqCst) == status {
                backoff.wait();
            }
        }
        now
    }

    /// Waits for every transaction of an earlier timestamp than `timestamp`, which is the caller's.
    pub fn wait_for_commits_before(&self, timestamp: u64) {
        for announcement in self.in_use() {
            // Who ticked before is seen to be committing, by the order of ticks.
            let status = announcement.status.load(Ordering::SeqCst);
            let is_earlier = || {
                let commit = announcement.commit.load(Ordering::Acquire);
                // Not known yet: it is about to be, or the transaction is about to tick.
                (commit < timestamp) && announcement.status.load(Ordering::SeqCst) == status
            };
            let mut backoff = Backoff::default();
            while status & 1 == 1 && is_earlier() {
                backoff.wait();
            }
        }
    }

    /// Sets the clock, while there is no participant yet: after recovery.
    pub fn set(&self, now: u64) {
        self.clock.time.store(now, Ordering::Release);
    }

    /// No snapshot, present or future, is earlier than this; nor is any pin that began after something was retired
    /// before it.
    pub fn watermark(&self) -> u64 {
        self.watermark_from(self.now())
    }

    /// The same, where snapshots may be as early as `bound`, which only grows.
    pub fn watermark_from(&self, bound: u64) -> u64 {
        let earliest = |bound: u64| {
            fence(Ordering::SeqCst);
            self.in_use().fold(bound, |watermark, announcement| watermark.min(announcement.earliest()))
        };
        // Twice: see "Taking over" above.
        earliest(earliest(bound))
    }

    /// The announcements that may be in use.
    pub(super) fn in_use(&self) -> impl Iterator<Item = &CachePadded<Announcement>> {
        self.announcements[..self.announcements_used.load(Ordering::Acquire)].iter()
    }

    /// The time to retire something with that was just unlinked.
    pub fn retirement(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.now()
    }

    #[inline]
    pub(crate) fn announcement(&self, number: u32) -> &Announcement {
        &self.announcements[number as usize]
    }
}

impl Announcement {
    /// Goes on to the next status, at the end of a transaction that others may have met; whether one of them waits for
    /// it.
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

    /// What the watermark must not pass.
    #[inline]
    pub(super) fn earliest(&self) -> u64 {
        let announced = self.time().map_or(IDLE, |(at, _)| at);
        announced.min(self.held.load(Ordering::Acquire))
    }

    /// The time announced, and whether it is the snapshot itself.
    #[inline]
    pub(super) fn time(&self) -> Option<(u64, bool)> {
        let announced = self.announced.load(Ordering::Acquire);
        (announced != IDLE).then_some((announced & !EXACT, announced & EXACT != 0))
    }
}
