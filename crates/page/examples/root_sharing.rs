//! What it costs all cores to look at one page again and again, as they do at the root of a hot tree:
//! under an epoch, as the cache does it, and with a pin count in the frame.
//! `cargo run --release -p saki-page --example root_sharing [THREADS]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use saki_base::{Arena, ArenaFrame, PageAddress, PageRef, PageSize, checksum};
use saki_page::{IoShare, PageCache, PageLane, PagePort, PageRead, PageStore, PageWaker, Refusal, StoreError};

const LOOKS: u32 = 20_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads: usize = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let page_size = PageSize::new(4096)?;
    let store: Arc<dyn PageStore> = Arc::new(Zeros(page_size));
    let cache = PageCache::new(page_size, 1024)?;
    let root = PageRef { address: PageAddress(1), checksum: checksum(&vec![0; page_size.bytes()]) };
    PagePort::new(&cache, &store)?.read(&IoShare::new(1), &cache.reader(), root)?;
    let pins = AtomicU32::new(0);
    for pinned in [false, true] {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let reader = cache.reader();
                    let mut sum = 0u64;
                    for _ in 0..LOOKS {
                        let page = reader.find(root).expect("verified").expect("resident");
                        if pinned {
                            pins.fetch_add(1, Ordering::Acquire);
                        }
                        sum += u64::from(std::hint::black_box(page[17]));
                        if pinned {
                            pins.fetch_sub(1, Ordering::Release);
                        }
                    }
                    std::hint::black_box(sum)
                });
            }
        });
        let nanos = start.elapsed().as_nanos() as f64 / f64::from(LOOKS);
        let how = if pinned { "epoch and a shared pin count" } else { "epoch" };
        println!("{threads} threads, {how}: {nanos:.1} ns a look");
    }
    Ok(())
}

/// Every page is zeros.
struct Zeros(PageSize);

impl PageStore for Zeros {
    fn page_size(&self) -> PageSize {
        self.0
    }
    fn open_lane(&self, _arena: &Arc<Arena>) -> Result<Box<dyn PageLane>, StoreError> {
        Ok(Box::new(Finished(Vec::new())))
    }
    fn describe(&self, _address: PageAddress) -> String {
        "zeros".into()
    }
}

struct Finished(Vec<PageRead>);

impl PageLane for Finished {
    fn try_read(
        &mut self,
        _share: &Arc<IoShare>,
        _address: PageAddress,
        memory: ArenaFrame,
        token: u64,
    ) -> Result<(), (ArenaFrame, Refusal)> {
        self.0.push(PageRead { token, memory, result: Ok(()), from_copy: false });
        Ok(())
    }
    fn poll(&mut self, _wait: Option<Duration>, finished: &mut Vec<PageRead>) -> usize {
        finished.append(&mut self.0);
        finished.len()
    }
    fn in_flight(&self) -> usize {
        self.0.len()
    }
    fn waker(&self) -> Arc<dyn PageWaker> {
        struct Nobody;
        impl PageWaker for Nobody {
            fn wake(&self) {}
        }
        Arc::new(Nobody)
    }
}
