//! One measurement: so many connections, so much in flight, for so long.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use saki_base::bytes::checksum;
use saki_base::{AlignedBuffer, Arena, Buffer, Random};
use saki_fabric::{Completion, Event, LinkId, Port, RegionKey};
use saki_io::Wait;

use crate::world::{ECHO, KEY, PAGE, fill, open};

/// How a page is fetched, or what else is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Read from the region.
    Read,
    /// Asked for by a message, and given in one.
    Ask,
    /// A message of this many bytes comes back.
    Echo,
}

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub way: Way,
    pub connections: usize,
    /// In flight on each connection.
    pub depth: usize,
    pub bytes: usize,
    pub time: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Measured {
    pub per_second: f64,
    /// Latencies in microseconds.
    pub median: f64,
    pub p99: f64,
    pub operations: u64,
    /// Pages that were not what their checksum says.
    pub wrong: u64,
}

/// Of every so many operations, the latency is taken.
const SAMPLE_EVERY: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(60);

/// The requester: one port, some links, and what the region's pages should be.
pub struct Requester {
    port: Port,
    links: Vec<LinkId>,
    key: RegionKey,
    buffers: Vec<Buffer>,
    region_bytes: u64,
    /// Checksums of the region's pages, by their size.
    checksums: HashMap<usize, Vec<u64>>,
}

impl Requester {
    pub fn new(
        transport: &str,
        address: &str,
        connections: usize,
        frames: usize,
        frame_bytes: usize,
        region_bytes: u64,
    ) -> Result<Self, String> {
        let whole = frame_bytes.next_multiple_of(4096);
        let (arena, frames) = Arena::new(frames as u32, whole).map_err(|error| error.to_string())?;
        // A read fills its buffer: pages that are smaller than frames have buffers of their own.
        let small = |_| Buffer::Aligned(AlignedBuffer::new(frame_bytes));
        let frames = frames.into_iter().map(Buffer::Frame);
        let buffers = if whole == frame_bytes { frames.collect() } else { frames.map(small).collect() };
        let mut port = open(transport, 2, |options| options.arena = Some(arena))?;
        let links: Vec<_> = (0..connections).map(|_| port.connect(address)).collect();
        for link in &links {
            port.send(*link, 0, vec![KEY]);
        }
        let mut keys = Vec::new();
        let started = Instant::now();
        let mut events = Vec::new();
        while keys.len() < connections {
            if started.elapsed() > PATIENCE {
                return Err(format!("{address} does not answer"));
            }
            port.poll(Wait::AtMost(Duration::from_millis(10)), &mut events);
            for event in events.drain(..) {
                match event {
                    Event::Message { bytes, .. } => keys.extend(RegionKey::from_bytes(&bytes)),
                    Event::Down { error, again: false, .. } => return Err(error.to_string()),
                    _ => {}
                }
            }
        }
        Ok(Self { port, links, key: keys[0], buffers, region_bytes, checksums: HashMap::new() })
    }

    fn expected(&mut self, bytes: usize) -> &[u64] {
        let region_bytes = self.region_bytes;
        self.checksums.entry(bytes).or_insert_with(|| {
            let mut page = vec![0; bytes];
            let of = |offset: u64| {
                fill(&mut page, offset);
                checksum(&page)
            };
            (0..region_bytes).step_by(bytes).map(of).collect()
        })
    }

    pub fn measure(&mut self, case: &Case, random: &mut Random) -> Result<Measured, String> {
        self.expected(case.bytes);
        let mut run = Run {
            pages: self.region_bytes / case.bytes as u64,
            case: *case,
            wanted: HashMap::new(),
            samples: Vec::new(),
            order: vec![VecDeque::new(); self.links.len()],
            next: 0,
            done: 0,
            wrong: 0,
        };
        for index in 0..self.links.len() {
            for _ in 0..case.depth {
                run.submit(self, index, random);
            }
        }
        let started = Instant::now();
        let mut events = Vec::new();
        let (mut counted_from, mut counted) = (started, 0);
        let warm_up = case.time / 5;
        while started.elapsed() < case.time + warm_up {
            if counted == 0 && started.elapsed() >= warm_up {
                (counted_from, counted) = (Instant::now(), run.done + 1);
                run.samples.clear();
            }
            self.port.poll(Wait::AtMost(Duration::from_millis(10)), &mut events);
            for event in events.drain(..) {
                run.take(self, event, random)?;
            }
        }
        let seconds = counted_from.elapsed().as_secs_f64();
        let counted = (run.done + 1).saturating_sub(counted.max(1));
        run.drain(self)?;
        run.samples.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (run.samples.len() as f64 * share) as usize;
            run.samples.get(index.min(run.samples.len().saturating_sub(1))).copied().unwrap_or(0.0)
        };
        Ok(Measured {
            per_second: counted as f64 / seconds,
            median: at(0.5),
            p99: at(0.99),
            operations: run.done,
            wrong: run.wrong,
        })
    }
}

struct Run {
    pages: u64,
    case: Case,
    /// Pages of reads by their tokens, and when some of them were submitted.
    wanted: HashMap<u64, (usize, u64, Option<Instant>)>,
    samples: Vec<f64>,
    /// Of asked pages and echoes, which answer comes next on each link.
    order: Vec<VecDeque<(u64, Option<Instant>)>>,
    next: u64,
    done: u64,
    wrong: u64,
}

impl Run {
    fn submit(&mut self, requester: &mut Requester, index: usize, random: &mut Random) {
        self.next += 1;
        let at = self.next.is_multiple_of(SAMPLE_EVERY).then(Instant::now);
        let (link, page, bytes) = (requester.links[index], random.below(self.pages), self.case.bytes);
        match self.case.way {
            Way::Read => {
                self.wanted.insert(self.next, (index, page, at));
                let buffer = requester.buffers.pop().expect("there is a buffer for everything in flight");
                requester.port.read(link, self.next, &requester.key, page * bytes as u64, buffer);
            }
            Way::Ask => {
                let mut message = vec![PAGE];
                message.extend((page as u32).to_le_bytes());
                message.extend((bytes as u32).to_le_bytes());
                self.order[index].push_back((page, at));
                requester.port.send(link, self.next, message);
            }
            Way::Echo => {
                self.order[index].push_back((0, at));
                requester.port.send(link, self.next, vec![ECHO; bytes]);
            }
        }
    }

    fn take(&mut self, requester: &mut Requester, event: Event, random: &mut Random) -> Result<(), String> {
        if let Some(index) = self.ended(requester, event)? {
            self.submit(requester, index, random);
        }
        Ok(())
    }

    /// The link of an operation that has ended.
    fn ended(&mut self, requester: &mut Requester, event: Event) -> Result<Option<usize>, String> {
        let (index, page, at, sum) = match event {
            Event::Completed(Completion { token, buffer: Some(buffer), result, .. }) => {
                result.map_err(|error| error.to_string())?;
                let (index, page, at) = self.wanted.remove(&token).ok_or("a read ended twice")?;
                let sum = checksum(&buffer);
                requester.buffers.push(buffer);
                (index, page, at, Some(sum))
            }
            Event::Completed(Completion { result, .. }) => {
                result.map_err(|error| error.to_string())?;
                return Ok(None);
            }
            Event::Message { link, bytes } => {
                let index = requester.links.iter().position(|found| *found == link).ok_or("a message of nobody")?;
                let (page, at) = self.order[index].pop_front().ok_or("an answer to nothing")?;
                (index, page, at, (self.case.way == Way::Ask).then(|| checksum(&bytes)))
            }
            Event::Down { error, .. } => return Err(error.to_string()),
            Event::Up { .. } => return Ok(None),
        };
        if let Some(sum) = sum {
            self.wrong += u64::from(requester.checksums[&self.case.bytes][page as usize] != sum);
        }
        self.samples.extend(at.map(|at| at.elapsed().as_secs_f64() * 1e6));
        self.done += 1;
        Ok(Some(index))
    }

    /// Until nothing is in flight.
    fn drain(&mut self, requester: &mut Requester) -> Result<(), String> {
        let started = Instant::now();
        let mut events = Vec::new();
        while !self.wanted.is_empty() || self.order.iter().any(|order| !order.is_empty()) {
            if started.elapsed() > PATIENCE {
                return Err("what was in flight does not end".into());
            }
            requester.port.poll(Wait::AtMost(Duration::from_millis(10)), &mut events);
            for event in events.drain(..) {
                self.ended(requester, event)?;
            }
        }
        Ok(())
    }
}
