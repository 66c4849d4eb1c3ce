//! One thread's way to pages: the shared cache above, a private lane below.
//!
//! A port never blocks unless asked to, holds no page, and reports each request exactly once.
//! A page that has arrived is in the cache and may be evicted again before anybody looks: then ask again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{ArenaFrame, DeviceId, PageRef, checksum};

use crate::arrival::{Arrival, Mailbox, PageError};
use crate::cache::{CacheReader, PageCache, PageGuard};
use crate::loading::{Begin, Waiter};
use crate::store::{IoShare, PageLane, PageRead, PageStore, PageWaker, Refusal, StoreError};

/// How long a port waits before it asks again for a page whose copy was damaged.
const REPAIR_RETRY: Duration = Duration::from_micros(100);
/// How long a blocking read waits for a frame that nobody gives up.
const EXHAUSTED_AFTER: Duration = Duration::from_secs(10);

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// In the cache now: `CacheReader::find` gives it.
    Cached,
    /// On its way; an [`Arrival`] with the token follows.
    Queued,
    /// On its way already, for another port; an [`Arrival`] follows all the same.
    Shared,
    /// Not now: the governor of this device, or where it is `None` the cache, allows no further request. Ask again
    /// after an arrival.
    Busy(Option<DeviceId>),
}

/// A read of this port in flight.
#[derive(Clone, Copy)]
struct InFlight {
    page: PageRef,
    token: u64,
}

/// One thread's way to pages.
pub struct PagePort {
    cache: Arc<PageCache>,
    store: Arc<dyn PageStore>,
    reader: CacheReader,
    lane: Box<dyn PageLane>,
    mailbox: Arc<Mailbox>,
    /// By lane token; reused through `vacant`, so that a read allocates nothing.
    in_flight: Vec<InFlight>,
    vacant: Vec<u32>,
    finished: Vec<PageRead>,
    /// Arrivals for a blocking read's caller to find later.
    set_aside: Vec<Arrival>,
    /// Requests refused by the store: reported at the next poll.
    failed: Vec<Arrival>,
    /// Reads, by lane token, whose copy was not what it should be: to be read from their homes.
    again: Vec<(u64, ArenaFrame)>,
    /// On whose behalf: that of whoever had a damaged copy of it, and that bounds itself.
    repairs: Arc<IoShare>,
}

impl PagePort {
    /// Opens a lane to `store`; pages go into `cache`.
    pub fn new(cache: &Arc<PageCache>, store: &Arc<dyn PageStore>) -> Result<Self, StoreError> {
        Ok(Self::over(cache, store, store.open_lane(cache.arena())?))
    }

    /// The same for whoever reads a few pages and goes: sooner opened, and each read costs somewhat more.
    pub fn brief(cache: &Arc<PageCache>, store: &Arc<dyn PageStore>) -> Result<Self, StoreError> {
        Ok(Self::over(cache, store, store.open_brief_lane(cache.arena())?))
    }

    fn over(cache: &Arc<PageCache>, store: &Arc<dyn PageStore>, lane: Box<dyn PageLane>) -> Self {
        assert_eq!(cache.page_size(), store.page_size(), "cache and store agree on the page size");
        let mailbox = Arc::new(Mailbox::new(lane.waker()));
        Self {
            cache: Arc::clone(cache),
            store: Arc::clone(store),
            reader: cache.reader(),
            lane,
            mailbox,
            in_flight: Vec::new(),
            vacant: Vec::new(),
            finished: Vec::new(),
            set_aside: Vec::new(),
            failed: Vec::new(),
            again: Vec::new(),
            repairs: IoShare::new(u32::MAX),
        }
    }

    /// Asks for a page. Never blocks.
    pub fn request(&mut self, share: &Arc<IoShare>, page: PageRef, token: u64) -> Request {
        if self.cache.holds(&self.reader, page.address) {
            return Request::Cached;
        }
        let cached = || self.cache.holds(&self.reader, page.address);
        let waiter = || Waiter { mailbox: Arc::clone(&self.mailbox), token };
        match self.cache.loading.begin(page.address, cached, waiter) {
            Begin::Waiting => Request::Shared,
            Begin::Cached => Request::Cached,
            Begin::Yours => self.start_read(share, page, token),
        }
    }

    /// Reads a claimed page, or gives the claim up.
    fn start_read(&mut self, share: &Arc<IoShare>, page: PageRef, token: u64) -> Request {
        let Some(memory) = self.cache.take_memory() else {
            // Whoever joined in the meantime is told to look again.
            self.abandon(page);
            return Request::Busy(None);
        };
        let lane_token = self.occupy(InFlight { page, token });
        let Err((memory, refusal)) = self.lane.try_read(share, page.address, memory, u64::from(lane_token)) else {
            return Request::Queued;
        };
        self.vacate(lane_token);
        self.cache.give_back(memory);
        match refusal {
            Refusal::Busy(device) => {
                self.abandon(page);
                Request::Busy(Some(device))
            }
            Refusal::Unmapped => {
                let reason = "its chunk is not mapped to any device".to_owned();
                let error = PageError::Unreadable { page, reason };
                let arrival = |token| Arrival { token, page, result: Err(error.clone()) };
                self.cache.loading.finish(page.address, arrival);
                self.failed.push(arrival(token));
                Request::Queued
            }
        }
    }

    /// Ends a claim without a read: waiters get an arrival, find nothing in the cache, and ask again themselves.
    fn abandon(&self, page: PageRef) {
        self.cache.loading.finish(page.address, |token| Arrival { token, page, result: Ok(()) });
    }

    fn occupy(&mut self, read: InFlight) -> u32 {
        match self.vacant.pop() {
            Some(index) => {
                self.in_flight[index as usize] = read;
                index
            }
            None => {
                self.in_flight.push(read);
                (self.in_flight.len() - 1) as u32
            }
        }
    }

    fn vacate(&mut self, index: u32) {
        debug_assert!(!self.vacant.contains(&index), "read {index} has ended twice");
        self.vacant.push(index);
    }

    /// Hands requests to the device and appends arrivals; returns how many. Waits at most
    /// `wait` for the first (`None`: not at all), or until woken.
    pub fn poll(&mut self, wait: Option<Duration>, arrivals: &mut Vec<Arrival>) -> usize {
        let before = arrivals.len();
        arrivals.append(&mut self.set_aside);
        arrivals.append(&mut self.failed);
        self.mailbox.take_into(arrivals);
        let wait = if arrivals.len() > before { None } else { wait };
        let wait = if self.again.is_empty() { wait } else { self.read_again(arrivals, wait) };
        let mut finished = std::mem::take(&mut self.finished);
        self.lane.poll(wait, &mut finished);
        for read in finished.drain(..) {
            arrivals.extend(self.complete(read));
        }
        self.finished = finished;
        self.mailbox.take_into(arrivals);
        arrivals.len() - before
    }

    /// Reads pages from their homes whose copies were damaged; returns how long may be waited.
    #[cold]
    fn read_again(&mut self, arrivals: &mut Vec<Arrival>, wait: Option<Duration>) -> Option<Duration> {
        for (token, memory) in std::mem::take(&mut self.again) {
            let page = self.in_flight[token as usize].page;
            match self.lane.try_read(&self.repairs, page.address, memory, token) {
                Ok(()) => {}
                Err((memory, Refusal::Busy(_))) => self.again.push((token, memory)),
                Err((memory, Refusal::Unmapped)) => {
                    let error =
                        StoreError { device: self.store.describe(page.address), message: "unmapped".to_owned() };
                    arrivals.extend(self.complete(PageRead { token, memory, result: Err(error), from_copy: false }));
                }
            }
        }
        if self.again.is_empty() { wait } else { wait.map(|wait| wait.min(REPAIR_RETRY)) }
    }

    /// Verifies a page against its parent's promise and lets everybody have it. `None` if it was read from a copy that
    /// was not what it should be: then it is read once more.
    fn complete(&mut self, read: PageRead) -> Option<Arrival> {
        let InFlight { page, token } = self.in_flight[read.token as usize];
        assert_eq!(
            read.memory.len(),
            self.cache.page_size().bytes(),
            "{} came in a frame of another size",
            page.address
        );
        let result = match read.result {
            Ok(()) => self.verify(page, &read.memory),
            Err(error) => Err(PageError::Unreadable { page, reason: error.to_string() }),
        };
        if read.from_copy && result.is_err() {
            self.store.distrust_copy(page.address);
            self.again.push((read.token, read.memory));
            return None;
        }
        self.vacate(read.token as u32);
        match &result {
            Ok(()) => self.cache.admit(page, read.memory),
            Err(_) => self.cache.give_back(read.memory),
        }
        self.cache.loading.finish(page.address, |token| Arrival { token, page, result: result.clone() });
        Some(Arrival { token, page, result })
    }

    fn verify(&self, page: PageRef, memory: &ArenaFrame) -> Result<(), PageError> {
        let found = checksum(memory);
        if found == page.checksum {
            return Ok(());
        }
        Err(PageError::Corrupt { page, device: self.store.describe(page.address), found })
    }

    /// Reads a page and waits for it. The caller should hold no guard of a small cache meanwhile. Arrivals of
    /// other requests are kept for the next `poll`.
    pub fn read<'r>(
        &mut self,
        share: &Arc<IoShare>,
        reader: &'r CacheReader,
        page: PageRef,
    ) -> Result<PageGuard<'r>, PageError> {
        let mut others = Vec::new();
        let mut asked_since = Instant::now();
        let result = loop {
            match reader.find(page) {
                Ok(Some(guard)) => break Ok(guard),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
            match self.request(share, page, BLOCKING_TOKEN) {
                Request::Cached => continue,
                Request::Queued | Request::Shared => match self.wait_for(page, &mut others) {
                    Ok(()) => asked_since = Instant::now(),
                    Err(error) => break Err(error),
                },
                Request::Busy(_) if asked_since.elapsed() > EXHAUSTED_AFTER => {
                    break Err(PageError::Exhausted { page, frames: self.cache.frames() });
                }
                Request::Busy(_) => {
                    self.poll(Some(Duration::from_micros(100)), &mut others);
                }
            }
        };
        self.set_aside.append(&mut others);
        result
    }

    fn wait_for(&mut self, page: PageRef, others: &mut Vec<Arrival>) -> Result<(), PageError> {
        let mut seen = others.len();
        loop {
            self.poll(Some(Duration::from_millis(100)), others);
            while seen < others.len() {
                if others[seen].token == BLOCKING_TOKEN && others[seen].page == page {
                    return others.swap_remove(seen).result;
                }
                seen += 1;
            }
        }
    }

    /// Devices that pages lie on.
    pub fn devices(&self) -> usize {
        self.store.devices()
    }

    /// Reads of this port that the device has not finished.
    pub fn in_flight(&self) -> usize {
        self.lane.in_flight() + self.again.len()
    }

    /// Ends a waiting `poll` from another thread.
    pub fn waker(&self) -> Arc<dyn PageWaker> {
        self.lane.waker()
    }
}

/// The token of blocking reads; callers of `request` use any other.
const BLOCKING_TOKEN: u64 = u64::MAX;

impl Drop for PagePort {
    /// Waits for the device: other ports may be waiting for reads that this one started.
    fn drop(&mut self) {
        let mut ignored = Vec::new();
        while self.in_flight() > 0 {
            self.poll(Some(Duration::from_millis(100)), &mut ignored);
            ignored.clear();
        }
    }
}
