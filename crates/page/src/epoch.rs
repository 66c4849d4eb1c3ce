//! Epochs: how a frame is known to be unread without anybody counting readers.
//!
//! Pages never change, so the only hazard is a frame being refilled while
//! somebody still looks at it. A reader announces the epoch in which it starts
//! looking, in a cache line of its own; an evicted frame is tagged with the epoch
//! of its eviction and may be refilled once every announced epoch is later. No
//! reader writes a line that another reader writes: the root page of a hot tree costs
//! nothing to share. (Fraser, "Practical lock-freedom", 2004, section 5.2.3, for one kind of garbage.)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

/// A reader that is not looking at anything.
const IDLE: u64 = u64::MAX;

/// One reader's announcement. Written by the reader alone, read by whoever reclaims.
pub(crate) struct Announcement(CachePadded<AtomicU64>);

impl Announcement {
    /// The reader is about to look.
    #[inline]
    pub(crate) fn enter(&self, epochs: &Epochs) {
        self.0.store(epochs.current.load(Ordering::Relaxed), Ordering::Relaxed);
        // Pairs with the fence in `quiet_before`: either the reclaimer sees this
        // announcement, or this reader sees the frame already unlinked.
        fence(Ordering::SeqCst);
    }

    /// The reader has stopped looking. `Release` orders its reads before the store.
    #[inline]
    pub(crate) fn leave(&self) {
        self.0.store(IDLE, Ordering::Release);
    }
}

/// The clock of evictions and the announcements of all readers.
pub(crate) struct Epochs {
    current: CachePadded<AtomicU64>,
    announcements: Mutex<Vec<Arc<Announcement>>>,
}

impl Epochs {
    pub(crate) fn new() -> Self {
        Self { current: CachePadded::new(AtomicU64::new(0)), announcements: Mutex::new(Vec::new()) }
    }

    pub(crate) fn register(&self) -> Arc<Announcement> {
        let announcement = Arc::new(Announcement(CachePadded::new(AtomicU64::new(IDLE))));
        self.announcements.lock().push(Arc::clone(&announcement));
        announcement
    }

    pub(crate) fn unregister(&self, announcement: &Arc<Announcement>) {
        let mut announcements = self.announcements.lock();
        let own = announcements.iter().position(|other| Arc::ptr_eq(other, announcement));
        announcements.swap_remove(own.expect("a reader is unregistered once"));
    }

    /// Ends the current epoch and returns it: the tag of what was unlinked before the call.
    pub(crate) fn advance(&self) -> u64 {
        self.current.fetch_add(1, Ordering::SeqCst)
    }

    /// Everything unlinked in an epoch before the returned one is out of every reader's sight.
    pub(crate) fn quiet_before(&self) -> u64 {
        // Loaded before the announcements: a reader entering later announces at least this.
        let current = self.current.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let announcements = self.announcements.lock();
        announcements.iter().map(|a| a.0.load(Ordering::Acquire)).min().unwrap_or(IDLE).min(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_unlinked_while_somebody_looks_is_not_quiet() {
        let epochs = Epochs::new();
        let reader = epochs.register();
        reader.enter(&epochs);
        let unlinked = epochs.advance();
        assert!(epochs.quiet_before() <= unlinked);
        reader.leave();
        assert!(epochs.quiet_before() > unlinked);
    }

    #[test]
    fn a_reader_that_enters_later_does_not_hold_back_earlier_evictions() {
        let epochs = Epochs::new();
        let reader = epochs.register();
        let unlinked = epochs.advance();
        reader.enter(&epochs);
        assert!(epochs.quiet_before() > unlinked);
        reader.leave();
        epochs.unregister(&reader);
        assert_eq!(epochs.quiet_before(), 1);
    }
}
