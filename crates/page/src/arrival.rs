//! How a request for a page ends, and where one port leaves that for another.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use saki_base::PageRef;

use crate::store::PageWaker;

/// A requested page has come, or failed to.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub token: u64,
    pub page: PageRef,
    pub result: Result<(), PageError>,
}

/// A page could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageError {
    /// The bytes are not those the parent promises; `found` is their checksum.
    Corrupt { page: PageRef, device: String, found: u64 },
    /// The device failed, or the address is mapped to none.
    Unreadable { page: PageRef, reason: String },
    /// No frame became free: the cache is too small for what looks at it.
    Exhausted { page: PageRef, frames: u32 },
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { page, device, found } => write!(
                f,
                "{} on {device} is corrupt: checksum {found:016x}, its parent promises {:016x}; \
                 run `saki check` and restore from a copy",
                page.address, page.checksum
            ),
            Self::Unreadable { page, reason } => write!(f, "{} cannot be read: {reason}", page.address),
            Self::Exhausted { page, frames } => {
                write!(f, "{}: none of the cache's {frames} frames became free; enlarge the cache", page.address)
            }
        }
    }
}

impl std::error::Error for PageError {}

/// Where other ports put arrivals for this one.
pub(crate) struct Mailbox {
    arrivals: Mutex<Vec<Arrival>>,
    /// Set while `arrivals` is not empty, so that an idle look costs one load.
    full: AtomicBool,
    waker: Arc<dyn PageWaker>,
}

impl Mailbox {
    /// An empty one; `waker` wakes its port.
    pub(crate) fn new(waker: Arc<dyn PageWaker>) -> Self {
        Self { arrivals: Mutex::new(Vec::new()), full: AtomicBool::new(false), waker }
    }

    pub(crate) fn deliver(&self, arrival: Arrival) {
        let mut arrivals = self.arrivals.lock();
        arrivals.push(arrival);
        self.full.store(true, Ordering::Release);
        drop(arrivals);
        self.waker.wake();
    }

    pub(crate) fn take_into(&self, out: &mut Vec<Arrival>) -> usize {
        if !self.full.load(Ordering::Acquire) {
            return 0;
        }
        let mut arrivals = self.arrivals.lock();
        self.full.store(false, Ordering::Relaxed);
        let count = arrivals.len();
        out.append(&mut arrivals);
        count
    }
}
