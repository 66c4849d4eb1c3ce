//! One thread's way to other nodes, polled as a lane of a device is.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use saki_base::Buffer;
use saki_io::{Wait, Waker};

use crate::error::FabricError;
use crate::event::{Completion, Event, LinkId};
use crate::link::{Link, Scene};
use crate::options::PortOptions;
use crate::region::{RegionKey, Regions};
use crate::stream::Stream;
use crate::transport::{LISTENER, Transport, WAKER};
use crate::wire::{Goodbye, Kind};

/// How often what is overdue is looked for.
const TICK: Duration = Duration::from_millis(10);
/// How often wires are looked at while links have a direct way: what is urgent comes over that.
const WIRES_EVERY: Duration = Duration::from_micros(50);
/// A wait that is not bounded otherwise.
const SLEEP_MOST: Duration = Duration::from_millis(100);

/// Links to other nodes over one transport, used by one thread; it may be moved to another.
///
/// Operations are submitted with tokens and complete as [events](Event) of [`Port::poll`], each exactly once, in any
/// order. Buffers are the port's meanwhile. It has to be polled at least once a heartbeat: it serves what peers read,
/// where the transport cannot do without, and peers think a node dead that gives no sign of life.
pub struct Port {
    // Dropped first: its links' devices may be writing into their buffers until then.
    links: Vec<Link>,
    transport: Box<dyn Transport>,
    options: PortOptions,
    incarnation: u64,
    next_link: u64,
    ready: Vec<Event>,
    now: Duration,
    ticked_at: Duration,
    wires_at: Duration,
    names: Vec<u64>,
}

impl Port {
    pub fn new(transport: Box<dyn Transport>, options: PortOptions) -> Self {
        let mut incarnation = [0; 8];
        options.entropy.fill(&mut incarnation);
        let now = options.clock.now();
        Self {
            links: Vec::new(),
            transport,
            incarnation: u64::from_le_bytes(incarnation),
            next_link: 1,
            ready: Vec::new(),
            now,
            ticked_at: now,
            wires_at: now,
            names: Vec::new(),
            options,
        }
    }

    /// What it goes over: `tcp`, `shm`, `verbs` or `sim`.
    pub fn transport(&self) -> &'static str {
        self.transport.name()
    }

    /// What this node lends.
    pub fn regions(&self) -> &Arc<Regions> {
        &self.options.regions
    }

    /// Takes calls at `address`, and gives the address that peers call. Of TCP and verbs it is `host:port`, where
    /// port 0 is any free one; of shared memory, a path.
    pub fn listen(&mut self, address: &str) -> Result<String, FabricError> {
        self.transport.listen(address)
    }

    /// Calls a peer, and again whenever the connection is lost, until [`Port::close`] or a refusal that will not pass.
    pub fn connect(&mut self, address: &str) -> LinkId {
        let id = self.new_id();
        self.links.push(Link::calling(id, address, self.now));
        self.with(id, Link::tick);
        id
    }

    /// Ends a link; its operations complete with an error.
    pub fn close(&mut self, link: LinkId) {
        self.with(link, |link, scene| link.fail(FabricError::Closed { peer: link.peer.clone() }, scene));
    }

    /// Sends a message.
    pub fn send(&mut self, link: LinkId, token: u64, message: Vec<u8>) {
        match self.find(link) {
            Some((link, mut scene)) => link.send(token, message, &mut scene),
            None => self.gone(link, token, None),
        }
    }

    /// Reads from `offset` of a region that the peer lends until the buffer is full.
    pub fn read(&mut self, link: LinkId, token: u64, key: &RegionKey, offset: u64, buffer: Buffer) {
        match self.find(link) {
            Some((link, mut scene)) => link.read(token, key, offset, buffer, &mut scene),
            None => self.gone(link, token, Some(buffer)),
        }
    }

    fn gone(&mut self, link: LinkId, token: u64, buffer: Option<Buffer>) {
        let result = Err(Box::new(FabricError::Closed { peer: format!("(link {})", link.0) }));
        self.ready.push(Event::Completed(Completion { link, token, buffer, result }));
    }

    /// Operations accepted whose completion was not given out yet.
    pub fn in_flight(&self) -> usize {
        let ready = self.ready.iter().filter(|event| matches!(event, Event::Completed(_))).count();
        ready + self.links.iter().map(Link::operations).sum::<usize>()
    }

    /// Ends a wait of `poll` from another thread; like that of a lane.
    pub fn waker(&self) -> Arc<dyn Waker> {
        self.transport.waker()
    }

    /// Becomes readable when there may be something to poll, once [`Port::before_sleep`] has said so: for a thread that
    /// waits for other things as well. `None` of a simulated port.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.transport.descriptor()
    }

    /// Has peers knock from now on. For how long the thread may sleep on [`Port::descriptor`], at most; zero if there
    /// is something to poll.
    pub fn before_sleep(&mut self) -> Duration {
        if !self.ready.is_empty() || !self.links.iter_mut().all(Link::before_sleep) {
            return Duration::ZERO;
        }
        let heartbeat = self.options.heartbeat;
        let ticks = self.links.iter().map(|link| link.next_tick(self.now, heartbeat));
        let next = ticks.min().map_or(SLEEP_MOST, |at| at.saturating_sub(self.now).max(Duration::from_millis(1)));
        let direct = self.links.iter().any(|link| link.direct.is_some());
        let most = if direct { self.transport.sleep_most() } else { SLEEP_MOST };
        next.min(most)
    }

    /// Hands on what was submitted, serves peers, and appends what happened; returns how much. Waits for the first of
    /// it, or for the waker.
    pub fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> usize {
        self.now = self.options.clock.now();
        self.step_all();
        let direct = self.links.iter().any(|link| link.direct.is_some());
        if !direct || self.now >= self.wires_at + WIRES_EVERY {
            self.wires_at = self.now;
            self.look(Duration::ZERO);
        }
        self.tick();
        if let Wait::AtMost(time) = wait {
            let until = self.now.saturating_add(time);
            while self.ready.is_empty() {
                let sleep = self.before_sleep().min(until.saturating_sub(self.now));
                let woken = self.look(sleep);
                self.now = self.options.clock.now();
                self.step_all();
                self.tick();
                if woken || self.now >= until {
                    break;
                }
            }
        }
        self.links.retain(|link| !link.is_ended());
        let count = self.ready.len();
        events.append(&mut self.ready);
        count
    }

    /// Looks at wires, and sleeps before the first has something; `true` if woken.
    fn look(&mut self, sleep: Duration) -> bool {
        let mut names = std::mem::take(&mut self.names);
        self.transport.wait(sleep, &mut names);
        if !sleep.is_zero() {
            self.now = self.options.clock.now();
        }
        let mut woken = false;
        for name in names.drain(..) {
            match name {
                WAKER => woken = true,
                LISTENER => self.accept(),
                name => self.with(LinkId(name), |link, scene| {
                    link.hear(scene);
                    link.step(scene);
                }),
            }
        }
        self.names = names;
        woken
    }

    fn accept(&mut self) {
        while let Some(wire) = self.transport.accept() {
            let id = self.new_id();
            if self.links.len() >= self.options.links_most {
                let mut stream = Stream::new(wire, "(caller)");
                stream.put(Kind::Goodbye, 0, &Goodbye::Full.encode());
                let _ = stream.flush();
                continue;
            }
            let (links, mut scene) = self.split();
            match Link::called(id, wire, &mut scene) {
                Ok(link) => links.push(link),
                Err(error) => tracing::warn!("a caller is turned away: {error}"),
            }
        }
    }

    /// Makes a called link one that is up without a handshake, to see what it makes of what comes then.
    pub(crate) fn assume_up(&mut self, link: LinkId) {
        self.with(link, |link, _| link.assume_up());
    }

    fn step_all(&mut self) {
        let (links, mut scene) = self.split();
        links.iter_mut().for_each(|link| link.step(&mut scene));
    }

    fn tick(&mut self) {
        if self.now >= self.ticked_at + TICK {
            self.ticked_at = self.now;
            let (links, mut scene) = self.split();
            links.iter_mut().for_each(|link| link.tick(&mut scene));
        }
    }

    fn new_id(&mut self) -> LinkId {
        self.next_link += 1;
        LinkId(self.next_link - 1)
    }

    fn split(&mut self) -> (&mut Vec<Link>, Scene<'_>) {
        let Self { links, transport, options, incarnation, ready, now, .. } = self;
        let (now, incarnation) = (*now, *incarnation);
        (links, Scene { now, events: ready, transport: &mut **transport, options, incarnation })
    }

    fn find(&mut self, id: LinkId) -> Option<(&mut Link, Scene<'_>)> {
        let (links, scene) = self.split();
        // New ones come last, and none changes its place.
        let index = links.binary_search_by_key(&id, |link| link.id).ok()?;
        Some((&mut links[index], scene)).filter(|(link, _)| !link.is_ended())
    }

    fn with(&mut self, id: LinkId, work: impl FnOnce(&mut Link, &mut Scene<'_>)) {
        if let Some((link, mut scene)) = self.find(id) {
            work(link, &mut scene);
        }
    }
}
