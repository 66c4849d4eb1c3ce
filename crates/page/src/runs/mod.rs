//! Runs: neighbouring pages that are wanted whole, such as a column of a segment, brought into one buffer.
//!
//! A store that can read many pages by one request has a lane of its own for them; [`PagedRuns`] reads those of any
//! other by its pages.

mod paged;
mod pool;

use std::sync::Arc;
use std::time::Duration;

use saki_base::{AlignedBuffer, DeviceId, PageAddress, PageSize};

use crate::store::{IoShare, PageWaker, Refusal, StoreError};

pub use paged::PagedRuns;
pub use pool::BufferPool;

/// Source of runs: opens one lane per thread.
pub trait RunStore: Send + Sync {
    fn page_size(&self) -> PageSize;
    /// The lane belongs to the thread that first polls it.
    ///
    /// # Errors
    /// If there is no memory for it, or no way to the devices.
    fn open_run_lane(&self) -> Result<Box<dyn RunLane>, StoreError>;
    /// The device a page lies on, for messages.
    fn describe(&self, address: PageAddress) -> String;
}

/// One thread's private way to runs of pages.
pub trait RunLane: Send {
    /// Starts reading the pages that hold `bytes` bytes, of this checksum, from page `first` on. `Busy`: no further
    /// run is taken now for the device that it names; one is again after some completion. `share` says on whose
    /// behalf.
    ///
    /// # Errors
    /// The refusal. A store may find only later that a page is mapped to nothing: then it is the run's result.
    fn try_read(
        &mut self,
        share: &Arc<IoShare>,
        first: PageAddress,
        bytes: usize,
        checksum: u64,
        token: u64,
    ) -> Result<(), Refusal>;
    /// Hands queued reads to the device and appends finished runs; waits at most `wait` (`None`: not at all) for the
    /// first request to end, or until woken; and not for long if what was refused may be let in by then.
    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<RunRead>);
    /// Which device a refusal of a run that begins with a page would name; `None` if it lies nowhere.
    fn device_of(&mut self, first: PageAddress) -> Option<DeviceId>;
    /// Where buffers are taken from. Whoever has done with one may give it back.
    fn buffers(&self) -> &Arc<BufferPool>;
    /// Requests at the device.
    fn in_flight(&self) -> usize;
    fn waker(&self) -> Arc<dyn PageWaker>;
}

/// A run that has been read, or not.
pub struct RunRead {
    pub token: u64,
    /// The pages, whole. What came from copies has its checksum; what came from homes is for others to verify.
    pub result: Result<AlignedBuffer, StoreError>,
}
