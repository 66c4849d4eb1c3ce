//! What this crate asks of the storage below it. `volume` implements it; tests
//! and the simulator implement it too.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, ArenaFrame, PageAddress, PageSize};

/// Source of pages: opens one lane per thread.
pub trait PageStore: Send + Sync {
    fn page_size(&self) -> PageSize;
    /// `arena` is the memory pages will be read into, for registration.
    fn open_lane(&self, arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError>;
    /// The device a page lies on, for messages.
    fn describe(&self, address: PageAddress) -> String;
}

/// Interrupts a lane's `poll` from another thread.
pub trait PageWaker: Send + Sync {
    fn wake(&self);
}

/// One thread's private way to the pages.
pub trait PageLane: Send {
    /// Starts reading a page into `memory`. `Err` hands it back: the governor
    /// of the page's device allows no further request now (`Busy`; it is allowed again after some completion), or the
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
    Busy,
    Unmapped,
}

/// A finished read.
pub struct PageRead {
    pub token: u64,
    pub memory: ArenaFrame,
    pub result: Result<(), StoreError>,
}

/// One query's share of every device's allowance. Requests are counted on it so that
/// a governor can divide its allowance fairly between the queries that are active.
pub struct IoShare {
    /// Requests in flight on behalf of this share.
    pub in_flight: std::sync::atomic::AtomicU32,
    /// Upper bound asked for by the user (`saki.max_in_flight`); `u32::MAX` for none, 1 for in-order execution.
    pub max_in_flight: u32,
}

impl IoShare {
    pub fn new(max_in_flight: u32) -> Arc<Self> {
        Arc::new(Self { in_flight: 0.into(), max_in_flight })
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
