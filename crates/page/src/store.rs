//! What this crate asks of the storage below it. `volume` implements it; tests
//! and the simulator implement it too.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use saki_base::{Arena, ArenaFrame, DeviceId, PageAddress, PageSize};

/// Source of pages: opens one lane per thread.
pub trait PageStore: Send + Sync {
    fn page_size(&self) -> PageSize;
    /// `arena` is the memory pages will be read into, for registration.
    fn open_lane(&self, arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError>;
    /// The same for a few reads: the memory is not registered, which takes 70 ms for 1 GiB of it.
    fn open_brief_lane(&self, arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        self.open_lane(arena)
    }
    /// The device a page lies on, for messages.
    fn describe(&self, address: PageAddress) -> String;
    /// Devices that pages lie on.
    fn devices(&self) -> usize {
        1
    }
    /// What a page was read from was a copy, and not what it should be: it is read from its home from now on.
    fn distrust_copy(&self, _address: PageAddress) {}
}

/// Interrupts a lane's `poll` from another thread.
pub trait PageWaker: Send + Sync {
    fn wake(&self);
}

/// One thread's private way to the pages.
pub trait PageLane: Send {
    /// Starts reading a page into `memory`. `Err` hands it back: the governor
    /// of the page's device allows no further request now (`Busy`, which names the device; it is allowed again after
    /// some completion), or the
    /// address is unmapped (`Unmapped`). `share` says on whose behalf, for fairness between queries.
    fn try_read(
        &mut self,
        share: &Arc<IoShare>,
        address: PageAddress,
        memory: ArenaFrame,
        token: u64,
    ) -> Result<(), (ArenaFrame, Refusal)>;
    /// Hands queued reads to the device and appends finished ones; waits at most `wait`
    /// (`None`: not at all) for the first, or until woken.
    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<PageRead>) -> usize;
    fn in_flight(&self) -> usize;
    fn waker(&self) -> Arc<dyn PageWaker>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The device takes no more now.
    Busy(DeviceId),
    Unmapped,
}

/// A finished read.
pub struct PageRead {
    pub token: u64,
    pub memory: ArenaFrame,
    pub result: Result<(), StoreError>,
    /// It came from a copy: what it is worth is not what its home is worth.
    pub from_copy: bool,
}

/// Devices that a store may have.
const DEVICES: usize = 64;

/// One query's share of every device's allowance. Requests are counted on it so that
/// a governor can divide its allowance fairly between the queries that are active.
pub struct IoShare {
    /// Requests in flight on behalf of this share, by device: a slow one with many does not use up what a fast one
    /// allows.
    on_device: [AtomicU32; DEVICES],
    /// The highest device that has had any.
    highest: AtomicU32,
    /// Requests in flight at all devices together, counted where they are bounded.
    bounded: AtomicU32,
    /// Upper bound asked for by the user (`saki.max_in_flight`); `u32::MAX` for none, 1 for in-order execution.
    pub max_in_flight: u32,
}

impl IoShare {
    pub fn new(max_in_flight: u32) -> Arc<Self> {
        let (highest, bounded) = (AtomicU32::new(0), AtomicU32::new(0));
        Arc::new(Self { on_device: [const { AtomicU32::new(0) }; DEVICES], highest, bounded, max_in_flight })
    }

    /// Requests in flight at a device, to be counted by whoever admits them.
    #[inline]
    pub fn on_device(&self, device: DeviceId) -> &AtomicU32 {
        &self.on_device[usize::from(device.0)]
    }

    /// A device is going to be asked: to be said once before [`Self::on_device`] counts anything of it.
    pub fn meet(&self, device: DeviceId) {
        self.highest.fetch_max(u32::from(device.0), Ordering::Relaxed);
    }

    /// Counts one more request, unless the share has as many as it may. To be given back by [`Self::end`].
    #[inline]
    pub fn begin(&self) -> bool {
        if self.max_in_flight == u32::MAX {
            return true;
        }
        let is_allowed = self.bounded.fetch_add(1, Ordering::Relaxed) < self.max_in_flight;
        if !is_allowed {
            self.bounded.fetch_sub(1, Ordering::Relaxed);
        }
        is_allowed
    }

    /// A request that was [begun](Self::begin) has ended.
    #[inline]
    pub fn end(&self) {
        if self.max_in_flight != u32::MAX {
            let before = self.bounded.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "a request has ended that was not begun");
        }
    }

    /// Requests in flight on behalf of this share, at all devices.
    pub fn in_flight(&self) -> u32 {
        let highest = self.highest.load(Ordering::Relaxed) as usize;
        self.on_device[..=highest].iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// A read that failed below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    pub device: String,
    pub message: String,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.device, self.message)
    }
}

impl std::error::Error for StoreError {}
