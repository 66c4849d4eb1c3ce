//! Which frame to give up: three policies over the same events, so that they
//! can be compared on one trace (`saki-bench cache`). The cache runs [`S3Fifo`].
//!
//! A hit costs the cache at most one store to a byte of the frame (its *touches*, saturating), and
//! none once saturated; a policy looks at those bytes only when it needs a victim.

use std::collections::VecDeque;

use hashbrown::HashSet;
use saki_base::PageAddress;

/// Touches saturate here.
pub const TOUCHES_MAX: u8 = 3;

/// How a policy sees frames: touches since it last asked.
pub trait Touches {
    fn touches(&self, frame: u32) -> u8;
    fn set_touches(&self, frame: u32, touches: u8);
}

/// A replacement policy over frame numbers.
pub trait Replacement: Send {
    /// A page has been read into `frame`.
    fn admit(&mut self, frame: u32, address: PageAddress);
    /// Chooses a resident frame and forgets it. `address_of` tells which page it holds. `None` if nothing is resident.
    fn evict(&mut self, touches: &dyn Touches, address_of: &dyn Fn(u32) -> PageAddress) -> Option<u32>;
    fn resident(&self) -> usize;
}

/// S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023): a small
/// probationary queue absorbs pages that are read once, as scans do; a page
/// touched again while in it, or asked for again soon after leaving it, enters the main queue.
pub struct S3Fifo {
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: VecDeque<PageAddress>,
    ghost_set: HashSet<PageAddress>,
    small_target: usize,
    ghosts_max: usize,
}

impl S3Fifo {
    pub fn new(frames: usize) -> Self {
        let small_target = (frames / 10).max(1);
        let ghosts_max = frames - small_target;
        Self {
            small: VecDeque::with_capacity(frames),
            main: VecDeque::with_capacity(frames),
            ghosts: VecDeque::with_capacity(ghosts_max + 1),
            ghost_set: HashSet::with_capacity(ghosts_max + 1),
            small_target,
            ghosts_max,
        }
    }

    fn remember(&mut self, address: PageAddress) {
        if self.ghosts_max > 0 && self.ghost_set.insert(address) {
            self.ghosts.push_back(address);
        }
        while self.ghosts.len() > self.ghosts_max {
            let oldest = self.ghosts.pop_front().expect("longer than its bound");
            self.ghost_set.remove(&oldest);
        }
    }

    fn evict_small(&mut self, touches: &dyn Touches, address_of: &dyn Fn(u32) -> PageAddress) -> Option<u32> {
        while let Some(frame) = self.small.pop_front() {
            if touches.touches(frame) > 1 {
                touches.set_touches(frame, 0);
                self.main.push_back(frame);
            } else {
                self.remember(address_of(frame));
                return Some(frame);
            }
        }
        None
    }

    fn evict_main(&mut self, touches: &dyn Touches) -> Option<u32> {
        // Each turn lowers some page's touches, so this ends.
        while let Some(frame) = self.main.pop_front() {
            match touches.touches(frame) {
                0 => return Some(frame),
                count => {
                    touches.set_touches(frame, count - 1);
                    self.main.push_back(frame);
                }
            }
        }
        None
    }
}

impl Replacement for S3Fifo {
    fn admit(&mut self, frame: u32, address: PageAddress) {
        if self.ghost_set.remove(&address) {
            // Its place in the queue of ghosts stays until it grows old; harmless.
            self.main.push_back(frame);
        } else {
            self.small.push_back(frame);
        }
    }

    fn evict(&mut self, touches: &dyn Touches, address_of: &dyn Fn(u32) -> PageAddress) -> Option<u32> {
        if (self.small.len() > self.small_target || self.main.is_empty())
            && let Some(frame) = self.evict_small(touches, address_of)
        {
            return Some(frame);
        }
        match self.evict_main(touches) {
            Some(frame) => Some(frame),
            None => self.evict_small(touches, address_of),
        }
    }

    fn resident(&self) -> usize {
        self.small.len() + self.main.len()
    }
}

/// The second-chance ring: what most engines run, and what a scan washes out.
#[derive(Default)]
pub struct Clock {
    ring: VecDeque<u32>,
}

impl Replacement for Clock {
    fn admit(&mut self, frame: u32, _address: PageAddress) {
        self.ring.push_back(frame);
    }

    fn evict(&mut self, touches: &dyn Touches, _address_of: &dyn Fn(u32) -> PageAddress) -> Option<u32> {
        while let Some(frame) = self.ring.pop_front() {
            match touches.touches(frame) {
                0 => return Some(frame),
                _ => {
                    touches.set_touches(frame, 0);
                    self.ring.push_back(frame);
                }
            }
        }
        None
    }

    fn resident(&self) -> usize {
        self.ring.len()
    }
}

/// 2Q (Johnson and Shasha, VLDB 1994), with the main queue kept by second chance instead of exact LRU.
pub struct TwoQueue {
    first_in: VecDeque<u32>,
    main: Clock,
    ghosts: VecDeque<PageAddress>,
    ghost_set: HashSet<PageAddress>,
    first_in_max: usize,
    ghosts_max: usize,
}

impl TwoQueue {
    /// `K_in` = 1/4 of the frames, `K_out` = 1/2, as the paper recommends.
    pub fn new(frames: usize) -> Self {
        Self {
            first_in: VecDeque::new(),
            main: Clock::default(),
            ghosts: VecDeque::new(),
            ghost_set: HashSet::new(),
            first_in_max: (frames / 4).max(1),
            ghosts_max: (frames / 2).max(1),
        }
    }

    fn evict_first_in(&mut self, address_of: &dyn Fn(u32) -> PageAddress) -> Option<u32> {
        let frame = self.first_in.pop_front()?;
        let address = address_of(frame);
        if self.ghost_set.insert(address) {
            self.ghosts.push_back(address);
        }
        while self.ghosts.len() > self.ghosts_max {
            let oldest = self.ghosts.pop_front().expect("longer than its bound");
            self.ghost_set.remove(&oldest);
        }
        Some(frame)
    }
}

impl Replacement for TwoQueue {
    fn admit(&mut self, frame: u32, address: PageAddress) {
        if self.ghost_set.remove(&address) {
            self.main.admit(frame, address);
        } else {
            self.first_in.push_back(frame);
        }
    }

    fn evict(&mut self, touches: &dyn Touches, address_of: &dyn Fn(u32) -> PageAddress) -> Option<u32> {
        if (self.first_in.len() > self.first_in_max || self.main.resident() == 0)
            && let Some(frame) = self.evict_first_in(address_of)
        {
            return Some(frame);
        }
        self.main.evict(touches, address_of)
    }

    fn resident(&self) -> usize {
        self.first_in.len() + self.main.resident()
    }
}

/// Share of a trace's accesses that hit a cache of `frames` frames under a policy.
pub fn hit_ratio(policy: &mut dyn Replacement, frames: usize, trace: impl IntoIterator<Item = PageAddress>) -> f64 {
    use std::cell::RefCell;
    struct Frames(RefCell<Vec<(PageAddress, u8)>>);
    impl Touches for Frames {
        fn touches(&self, frame: u32) -> u8 {
            self.0.borrow()[frame as usize].1
        }
        fn set_touches(&self, frame: u32, touches: u8) {
            self.0.borrow_mut()[frame as usize].1 = touches;
        }
    }
    let state = Frames(RefCell::new(Vec::with_capacity(frames)));
    let mut resident = hashbrown::HashMap::new();
    let (mut hits, mut accesses) = (0u64, 0u64);
    for address in trace {
        accesses += 1;
        if let Some(&frame) = resident.get(&address) {
            hits += 1;
            let touches = state.touches(frame);
            state.set_touches(frame, (touches + 1).min(TOUCHES_MAX));
            continue;
        }
        let fresh = state.0.borrow().len();
        let frame = if fresh < frames {
            state.0.borrow_mut().push((address, 0));
            fresh as u32
        } else {
            let address_of = |frame: u32| state.0.borrow()[frame as usize].0;
            let victim = policy.evict(&state, &address_of).expect("a full cache has a victim");
            let old = address_of(victim);
            resident.remove(&old);
            state.0.borrow_mut()[victim as usize] = (address, 0);
            victim
        };
        policy.admit(frame, address);
        resident.insert(address, frame);
    }
    hits as f64 / accesses.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hot set read again and again, with a long scan running through it.
    fn scan_through_hot_set() -> Vec<PageAddress> {
        let mut trace = Vec::new();
        for round in 0..200u64 {
            for hot in 0..50 {
                trace.push(PageAddress(hot));
            }
            for scanned in 0..80 {
                trace.push(PageAddress(1_000 + round * 80 + scanned));
            }
        }
        trace
    }

    #[test]
    fn every_policy_keeps_a_hot_set_that_fits() {
        let trace = || (0..10_000u64).map(|i| PageAddress(i % 80));
        for policy in [&mut S3Fifo::new(100) as &mut dyn Replacement, &mut Clock::default(), &mut TwoQueue::new(100)] {
            assert!(hit_ratio(policy, 100, trace()) > 0.98);
        }
    }

    #[test]
    fn a_scan_does_not_wash_the_hot_set_out_of_s3_fifo() {
        let s3 = hit_ratio(&mut S3Fifo::new(100), 100, scan_through_hot_set());
        let clock = hit_ratio(&mut Clock::default(), 100, scan_through_hot_set());
        assert!(s3 > 0.35, "hot share of the trace is 0.38, S3-FIFO hits {s3}");
        assert!(s3 > clock, "S3-FIFO {s3}, CLOCK {clock}");
    }
}
