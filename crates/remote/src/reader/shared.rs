//! What a store and its lanes have in common.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use saki_base::PageAddress;

/// Pages whose last read brought something else than their parents promise, and that are read once more.
#[derive(Default)]
pub struct Doubts {
    pages: Mutex<HashSet<PageAddress>>,
    /// As many, so that a lane that reads sound pages takes no lock.
    count: AtomicUsize,
}

impl Doubts {
    pub fn add(&self, address: PageAddress) {
        let mut pages = self.pages.lock();
        pages.insert(address);
        self.count.store(pages.len(), Ordering::Release);
    }

    /// Whether a page was doubted; it is not any more.
    pub fn take(&self, address: PageAddress) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut pages = self.pages.lock();
        let was_there = pages.remove(&address);
        self.count.store(pages.len(), Ordering::Release);
        was_there
    }
}

/// What lanes and their store have in common.
pub struct Shared {
    pub doubts: Doubts,
    /// The owner for messages: its number, once that is known, and where it is.
    pub name: Mutex<String>,
    next_lane: AtomicUsize,
}

impl Shared {
    pub fn new(name: String) -> Self {
        Self { doubts: Doubts::default(), name: Mutex::new(name), next_lane: AtomicUsize::new(0) }
    }

    /// Counts lanes.
    pub fn next_lane(&self) -> usize {
        // Relaxed: only to take turns.
        self.next_lane.fetch_add(1, Ordering::Relaxed)
    }
}
