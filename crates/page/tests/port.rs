//! Stories of the port and the cache over a store in memory: many readers of
//! few frames, shared reads, corrupt pages, failing devices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use saki_base::{Arena, ArenaFrame, DeviceId, PageAddress, PageRef, PageSize, checksum};
use saki_page::{
    Arrival, IoShare, PageCache, PageError, PageLane, PagePort, PageRead, PageStore, PageWaker, Refusal, Request,
    StoreError,
};

const PAGE: PageSize = match PageSize::new(4096) {
    Ok(size) => size,
    Err(_) => unreachable!(),
};

/// Page `n` is filled with a function of `n`; addresses from 900 on fail, from 1000 on are unmapped.
struct Memory {
    reads: Arc<AtomicU64>,
    allowance: usize,
}

fn fill(address: PageAddress, bytes: &mut [u8]) {
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = (address.0 as usize * 31 + i * 7) as u8;
    }
}

fn reference(address: u64) -> PageRef {
    let mut bytes = vec![0; PAGE.bytes()];
    fill(PageAddress(address), &mut bytes);
    PageRef { address: PageAddress(address), checksum: checksum(&bytes) }
}

struct Lane {
    reads: Arc<AtomicU64>,
    allowance: usize,
    queue: VecDeque<(PageAddress, ArenaFrame, u64)>,
}

struct NoWaker;
impl PageWaker for NoWaker {
    fn wake(&self) {}
}

impl PageStore for Memory {
    fn page_size(&self) -> PageSize {
        PAGE
    }
    fn open_lane(&self, _arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        Ok(Box::new(Lane { reads: Arc::clone(&self.reads), allowance: self.allowance, queue: VecDeque::new() }))
    }
    fn describe(&self, _address: PageAddress) -> String {
        "memory".into()
    }
}

impl PageLane for Lane {
    fn try_read(
        &mut self,
        _share: &Arc<IoShare>,
        address: PageAddress,
        memory: ArenaFrame,
        token: u64,
    ) -> Result<(), (ArenaFrame, Refusal)> {
        if address.0 >= 1000 {
            return Err((memory, Refusal::Unmapped));
        }
        if self.queue.len() >= self.allowance {
            return Err((memory, Refusal::Busy(DeviceId(0))));
        }
        self.queue.push_back((address, memory, token));
        Ok(())
    }

    /// Finishes about half of the queue, newest first.
    fn poll(&mut self, _wait: Option<Duration>, finished: &mut Vec<PageRead>) -> usize {
        let count = self.queue.len().div_ceil(2);
        for _ in 0..count {
            let (address, mut memory, token) = self.queue.pop_back().expect("counted");
            self.reads.fetch_add(1, Ordering::Relaxed);
            fill(address, &mut memory);
            let failed = StoreError { device: "memory".into(), message: "on fire".into() };
            let result = if address.0 >= 900 { Err(failed) } else { Ok(()) };
            finished.push(PageRead { token, memory, result, from_copy: false });
        }
        count
    }
    fn in_flight(&self) -> usize {
        self.queue.len()
    }
    fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::new(NoWaker)
    }
}

fn memory(allowance: usize) -> (Arc<dyn PageStore>, Arc<AtomicU64>) {
    let reads = Arc::new(AtomicU64::new(0));
    (Arc::new(Memory { reads: Arc::clone(&reads), allowance }), reads)
}

fn expect_page(bytes: &[u8], address: u64) {
    let mut expected = vec![0; PAGE.bytes()];
    fill(PageAddress(address), &mut expected);
    assert!(bytes == expected, "page {address} holds other bytes");
}

#[test]
fn a_second_request_for_a_page_in_flight_shares_the_read() {
    let (store, reads) = memory(100);
    let cache = PageCache::new(PAGE, 64).unwrap();
    let mut first = PagePort::new(&cache, &store).unwrap();
    let mut second = PagePort::new(&cache, &store).unwrap();
    let share = IoShare::new(u32::MAX);
    assert_eq!(first.request(&share, reference(5), 1), Request::Queued);
    assert_eq!(second.request(&share, reference(5), 2), Request::Shared);
    let mut arrivals: Vec<Arrival> = Vec::new();
    assert_eq!(first.poll(None, &mut arrivals), 1);
    assert_eq!(second.poll(None, &mut arrivals), 1);
    assert_eq!(arrivals.iter().map(|a| a.token).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(first.request(&share, reference(5), 3), Request::Cached);
    assert_eq!(reads.load(Ordering::Relaxed), 1);
    expect_page(&cache.reader().find(reference(5)).unwrap().unwrap(), 5);
}

#[test]
fn corrupt_failing_and_unmapped_pages_are_errors_and_are_not_cached() {
    let (store, _) = memory(100);
    let cache = PageCache::new(PAGE, 64).unwrap();
    let mut port = PagePort::new(&cache, &store).unwrap();
    let reader = cache.reader();
    let share = IoShare::new(u32::MAX);
    let wrong = PageRef { checksum: 1, ..reference(7) };
    assert!(matches!(port.read(&share, &reader, wrong), Err(PageError::Corrupt { .. })));
    assert!(matches!(port.read(&share, &reader, reference(901)), Err(PageError::Unreadable { .. })));
    assert!(matches!(port.read(&share, &reader, reference(1001)), Err(PageError::Unreadable { .. })));
    expect_page(&port.read(&share, &reader, reference(7)).unwrap(), 7);
    // Cached under the right promise, the page is still not what the wrong one asks for.
    assert!(matches!(port.read(&share, &reader, wrong), Err(PageError::Corrupt { .. })));
    assert_eq!(cache.resident_pages(), 1);
}

#[test]
fn an_allowance_of_one_still_serves_everything() {
    let (store, _) = memory(1);
    let cache = PageCache::new(PAGE, 32).unwrap();
    let mut port = PagePort::new(&cache, &store).unwrap();
    let share = IoShare::new(u32::MAX);
    let mut arrivals = Vec::new();
    let mut served = 0;
    let mut next = 0;
    while served < 500 {
        while next < 500 {
            match port.request(&share, reference(next), next) {
                Request::Busy(_) => break,
                Request::Cached => served += 1,
                Request::Queued | Request::Shared => {}
            }
            next += 1;
        }
        served += port.poll(None, &mut arrivals);
        assert!(arrivals.drain(..).all(|a| a.result.is_ok()));
    }
}

#[test]
fn threads_that_read_through_a_tiny_cache_never_see_a_frame_refilled_under_them() {
    let (store, _) = memory(16);
    let cache = PageCache::new(PAGE, 64).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (store, cache) = (&store, &cache);
            scope.spawn(move || {
                let mut port = PagePort::new(cache, store).unwrap();
                let reader = cache.reader();
                let share = IoShare::new(u32::MAX);
                let mut random = thread.wrapping_mul(0x9e37_79b9) + 1;
                for _ in 0..5_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let address = (random >> 33) % 300;
                    expect_page(&port.read(&share, &reader, reference(address)).unwrap(), address);
                }
            });
        }
    });
}

#[test]
fn clear_forgets_every_page() {
    let (store, reads) = memory(100);
    let cache = PageCache::new(PAGE, 64).unwrap();
    let mut port = PagePort::new(&cache, &store).unwrap();
    let reader = cache.reader();
    let share = IoShare::new(u32::MAX);
    for address in 0..40 {
        drop(port.read(&share, &reader, reference(address)).unwrap());
    }
    cache.clear();
    assert_eq!(cache.resident_pages(), 0);
    for address in 0..40 {
        drop(port.read(&share, &reader, reference(address)).unwrap());
    }
    assert_eq!(reads.load(Ordering::Relaxed), 80);
}
