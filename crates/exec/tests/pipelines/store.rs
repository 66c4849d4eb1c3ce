//! Trees in memory, and a store that completes reads in an order drawn from a seed.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, ArenaFrame, DeviceId, PageAddress, PageRef, PageSize, TreeId, checksum};
use saki_page::{
    InnerBuilder, IoShare, LeafBuilder, LeafValue, OverflowIndexBuilder, OverflowLayout, OverflowRef, PageExpectation,
    PageLane, PageRead, PageStore, PageWaker, Refusal, StoreError, inline_value_bytes_max, shortest_separator,
    write_overflow_data,
};

pub const PAGE: PageSize = match PageSize::new(4096) {
    Ok(size) => size,
    Err(_) => unreachable!(),
};

/// Pages of any number of trees.
#[derive(Default)]
pub struct Pages(pub Vec<Vec<u8>>);

impl Pages {
    fn push(&mut self, bytes: Vec<u8>) -> PageRef {
        let page = PageRef { address: PageAddress(self.0.len() as u64), checksum: checksum(&bytes) };
        self.0.push(bytes);
        page
    }

    /// Builds a tree of sorted entries; root and height.
    pub fn tree(&mut self, id: TreeId, entries: &[(Vec<u8>, Vec<u8>)]) -> (Option<PageRef>, u16, u64) {
        if entries.is_empty() {
            return (None, 0, 0);
        }
        let mut leaf = LeafBuilder::new(PAGE, id);
        let mut level: Vec<(Vec<u8>, PageRef)> = Vec::new();
        let mut separator = Vec::new();
        for (key, value) in entries {
            let overflow = (value.len() > inline_value_bytes_max(PAGE)).then(|| self.overflow(id, value));
            let value = || overflow.map_or(LeafValue::Inline(value), LeafValue::Overflow);
            if !leaf.try_push(key, value()) {
                let mut next = Vec::new();
                shortest_separator(leaf.last_key().unwrap(), key, &mut next);
                let mut bytes = vec![0; PAGE.bytes()];
                leaf.finish_into(&mut bytes);
                level.push((std::mem::replace(&mut separator, next), self.push(bytes)));
                leaf.reset();
                assert!(leaf.try_push(key, value()));
            }
        }
        let mut bytes = vec![0; PAGE.bytes()];
        leaf.finish_into(&mut bytes);
        level.push((separator, self.push(bytes)));
        let leaves = level.len() as u64;
        let mut height = 1;
        while level.len() > 1 {
            level = self.inner_level(id, height, level);
            height += 1;
        }
        (Some(level[0].1), height, leaves)
    }

    fn inner_level(&mut self, id: TreeId, height: u16, below: Vec<(Vec<u8>, PageRef)>) -> Vec<(Vec<u8>, PageRef)> {
        let mut level = Vec::new();
        let mut inner = InnerBuilder::new(PAGE, id, height as u8);
        let mut first = Vec::new();
        // A small fan-out makes tall trees of few rows.
        for (separator, child) in below {
            if inner.count() == 5 {
                let mut bytes = vec![0; PAGE.bytes()];
                inner.finish_into(&mut bytes);
                level.push((std::mem::replace(&mut first, separator.clone()), self.push(bytes)));
                inner.reset();
            }
            let own: &[u8] = if inner.count() == 0 { &[] } else { &separator };
            assert!(inner.try_push(own, child));
        }
        let mut bytes = vec![0; PAGE.bytes()];
        inner.finish_into(&mut bytes);
        level.push((first, self.push(bytes)));
        level
    }

    fn overflow(&mut self, id: TreeId, value: &[u8]) -> OverflowRef {
        let expected = PageExpectation { page_size: PAGE, tree: id };
        let mut level: Vec<PageRef> = Vec::new();
        for piece in value.chunks(OverflowLayout::data_bytes(PAGE)) {
            let mut bytes = vec![0; PAGE.bytes()];
            write_overflow_data(&mut bytes, expected, piece);
            level.push(self.push(bytes));
        }
        let mut height = 0;
        while level.len() > 1 {
            height += 1;
            let mut above = Vec::new();
            for children in level.chunks(OverflowLayout::fan_out(PAGE)) {
                let mut index = OverflowIndexBuilder::new(PAGE, id, height);
                assert!(children.iter().all(|&child| index.try_push(child)));
                let mut bytes = vec![0; PAGE.bytes()];
                index.finish_into(&mut bytes);
                above.push(self.push(bytes));
            }
            level = above;
        }
        OverflowRef { length: value.len() as u64, root: level[0] }
    }
}

pub struct MemoryStore {
    pub pages: Arc<Vec<Vec<u8>>>,
    pub seed: u64,
    pub allowance: usize,
    /// One read in so many fails; 0 for none.
    pub failing: u64,
}

struct Lane {
    failing: u64,
    pages: Arc<Vec<Vec<u8>>>,
    random: u64,
    allowance: usize,
    queue: Vec<(Arc<IoShare>, PageAddress, ArenaFrame, u64)>,
    thread: Arc<Unpark>,
}

/// Wakes whoever last slept in the lane's poll.
struct Unpark(parking_lot::Mutex<Option<std::thread::Thread>>);

impl PageWaker for Unpark {
    fn wake(&self) {
        if let Some(thread) = self.0.lock().as_ref() {
            thread.unpark();
        }
    }
}

impl PageStore for MemoryStore {
    fn page_size(&self) -> PageSize {
        PAGE
    }
    fn open_lane(&self, _arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        Ok(Box::new(Lane {
            pages: Arc::clone(&self.pages),
            random: self.seed | 1,
            allowance: self.allowance,
            failing: self.failing,
            queue: Vec::new(),
            thread: Arc::new(Unpark(parking_lot::Mutex::new(None))),
        }))
    }
    fn describe(&self, _address: PageAddress) -> String {
        "memory".into()
    }
}

impl PageLane for Lane {
    fn try_read(
        &mut self,
        share: &Arc<IoShare>,
        address: PageAddress,
        memory: ArenaFrame,
        token: u64,
    ) -> Result<(), (ArenaFrame, Refusal)> {
        use std::sync::atomic::Ordering::Relaxed;
        if self.queue.len() >= self.allowance || !share.begin() {
            return Err((memory, Refusal::Busy(DeviceId(0))));
        }
        share.on_device(DeviceId(0)).fetch_add(1, Relaxed);
        self.queue.push((Arc::clone(share), address, memory, token));
        Ok(())
    }

    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<PageRead>) -> usize {
        if self.queue.is_empty() {
            if let Some(wait) = wait {
                *self.thread.0.lock() = Some(std::thread::current());
                std::thread::park_timeout(wait.min(Duration::from_millis(1)));
            }
            return 0;
        }
        let count = 1 + self.queue.len() / 3;
        for _ in 0..count.min(self.queue.len()) {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (self.random >> 33) as usize % self.queue.len();
            let (share, address, mut memory, token) = self.queue.swap_remove(index);
            share.on_device(DeviceId(0)).fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            share.end();
            memory.copy_from_slice(&self.pages[address.0 as usize]);
            let fails = self.failing > 0 && (self.random >> 40).is_multiple_of(self.failing);
            let failure = || StoreError { device: "memory".into(), message: "injected failure".into() };
            finished.push(PageRead {
                token,
                memory,
                result: if fails { Err(failure()) } else { Ok(()) },
                from_copy: false,
            });
        }
        count
    }
    fn in_flight(&self) -> usize {
        self.queue.len()
    }
    fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::clone(&self.thread) as _
    }
}
