//! A store in memory whose pages can be told from their addresses, and that fails as it is told to.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use saki_base::{Arena, ArenaFrame, DeviceId, PageAddress, PageRef, PageSize, Random, checksum};
use saki_page::{IoShare, PageLane, PageRead, PageStore, PageWaker, Refusal, StoreError};

pub const PAGE: PageSize = match PageSize::new(4096) {
    Ok(size) => size,
    Err(_) => unreachable!(),
};

/// From here on reads fail.
pub const FAILING: u64 = 10_000;
/// From here on nothing is mapped.
pub const UNMAPPED: u64 = 20_000;

/// What is the matter with the store.
#[derive(Default)]
pub struct Faults {
    /// So many of the next reads bring wrong bytes.
    pub wrong: AtomicU64,
    /// Pages whose copies are damaged, until they are distrusted.
    pub rotten_copies: Mutex<HashSet<PageAddress>>,
    /// Nothing ends.
    pub held: AtomicBool,
    pub reads: AtomicU64,
    /// Reads under way at once, at most.
    pub depth: AtomicU64,
    pub in_flight: AtomicU64,
    pub in_flight_most: AtomicU64,
}

#[derive(Clone, Default)]
pub struct Pages {
    pub faults: Arc<Faults>,
}

pub fn fill(address: PageAddress, bytes: &mut [u8]) {
    let mut random = Random::new(address.0);
    bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
}

pub fn reference(address: u64) -> PageRef {
    let mut bytes = vec![0; PAGE.bytes()];
    fill(PageAddress(address), &mut bytes);
    PageRef { address: PageAddress(address), checksum: checksum(&bytes) }
}

impl PageStore for Pages {
    fn page_size(&self) -> PageSize {
        PAGE
    }

    fn open_lane(&self, _: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        Ok(Box::new(Lane { faults: Arc::clone(&self.faults), queue: Vec::new(), random: Random::new(1) }))
    }

    fn describe(&self, _: PageAddress) -> String {
        "memory".into()
    }

    fn distrust_copy(&self, address: PageAddress) {
        self.faults.rotten_copies.lock().remove(&address);
    }
}

struct Lane {
    faults: Arc<Faults>,
    queue: Vec<(PageAddress, ArenaFrame, u64)>,
    random: Random,
}

struct Awake;

impl PageWaker for Awake {
    fn wake(&self) {}
}

impl PageLane for Lane {
    fn try_read(
        &mut self,
        _: &Arc<IoShare>,
        address: PageAddress,
        memory: ArenaFrame,
        token: u64,
    ) -> Result<(), (ArenaFrame, Refusal)> {
        if address.0 >= UNMAPPED {
            return Err((memory, Refusal::Unmapped));
        }
        let depth = self.faults.depth.load(Ordering::Relaxed);
        if depth > 0 && self.queue.len() as u64 >= depth {
            return Err((memory, Refusal::Busy(DeviceId(0))));
        }
        self.queue.push((address, memory, token));
        let now = self.faults.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.faults.in_flight_most.fetch_max(now, Ordering::Relaxed);
        Ok(())
    }

    /// Ends about half of what is under way, in any order.
    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<PageRead>) -> usize {
        if self.faults.held.load(Ordering::Relaxed) {
            std::thread::sleep(wait.unwrap_or_default());
            return 0;
        }
        let count = self.queue.len().div_ceil(2);
        for _ in 0..count {
            let index = self.random.below(self.queue.len() as u64) as usize;
            let (address, mut memory, token) = self.queue.swap_remove(index);
            fill(address, &mut memory);
            let is_wrong =
                self.faults.wrong.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            let from_copy = self.faults.rotten_copies.lock().contains(&address);
            if is_wrong.is_ok() || from_copy {
                memory[77] ^= 4;
            }
            let failed = StoreError { device: "memory".into(), message: "on fire".into() };
            let result = if address.0 >= FAILING { Err(failed) } else { Ok(()) };
            self.faults.reads.fetch_add(1, Ordering::Relaxed);
            self.faults.in_flight.fetch_sub(1, Ordering::Relaxed);
            finished.push(PageRead { token, memory, result, from_copy });
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.queue.len()
    }

    fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::new(Awake)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.faults.in_flight.fetch_sub(self.queue.len() as u64, Ordering::Relaxed);
    }
}
