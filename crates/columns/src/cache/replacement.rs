//! Which run to give up: S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023) over
//! values that weigh bytes.
//!
//! ```text
//!   admit ─► small (a tenth) ─ untouched ─► ghost: only the address ─ admitted again ─┐
//!                 └─ touched ─► main ◄────────────────────────────────────────────────┘
//!                               └─ untouched since its last turn ─► gone
//! ```
//!
//! A query touches a run once. So one touch in the small queue means a second query, and is enough to be kept; what one
//! large scan reads passes through the small queue, and what others come back to stays.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use saki_base::PageAddress;

/// Touches saturate here.
const TOUCHES_MAX: u8 = 3;
/// The part of the capacity that new values have.
const SMALL_DIVISOR: usize = 10;
/// Ghosts for each value that is kept, at most.
const GHOSTS_PER_ENTRY: usize = 2;

/// Values by first page, bounded in bytes.
pub(super) struct Replacement<V> {
    entries: HashMap<PageAddress, Entry<V>>,
    small: VecDeque<Ticket>,
    main: VecDeque<Ticket>,
    ghosts: VecDeque<PageAddress>,
    ghost_set: HashSet<PageAddress>,
    capacity: usize,
    bytes: usize,
    small_bytes: usize,
    next_ticket: u64,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    touches: u8,
    in_small: bool,
    /// Tells an entry from one of the same page that was removed before.
    ticket: u64,
}

/// A place in a queue.
#[derive(Clone, Copy)]
struct Ticket {
    page: PageAddress,
    ticket: u64,
}

impl<V> Replacement<V> {
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            ghost_set: HashSet::new(),
            capacity,
            bytes: 0,
            small_bytes: 0,
            next_ticket: 0,
        }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn contains(&self, page: PageAddress) -> bool {
        self.entries.contains_key(&page)
    }

    /// The value, used once more.
    pub fn touch(&mut self, page: PageAddress) -> Option<&V> {
        let entry = self.entries.get_mut(&page)?;
        entry.touches = (entry.touches + 1).min(TOUCHES_MAX);
        Some(&entry.value)
    }

    /// Keeps a value of `bytes`, and gives others up for it. One that is there already stays.
    pub fn admit(&mut self, page: PageAddress, value: V, bytes: usize) {
        if self.entries.contains_key(&page) {
            return;
        }
        self.next_ticket += 1;
        let ticket = Ticket { page, ticket: self.next_ticket };
        // Its place in the queue of ghosts stays until it grows old; harmless.
        let in_small = !self.ghost_set.remove(&page);
        if in_small {
            self.small.push_back(ticket);
            self.small_bytes += bytes;
        } else {
            self.main.push_back(ticket);
        }
        self.bytes += bytes;
        self.entries.insert(page, Entry { value, bytes, touches: 0, in_small, ticket: ticket.ticket });
        self.evict();
    }

    /// The value now takes `bytes`.
    pub fn resize(&mut self, page: PageAddress, bytes: usize) {
        let Some(entry) = self.entries.get_mut(&page) else { return };
        let before = std::mem::replace(&mut entry.bytes, bytes);
        assert!(self.bytes >= before, "an entry of {before} bytes, of {} in all", self.bytes);
        self.bytes = self.bytes - before + bytes;
        if entry.in_small {
            self.small_bytes = self.small_bytes - before + bytes;
        }
        self.evict();
    }

    pub fn remove(&mut self, page: PageAddress) {
        if let Some(entry) = self.entries.remove(&page) {
            assert!(self.bytes >= entry.bytes, "an entry of {} bytes, of {} in all", entry.bytes, self.bytes);
            self.bytes -= entry.bytes;
            if entry.in_small {
                assert!(self.small_bytes >= entry.bytes, "the small queue has lost count of its bytes");
                self.small_bytes -= entry.bytes;
            }
        }
    }

    pub fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    fn evict(&mut self) {
        while self.bytes > self.capacity {
            assert!(!self.small.is_empty() || !self.main.is_empty(), "{} bytes are in no queue", self.bytes);
            let from_small = self.small_bytes > self.capacity / SMALL_DIVISOR || self.main.is_empty();
            if from_small && !self.small.is_empty() {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
    }

    /// Promotes or gives up the oldest of the small queue.
    fn evict_small(&mut self) {
        let Some(ticket) = self.small.pop_front() else { return };
        let Some(entry) = self.entries.get_mut(&ticket.page).filter(|entry| entry.ticket == ticket.ticket) else {
            return;
        };
        if entry.touches > 0 {
            entry.touches = 0;
            entry.in_small = false;
            self.small_bytes -= entry.bytes;
            self.main.push_back(ticket);
        } else {
            self.remove(ticket.page);
            self.remember(ticket.page);
        }
    }

    /// Gives up the oldest of the main queue, or takes one of its touches. Each turn lowers some value's touches, so
    /// evicting ends.
    fn evict_main(&mut self) {
        let Some(ticket) = self.main.pop_front() else { return };
        let Some(entry) = self.entries.get_mut(&ticket.page).filter(|entry| entry.ticket == ticket.ticket) else {
            return;
        };
        if entry.touches > 0 {
            entry.touches -= 1;
            self.main.push_back(ticket);
        } else {
            self.remove(ticket.page);
        }
    }

    fn remember(&mut self, page: PageAddress) {
        if self.ghost_set.insert(page) {
            self.ghosts.push_back(page);
        }
        let ghosts_max = GHOSTS_PER_ENTRY * self.entries.len().max(64);
        while self.ghosts.len() > ghosts_max {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.ghost_set.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of the accesses of a trace that find their page, all values weighing `bytes`.
    fn hit_ratio(capacity: usize, bytes: usize, trace: impl IntoIterator<Item = u64>) -> f64 {
        let mut replacement = Replacement::new(capacity);
        let (mut hits, mut accesses) = (0, 0);
        for page in trace {
            accesses += 1;
            if replacement.touch(PageAddress(page)).is_some() {
                hits += 1;
            } else {
                replacement.admit(PageAddress(page), (), bytes);
            }
            assert!(replacement.bytes() <= capacity);
        }
        f64::from(hits) / f64::from(accesses)
    }

    #[test]
    fn a_working_set_that_fits_stays() {
        let trace = (0..10_000).map(|access| access % 80);
        assert!(hit_ratio(100 * 7, 7, trace) > 0.98);
    }

    #[test]
    fn a_scan_does_not_wash_the_hot_set_out() {
        let rounds = (0..200).flat_map(|round| (0..50).chain((0..80).map(move |page| 1_000 + round * 80 + page)));
        let ratio = hit_ratio(100, 1, rounds);
        assert!(ratio > 0.35, "the hot set is 0.38 of the trace; {ratio} hit");
    }

    #[test]
    fn a_set_twice_the_capacity_read_in_turns_hits_a_part() {
        let ratio = hit_ratio(100, 1, (0..200 * 50).map(|access| access % 200));
        assert!(ratio > 0.2, "first in, first out would hit nothing; {ratio} hit");
    }

    #[test]
    fn what_grows_pushes_others_out_and_itself_last() {
        let mut replacement = Replacement::new(100);
        for page in 0..10 {
            replacement.admit(PageAddress(page), page, 10);
        }
        replacement.resize(PageAddress(9), 60);
        assert!(replacement.bytes() <= 100);
        assert_eq!(replacement.touch(PageAddress(9)), Some(&9));
        replacement.resize(PageAddress(9), 101);
        assert_eq!((replacement.bytes(), replacement.contains(PageAddress(9))), (0, false), "larger than everything");
    }

    #[test]
    fn removed_and_admitted_again_is_one_entry() {
        let mut replacement = Replacement::new(100);
        for round in 0..50 {
            replacement.admit(PageAddress(1), round, 30);
            replacement.admit(PageAddress(2), round, 30);
            replacement.remove(PageAddress(1));
        }
        assert_eq!(replacement.bytes(), 30);
        replacement.admit(PageAddress(3), 0, 90);
        assert!(replacement.bytes() <= 100);
        replacement.clear();
        assert_eq!((replacement.bytes(), replacement.capacity()), (0, 100));
    }
}
