//! One thread's service of pages to other nodes: asks come in by the fabric, go to the store in any order, and are
//! answered as their pages come.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, ArenaFrame, Clock, PageAddress};
use saki_fabric::{Event, LinkId, Peer, Port, PortOptions, RegionKey, Regions, Transport};
use saki_io::{Wait, Waker};
use saki_page::{PageLane, PageRead, PageStore, Refusal};

use super::frames::Frames;
use super::guest::Guest;
use crate::error::RemoteError;
use crate::wire::{self, Ask, Asks, Outcome, ToOwner, VERSION, Welcome};

/// How often frames are looked for that were lent for too long.
const EXPIRE_EVERY: Duration = Duration::from_millis(50);
/// How long the store is waited for before the fabric is looked at again, while something is under way at the store.
const SLICE: Duration = Duration::from_micros(50);

/// What an owner gives of itself.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Bytes of frames that pages are read into and lent from, of each thread.
    pub memory_bytes: usize,
    /// Pages that one reader may have asked for and not freed, at most; and never more than half of the frames.
    pub requests_most: u32,
    /// A reader that keeps a frame for longer is hung up on, so that others can have it.
    pub lease: Duration,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self { memory_bytes: 32 << 20, requests_most: 1024, lease: Duration::from_secs(5) }
    }
}

/// A read at the store.
struct Reading {
    guest: LinkId,
    ask: Ask,
}

/// Pages of a store, for whoever calls and knows the cluster's key. Used by one thread, which polls it;
/// [`PageServer`](crate::PageServer) is such threads.
pub struct PageService {
    store: Arc<dyn PageStore>,
    port: Port,
    lane: Box<dyn PageLane>,
    options: ServiceOptions,
    clock: Arc<dyn Clock>,
    regions: Arc<Regions>,
    region: RegionKey,
    frames: Frames,
    guests: BTreeMap<LinkId, Guest>,
    /// The guest whose turn was last.
    turn: Option<LinkId>,
    /// By the tokens of the lane.
    readings: Vec<Option<Reading>>,
    vacant: Vec<u32>,
    events: Vec<Event>,
    finished: Vec<PageRead>,
    expired_at: Duration,
    /// The last poll found something to do.
    busy: bool,
}

impl PageService {
    /// Opens a lane to `store`, and a port over `transport`.
    ///
    /// # Errors
    /// If there is no memory for frames, or the store opens no lane.
    pub fn new(
        store: &Arc<dyn PageStore>,
        transport: Box<dyn Transport>,
        mut port: PortOptions,
        options: ServiceOptions,
    ) -> Result<Self, RemoteError> {
        let page_bytes = store.page_size().bytes();
        let count = (options.memory_bytes / page_bytes).clamp(2, u32::MAX as usize) as u32;
        let (arena, frames) = Arena::shared(count, page_bytes)
            .map_err(|error| RemoteError::Memory { bytes: options.memory_bytes, reason: error.to_string() })?;
        let lane = store.open_lane(&arena).map_err(RemoteError::Store)?;
        let regions = Arc::clone(&port.regions);
        port.arena = Some(Arc::clone(&arena));
        Ok(Self {
            store: Arc::clone(store),
            clock: Arc::clone(&port.clock),
            port: Port::new(transport, port),
            lane,
            options,
            region: regions.lend(&arena),
            regions,
            frames: Frames::new(frames),
            guests: BTreeMap::new(),
            turn: None,
            readings: Vec::new(),
            vacant: Vec::new(),
            events: Vec::new(),
            finished: Vec::new(),
            expired_at: Duration::ZERO,
            busy: true,
        })
    }

    /// Takes calls at `address`, and gives the address that readers call; see [`Port::listen`].
    ///
    /// # Errors
    /// Of the fabric.
    pub fn listen(&mut self, address: &str) -> Result<String, RemoteError> {
        self.port.listen(address).map_err(RemoteError::Fabric)
    }

    /// Ends a wait of [`Self::poll`] from another thread, by and by.
    pub fn waker(&self) -> Arc<dyn Waker> {
        self.port.waker()
    }

    /// Readers at present.
    pub fn readers(&self) -> usize {
        self.guests.len()
    }

    /// Frames that readers have at present.
    pub fn frames_lent(&self) -> usize {
        self.frames.lent()
    }

    /// Hears readers, reads for them and answers. Waits for something to do, if the last poll found nothing.
    pub fn poll(&mut self, wait: Wait) {
        let (for_fabric, for_store) = match wait {
            Wait::AtMost(time) if !self.busy && self.lane.in_flight() == 0 => (Wait::AtMost(time), None),
            Wait::AtMost(time) if !self.busy => (Wait::No, Some(time.min(SLICE))),
            _ => (Wait::No, None),
        };
        let mut events = std::mem::take(&mut self.events);
        self.port.poll(for_fabric, &mut events);
        self.busy = !events.is_empty();
        events.drain(..).for_each(|event| self.take(event));
        self.events = events;
        self.start_reads();
        let for_store = if self.busy { None } else { for_store };
        let mut finished = std::mem::take(&mut self.finished);
        self.busy |= self.lane.poll(for_store, &mut finished) > 0;
        finished.drain(..).for_each(|read| self.finish(read));
        self.finished = finished;
        self.answer();
        self.expire();
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Up { link, peer: Peer { address, node, .. } } => {
                self.guests.insert(link, Guest::new(format!("node {node} at {address}")));
            }
            Event::Message { link, bytes } => self.hear(link, &bytes),
            Event::Completed(completion) => {
                // It takes no answers: what it has asked for is for nobody.
                if completion.result.is_err() {
                    self.port.close(completion.link);
                }
            }
            Event::Down { link, .. } => {
                self.guests.remove(&link);
                self.frames.free_all(link);
            }
        }
    }

    fn hear(&mut self, link: LinkId, message: &[u8]) {
        let heard = match ToOwner::decode(message) {
            Some(ToOwner::Enter { version }) => self.enter(link, version),
            Some(ToOwner::Ask(asks)) => self.asked(link, asks),
            None => false,
        };
        if !heard && let Some(guest) = self.guests.get(&link) {
            tracing::warn!("{} asks for pages as no reader does, and is hung up on", guest.name);
            self.port.close(link);
        }
    }

    fn enter(&mut self, link: LinkId, version: u32) -> bool {
        let page_bytes = self.store.page_size().bytes() as u32;
        let requests_most = self.requests_most();
        let Some(guest) = self.guests.get_mut(&link).filter(|guest| !guest.entered) else { return false };
        let message = if version == VERSION {
            guest.entered = true;
            Welcome { page_bytes, requests_most, region: self.region }.encode()
        } else {
            wire::encode_refused("another version of asking for pages: run the same release on both")
        };
        self.port.send(link, 0, message);
        true
    }

    fn requests_most(&self) -> u32 {
        self.options.requests_most.clamp(1, (self.frames.count() / 2) as u32)
    }

    fn asked(&mut self, link: LinkId, asks: Asks<'_>) -> bool {
        let most = self.requests_most() as usize;
        let Some(guest) = self.guests.get_mut(&link).filter(|guest| guest.entered) else { return false };
        for frame in asks.freed() {
            if !self.frames.free(frame, link) {
                return false;
            }
            guest.lent -= 1;
        }
        for ask in asks.asked() {
            if guest.requests() >= most {
                return false;
            }
            guest.waiting.push_back(ask);
        }
        true
    }

    /// Gives the store as much as it takes, guest by guest. Each may use an equal part of the frames, and one such part
    /// is for whoever comes next.
    fn start_reads(&mut self) {
        let part = (self.frames.count() / (self.guests.len() + 1)).max(1);
        let after = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.guests.range((after, Bound::Unbounded)).chain(&self.guests);
        let order: Vec<_> = next.take(self.guests.len()).map(|(link, _)| *link).collect();
        for link in order {
            let (started, goes_on) = self.start_reads_of(link, part);
            if started {
                self.turn = Some(link);
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Whether something was started, and whether there are frames left.
    fn start_reads_of(&mut self, link: LinkId, part: usize) -> (bool, bool) {
        let Some(guest) = self.guests.get_mut(&link) else { return (false, true) };
        let (mut started, mut passed_over) = (false, 0);
        while guest.frames() < part
            && let Some(&ask) = guest.waiting.get(passed_over)
        {
            let Some(frame) = self.frames.take() else { return (started, false) };
            if ask.from_home {
                self.store.distrust_copy(ask.address);
            }
            let token = self.vacant.pop().unwrap_or(self.readings.len() as u32);
            match self.lane.try_read(&guest.share, ask.address, frame, u64::from(token)) {
                Ok(()) => {
                    if token as usize == self.readings.len() {
                        self.readings.push(None);
                    }
                    self.readings[token as usize] = Some(Reading { guest: link, ask });
                    guest.waiting.remove(passed_over);
                    guest.reading += 1;
                    started = true;
                }
                Err((frame, refusal)) => {
                    self.frames.give_back(frame);
                    if (token as usize) < self.readings.len() {
                        self.vacant.push(token);
                    }
                    match refusal {
                        Refusal::Unmapped => {
                            guest.waiting.remove(passed_over);
                            guest.answers.push(ask.id, &Outcome::Unmapped);
                        }
                        // Another device may take one that comes after.
                        Refusal::Busy(_) => passed_over += 1,
                    }
                    if passed_over >= self.store.devices() || guest.answers.is_full() {
                        break;
                    }
                }
            }
        }
        (started, true)
    }

    /// A page has come from the store, or will not.
    fn finish(&mut self, read: PageRead) {
        let PageRead { token, memory, result, from_copy } = read;
        let reading = self.readings[token as usize].take();
        let Reading { guest: link, ask } = reading.expect("a read ends once");
        self.vacant.push(token as u32);
        let Some(guest) = self.guests.get_mut(&link) else { return self.frames.give_back(memory) };
        guest.reading -= 1;
        match result {
            Ok(()) => {
                let frame = self.frames.lend(memory, link, self.clock.now());
                guest.lent += 1;
                guest.answers.push(ask.id, &Outcome::Page { frame });
            }
            Err(error) => {
                self.frames.give_back(memory);
                if from_copy {
                    guest.waiting.push_front(Ask { from_home: true, ..ask });
                } else {
                    guest.answers.push(ask.id, &Outcome::Unreadable(&error.to_string()));
                }
            }
        }
        if guest.answers.is_full() {
            self.port.send(link, 0, guest.answers.take());
        }
    }

    fn answer(&mut self) {
        for (link, guest) in &mut self.guests {
            if !guest.answers.is_empty() {
                self.port.send(*link, 0, guest.answers.take());
                self.busy = true;
            }
        }
    }

    /// Hangs up on readers that keep frames.
    fn expire(&mut self) {
        let now = self.clock.now();
        if now < self.expired_at + EXPIRE_EVERY {
            return;
        }
        self.expired_at = now;
        let Some(time) = now.checked_sub(self.options.lease) else { return };
        let mut slow: Vec<_> = self.frames.kept_since(time).collect();
        slow.dedup();
        for link in slow {
            if let Some(guest) = self.guests.remove(&link) {
                let (name, lease) = (guest.name, self.options.lease.as_millis());
                tracing::warn!("{name} has kept frames for {lease} ms, and is hung up on");
                self.frames.free_all(link);
                self.port.close(link);
            }
        }
    }

    /// The store that is served, and where a page lies there.
    pub fn describe(&self, address: PageAddress) -> String {
        self.store.describe(address)
    }
}

impl Drop for PageService {
    /// Nobody reads what is not lent; and memory that the store still reads into stays its own.
    fn drop(&mut self) {
        self.regions.take_back(&self.region);
        let mut rest: Vec<PageRead> = Vec::new();
        while self.lane.in_flight() > 0 {
            self.lane.poll(Some(Duration::from_millis(10)), &mut rest);
        }
        let frames: Vec<ArenaFrame> = rest.into_iter().map(|read| read.memory).collect();
        drop(frames);
    }
}
