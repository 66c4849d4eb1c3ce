//! How many requests a device shall have in flight.
//!
//! Too few leave it idle; too many bring no more throughput, only latency, and
//! hold frames that others need. The right depth (the *knee*) is about five
//! for a local NVMe drive, a hundred for a network volume, several times the
//! number of disks for an array, a thousand for an object store; it moves
//! with the load of others. So it is found at run time ([`climb`]).
//!
//! ```text
//!  share A ─try_acquire─┐   ┌──────────────┐   windows of completions   ┌─────────┐
//!  share B ─try_acquire─┼──►│ limit, total │──────────────────────────►│ Climber │
//!  share C ─try_acquire─┘   └──────▲───────┘                           └────┬────┘
//!                                  └──────────── new limit ─────────────────┘
//! ```
//!
//! A **share** is one query's (or merge's, or relocation's) claim. Its *fair
//! part* is `limit / shares`. Below its fair part a share is always admitted,
//! even if others have filled the device; above it, only while the device has
//! room. So an idle share's part is used by the others, and when it returns
//! it gets its part at once, while theirs shrinks as their requests complete:
//! until then the limit is exceeded, by less than itself. Every share may have
//! one request in flight, whatever the limit: nobody starves.
//!
//! Asking is lock-free: two atomic additions. There is no timer; the thread whose
//! release ends a window does the thinking, and others pass by.
//!
//! All atomics are `Relaxed`: they count and publish no other memory; the
//! requests they admit carry their own synchronisation.

mod climb;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

use crate::profile::DeviceProfile;
pub use climb::DEPTH_MAX;
use climb::{Climber, Totals};
use saki_base::clock::{Clock, SystemClock};

/// Work of a request besides its bytes, as bytes: what a device spends on a
/// 64 KiB transfer it about spends on starting one. Makes throughput
/// comparable between windows of different sizes.
const WORK_PER_REQUEST: u64 = 64 << 10;

/// Requests since a governor was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    pub requests: u64,
    pub bytes: u64,
    /// Of all requests together: from when each was let in to when it was complete.
    pub latency: Duration,
}

/// Bounds the requests in flight at one device. See the module's introduction.
pub struct Governor {
    limit: AtomicU32,
    in_flight: AtomicU32,
    shares: AtomicU32,
    /// A request was refused for want of room since the window began.
    refused: AtomicBool,
    /// Totals since the start, never reset: a window is the difference of two readings.
    completed: AtomicU64,
    work: AtomicU64,
    busy_nanoseconds: AtomicU64,
    /// The value of `completed` that ends the window.
    window_end: AtomicU64,
    climber: Mutex<Climber>,
    clock: Arc<dyn Clock>,
}

impl Governor {
    /// Starts at the knee that the profile shows for reads of `page_bytes`.
    pub fn new(profile: &DeviceProfile, page_bytes: u32) -> Arc<Self> {
        Self::with_clock(profile.knee_depth(page_bytes), Arc::new(SystemClock::default()))
    }

    /// Starts at `depth`, on any clock.
    pub fn with_clock(depth: u32, clock: Arc<dyn Clock>) -> Arc<Self> {
        let depth = depth.clamp(1, DEPTH_MAX);
        let (climber, window_end) = Climber::new(depth, Totals { now: clock.now(), ..Totals::default() });
        Arc::new(Self {
            limit: AtomicU32::new(depth),
            in_flight: AtomicU32::new(0),
            shares: AtomicU32::new(0),
            refused: AtomicBool::new(false),
            completed: AtomicU64::new(0),
            work: AtomicU64::new(0),
            busy_nanoseconds: AtomicU64::new(0),
            window_end: AtomicU64::new(window_end),
            climber: Mutex::new(climber),
            clock,
        })
    }

    /// Starts anew, at the knee that a profile shows for reads of `page_bytes`: the device has been measured.
    pub fn restart(&self, profile: &DeviceProfile, page_bytes: u32) {
        let depth = profile.knee_depth(page_bytes).clamp(1, DEPTH_MAX);
        let mut climber = self.climber.lock();
        let window_end;
        (*climber, window_end) = Climber::new(depth, self.totals());
        self.limit.store(depth, Relaxed);
        self.window_end.store(window_end, Relaxed);
    }

    fn totals(&self) -> Totals {
        Totals {
            completed: self.completed.load(Relaxed),
            work: self.work.load(Relaxed),
            busy: Duration::from_nanos(self.busy_nanoseconds.load(Relaxed)),
            in_flight: self.in_flight(),
            now: self.clock.now(),
        }
    }

    /// Requests that the device shall have in flight at present.
    pub fn limit(&self) -> u32 {
        self.limit.load(Relaxed)
    }

    /// What has been released so far.
    pub fn traffic(&self) -> Traffic {
        let requests = self.completed.load(Relaxed);
        // The two are counted one after the other.
        let bytes = self.work.load(Relaxed).saturating_sub(requests * WORK_PER_REQUEST);
        Traffic { requests, bytes, latency: Duration::from_nanos(self.busy_nanoseconds.load(Relaxed)) }
    }

    /// Requests admitted and not released.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Announces one more claimant; [`Self::share`] does it for you.
    pub fn register_share(&self) {
        self.shares.fetch_add(1, Relaxed);
    }

    /// Takes a claimant back. Its requests must have been released.
    pub fn unregister_share(&self) {
        let before = self.shares.fetch_sub(1, Relaxed);
        assert!(before > 0, "a share was unregistered twice");
    }

    /// Registers a share of at most `max` requests in flight, until it is dropped.
    pub fn share(self: &Arc<Self>, max: u32) -> Share {
        self.register_share();
        Share { governor: Arc::clone(self), in_flight: AtomicU32::new(0), max }
    }

    /// Whether one more request of a share may be submitted now. `true` obliges to [`Self::release`].
    ///
    /// `share_in_flight` is the share's own count, which this function keeps.
    #[inline]
    pub fn try_acquire(&self, share_in_flight: &AtomicU32, share_max: u32) -> bool {
        let mine = share_in_flight.fetch_add(1, Relaxed);
        if mine < share_max {
            let limit = self.limit.load(Relaxed);
            let all = self.in_flight.fetch_add(1, Relaxed);
            if all < limit || mine < self.fair_part(limit) {
                return true;
            }
            self.in_flight.fetch_sub(1, Relaxed);
            // Read first: the flag's cache line is then written once a window only.
            if !self.refused.load(Relaxed) {
                self.refused.store(true, Relaxed);
            }
        }
        share_in_flight.fetch_sub(1, Relaxed);
        false
    }

    /// Ends a request of `bytes` that was in flight for `latency`, whether it succeeded or not.
    pub fn release(&self, share_in_flight: &AtomicU32, latency: Duration, bytes: u64) {
        let mine = share_in_flight.fetch_sub(1, Relaxed);
        let all = self.in_flight.fetch_sub(1, Relaxed);
        assert!(mine > 0 && all > 0, "a request was released that was not acquired");
        self.work.fetch_add(WORK_PER_REQUEST + bytes, Relaxed);
        self.busy_nanoseconds.fetch_add(latency.as_nanos() as u64, Relaxed);
        let completed = self.completed.fetch_add(1, Relaxed) + 1;
        if completed >= self.window_end.load(Relaxed) {
            self.end_window();
        }
    }

    /// A request has carried `bytes` more than it is going to be [released](Self::release) with.
    #[inline]
    pub fn carried(&self, bytes: u64) {
        self.work.fetch_add(bytes, Relaxed);
    }

    #[inline]
    fn fair_part(&self, limit: u32) -> u32 {
        (limit / self.shares.load(Relaxed).max(1)).max(1)
    }

    #[cold]
    fn end_window(&self) {
        // Whoever holds the lock is ending this window already.
        let Some(mut climber) = self.climber.try_lock() else { return };
        let totals = self.totals();
        let completed = totals.completed;
        if completed < self.window_end.load(Relaxed) {
            return;
        }
        let refused = self.refused.swap(false, Relaxed);
        let (limit, window_end) = climber.end_window(totals, refused);
        assert!((1..=DEPTH_MAX).contains(&limit), "a limit of {limit} requests in flight");
        assert!(window_end > completed, "a window that ends at {window_end}, after {completed} requests");
        self.limit.store(limit, Relaxed);
        self.window_end.store(window_end, Relaxed);
    }
}

/// One claim on a device, registered while it lives.
pub struct Share {
    governor: Arc<Governor>,
    in_flight: AtomicU32,
    max: u32,
}

impl Share {
    /// Whether one more request may be submitted now; `true` obliges to [`Self::release`].
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.governor.try_acquire(&self.in_flight, self.max)
    }

    /// Ends a request of `bytes` that was in flight for `latency`.
    #[inline]
    pub fn release(&self, latency: Duration, bytes: u64) {
        self.governor.release(&self.in_flight, latency, bytes);
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    pub fn governor(&self) -> &Arc<Governor> {
        &self.governor
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        debug_assert!(self.in_flight() == 0 || std::thread::panicking(), "a share was dropped with requests in flight");
        // Should it happen all the same, the device's room is not lost for good.
        self.governor.in_flight.fetch_sub(self.in_flight(), Relaxed);
        self.governor.unregister_share();
    }
}

#[cfg(test)]
mod tests;
