//! How many reads a device may have in flight: the place where the device's governor is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use saki_io::Device;
use saki_page::IoShare;

const IN_FLIGHT_MAX: u32 = 256;

pub(crate) struct Admission {
    in_flight: AtomicU32,
}

impl Admission {
    pub fn new(_device: &Arc<dyn Device>) -> Self {
        Self { in_flight: AtomicU32::new(0) }
    }

    /// Counts a read on the device and on the share, if both allow it.
    pub fn try_acquire(&self, share: &IoShare) -> bool {
        if share.in_flight.fetch_add(1, Ordering::Relaxed) >= share.max_in_flight {
            share.in_flight.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        if self.in_flight.fetch_add(1, Ordering::Relaxed) >= IN_FLIGHT_MAX {
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            share.in_flight.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// A read that was let in has finished after `latency`.
    pub fn release(&self, share: &IoShare, _latency: Duration) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        share.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
