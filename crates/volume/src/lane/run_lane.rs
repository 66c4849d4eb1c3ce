//! Runs of pages, for scans: one thread's way from a first page and a length to one buffer.
//!
//! ```text
//!   run:      pages 120 … 310 of the address space, 1.5 MiB
//!   chunks    │ 0 ···│ 1           │ 2 ···│
//!   slots       [7]    [8]           [4]          neighbours stay together, the others are read apart
//!   requests   └── one, 1.06 MiB ──┘ └ one ┘ ──► one buffer
//! ```
//!
//! The governor counts a request of a megabyte as one of a page: its depth is the number of requests that keep the
//! device busy, whatever their size. In bytes that would be far more than keeps it busy, and readers of pages
//! would wait behind all of it; so the bytes in flight are bounded too ([`RunLane::bytes_max`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{AlignedBuffer, Buffer, CHUNK_BYTES, PageAddress, PageSize};
use saki_io::{Completion, Lane, Operation, OperationKind, Wait};
use saki_page::{IoShare, PageWaker, Refusal, StoreError};

use crate::admission::Gate;
use crate::lane::BufferPool;
use crate::lane::{LaneWaker, store_error};
use crate::map::MapReader;
use crate::volume::Volume;

/// Bytes in flight for each request that the governor allows: what a device transfers in about the time that it
/// takes to start a request.
const BYTES_PER_REQUEST: usize = 64 << 10;
/// Bytes in flight that are always allowed: a fast device with a small depth still wants a few large requests.
const BYTES_ALLOWED_MIN: usize = 4 << 20;
/// With nothing under way, nobody tells when the governor lets more in: it is asked again.
const RETRY: Duration = Duration::from_micros(50);

impl Volume {
    /// Opens a lane for runs of pages. It belongs to the thread that first polls it.
    pub fn open_run_lane(&self) -> Result<RunLane, StoreError> {
        let device = self.device.name();
        let lane = self.device.open_lane(None).map_err(|error| store_error(&device, error))?;
        Ok(RunLane {
            page_size: self.page_size(),
            device,
            lane,
            map: MapReader::new(&self.map),
            gate: Gate::new(&self.admission),
            runs: Vec::new(),
            vacant: Vec::new(),
            waiting: VecDeque::new(),
            requests: Vec::new(),
            vacant_requests: Vec::new(),
            bytes_in_flight: 0,
            refused: false,
            buffers: BufferPool::new(),
            completions: Vec::new(),
        })
    }
}

/// A run that has been read, or not.
pub struct RunRead {
    pub token: u64,
    /// The pages, whole.
    pub result: Result<AlignedBuffer, StoreError>,
}

/// One thread's private way to runs of pages.
pub struct RunLane {
    page_size: PageSize,
    device: String,
    lane: Box<dyn Lane>,
    map: MapReader,
    gate: Gate,
    runs: Vec<Option<Run>>,
    vacant: Vec<usize>,
    /// Parts of runs begun that the governor has not let in yet.
    waiting: VecDeque<Part>,
    /// By operation token.
    requests: Vec<Option<Request>>,
    vacant_requests: Vec<usize>,
    bytes_in_flight: usize,
    /// A run was refused since the last poll.
    refused: bool,
    buffers: Arc<BufferPool>,
    completions: Vec<Completion>,
}

/// A run on its way.
struct Run {
    token: u64,
    share: Arc<IoShare>,
    parts_left: usize,
    /// What the parts are put together in; a run of one part is its request's buffer.
    whole: Option<AlignedBuffer>,
    failure: Option<StoreError>,
}

/// Bytes of a run that lie side by side on the device.
#[derive(Clone, Copy)]
struct Part {
    run: usize,
    offset_in_run: usize,
    offset: u64,
    bytes: usize,
}

struct Request {
    part: Part,
    started: Instant,
}

impl RunLane {
    /// Starts reading the pages that hold `bytes` bytes from page `first` on. `Busy`: the governor allows no further
    /// request now; it is allowed again after some completion. `share` says on whose behalf.
    pub fn try_read(
        &mut self,
        share: &Arc<IoShare>,
        first: PageAddress,
        bytes: usize,
        token: u64,
    ) -> Result<(), Refusal> {
        self.admit_waiting();
        if self.bytes_in_flight >= self.bytes_max() || !self.gate.try_acquire(share) {
            self.refused = true;
            return Err(Refusal::Busy);
        }
        let run = self.vacant.pop().unwrap_or_else(|| {
            self.runs.push(None);
            self.runs.len() - 1
        });
        let parts = self.parts(run, first, bytes.max(1).next_multiple_of(self.page_size.bytes()));
        let Some(parts) = parts else {
            self.vacant.push(run);
            self.gate.release(share, Duration::ZERO, 0);
            return Err(Refusal::Unmapped);
        };
        let whole = parts.iter().map(|part| part.bytes).sum();
        assert!(self.runs[run].is_none(), "run {run} is vacant, and under way");
        self.runs[run] = Some(Run {
            token,
            share: Arc::clone(share),
            parts_left: parts.len(),
            whole: (parts.len() > 1).then(|| self.buffers.take(whole)),
            failure: None,
        });
        self.submit(parts[0]);
        self.waiting.extend(&parts[1..]);
        self.admit_waiting();
        Ok(())
    }

    /// Bytes that may be in flight before another run is refused.
    pub fn bytes_max(&self) -> usize {
        (self.gate.depth() as usize * BYTES_PER_REQUEST).max(BYTES_ALLOWED_MIN)
    }

    /// Where the pages lie; `None` if some lie nowhere.
    fn parts(&mut self, run: usize, first: PageAddress, bytes: usize) -> Option<Vec<Part>> {
        let mut parts: Vec<Part> = Vec::with_capacity(1);
        let mut done = 0;
        while done < bytes {
            let page = PageAddress(first.0 + (done / self.page_size.bytes()) as u64);
            let within = self.page_size.offset_in_chunk(page);
            let length = (CHUNK_BYTES - within).min(bytes - done);
            let offset = self.map.locate_for_read(self.page_size.chunk_of(page))?.offset() + within as u64;
            match parts.last_mut() {
                Some(last) if last.offset + last.bytes as u64 == offset => last.bytes += length,
                _ => parts.push(Part { run, offset_in_run: done, offset, bytes: length }),
            }
            done += length;
        }
        Some(parts)
    }

    /// Submits what waits, as far as its shares are let in.
    fn admit_waiting(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some(part) = self.waiting.pop_front() else { return };
            let run = self.runs[part.run].as_ref().expect("a run lives as long as its parts");
            if self.gate.try_acquire(&run.share) {
                self.submit(part);
            } else {
                self.waiting.push_back(part);
            }
        }
    }

    fn submit(&mut self, part: Part) {
        let request = Some(Request { part, started: Instant::now() });
        let token = match self.vacant_requests.pop() {
            Some(token) => {
                self.requests[token] = request;
                token
            }
            None => {
                self.requests.push(request);
                self.requests.len() - 1
            }
        };
        self.bytes_in_flight += part.bytes;
        let buffer = Buffer::Aligned(self.buffers.take(part.bytes));
        let kind = OperationKind::Read;
        self.lane.submit(Operation { kind, token: token as u64, offset: part.offset, buffer: Some(buffer) });
    }

    /// Hands queued reads to the device and appends finished runs; waits at most `wait` (`None`: not at all) for the
    /// first request to end, or until woken; and not for long if what was refused may be let in by then.
    pub fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<RunRead>) {
        self.admit_waiting();
        let is_refused = std::mem::take(&mut self.refused) || !self.waiting.is_empty();
        let wait = if is_refused && self.lane.in_flight() == 0 { wait.map(|wait| wait.min(RETRY)) } else { wait };
        let mut completions = std::mem::take(&mut self.completions);
        self.lane.poll(wait.map_or(Wait::No, Wait::AtMost), &mut completions);
        for completion in completions.drain(..) {
            self.complete(completion, finished);
        }
        self.completions = completions;
    }

    fn complete(&mut self, completion: Completion, finished: &mut Vec<RunRead>) {
        let part = self.release(completion.token as usize);
        let run = self.runs[part.run].as_mut().expect("a run lives as long as its parts");
        let Some(Buffer::Aligned(buffer)) = completion.buffer else {
            unreachable!("a lane returns the buffer it was given");
        };
        assert_eq!(buffer.len(), part.bytes, "a part came in another's buffer");
        match (completion.result, &mut run.whole) {
            (Err(error), _) => run.failure = Some(store_error(&self.device, error)),
            (Ok(()), Some(whole)) => {
                whole[part.offset_in_run..][..part.bytes].copy_from_slice(&buffer);
                self.buffers.give_back(buffer);
            }
            (Ok(()), None) => run.whole = Some(buffer),
        }
        assert!(run.parts_left > 0, "run {} has more parts than it was cut into", part.run);
        run.parts_left -= 1;
        if run.parts_left == 0 {
            self.vacant.push(part.run);
            let run = self.runs[part.run].take().expect("just seen");
            let result = run.failure.map_or_else(|| Ok(run.whole.expect("every part has come")), Err);
            finished.push(RunRead { token: run.token, result });
        }
    }

    /// Ends the count of a request on device and share.
    fn release(&mut self, token: usize) -> Part {
        let Request { part, started } = self.requests[token].take().expect("a completion for each operation, once");
        self.vacant_requests.push(token);
        assert!(self.bytes_in_flight >= part.bytes, "{} bytes came that were not asked for", part.bytes);
        self.bytes_in_flight -= part.bytes;
        let run = self.runs[part.run].as_ref().expect("a run lives as long as its parts");
        self.gate.release(&run.share, started.elapsed(), part.bytes as u64);
        part
    }

    /// Where buffers are taken from. Whoever has done with one may give it back.
    pub fn buffers(&self) -> &Arc<BufferPool> {
        &self.buffers
    }

    /// Requests at the device.
    pub fn in_flight(&self) -> usize {
        self.lane.in_flight()
    }

    pub fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::new(LaneWaker(self.lane.waker()))
    }
}

impl Drop for RunLane {
    /// The device lane drains itself; what it read for counts no longer.
    fn drop(&mut self) {
        for token in 0..self.requests.len() {
            if self.requests[token].is_some() {
                self.release(token);
            }
        }
    }
}
