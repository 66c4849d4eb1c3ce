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
//! would wait behind all of it; so the bytes in flight are bounded too, on each device.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use saki_base::{AlignedBuffer, Buffer, CHUNK_BYTES, ChunkId, DeviceId, PageAddress, PageSize, checksum};
use saki_io::{Completion, Operation, OperationKind, Wait};
use saki_page::{BufferPool, IoShare, PageStore, PageWaker, Refusal, RunLane, RunRead, RunStore, StoreError};

use crate::device::admission::Gate;
use crate::device::gates::Gates;
use crate::device::{DeviceLanes, Members};
use crate::lane::{LaneWaker, failed_read, store_error};
use crate::map::{MapReader, Place, count_read};
use crate::space::Space;
use crate::volume::Volume;

/// Bytes in flight for each request that the governor allows: what a device transfers in about the time that it
/// takes to start a request.
const BYTES_PER_REQUEST: usize = 64 << 10;
/// Bytes in flight that are always allowed: a fast device with a small depth still wants a few large requests.
const BYTES_ALLOWED_MIN: usize = 4 << 20;
/// With nothing under way, nobody tells when the governor lets more in: it is asked again.
const RETRY: Duration = Duration::from_micros(50);

impl RunStore for Volume {
    fn page_size(&self) -> PageSize {
        Volume::page_size(self)
    }

    fn open_run_lane(&self) -> Result<Box<dyn RunLane>, StoreError> {
        Ok(Box::new(self.run_lane()?))
    }

    fn describe(&self, address: PageAddress) -> String {
        PageStore::describe(self, address)
    }
}

impl Volume {
    /// Opens a lane for runs of pages. It belongs to the thread that first polls it.
    pub fn run_lane(&self) -> Result<VolumeRunLane, StoreError> {
        let lanes = DeviceLanes::open(&self.members, None);
        Ok(VolumeRunLane {
            page_size: self.page_size(),
            members: Arc::clone(&self.members),
            space: Arc::clone(&self.space),
            lanes: lanes.map_err(|error| store_error(&self.device_name(), error))?,
            map: MapReader::new(&self.map),
            gates: Gates::new(&self.members),
            runs: Vec::new(),
            vacant: Vec::new(),
            waiting: VecDeque::new(),
            requests: Vec::new(),
            vacant_requests: Vec::new(),
            bytes_in_flight: Vec::new(),
            refused: false,
            buffers: BufferPool::new(),
            completions: Vec::new(),
        })
    }
}

/// One thread's private way to runs of pages.
pub struct VolumeRunLane {
    page_size: PageSize,
    members: Arc<Members>,
    space: Arc<Mutex<Space>>,
    /// Before `map`: no read is under way when its epoch is left.
    lanes: DeviceLanes,
    map: MapReader,
    gates: Gates,
    runs: Vec<Option<Run>>,
    vacant: Vec<usize>,
    /// Parts of runs begun that the governor has not let in yet.
    waiting: VecDeque<Part>,
    /// By operation token.
    requests: Vec<Option<Request>>,
    vacant_requests: Vec<usize>,
    /// By device number.
    bytes_in_flight: Vec<usize>,
    /// A run was refused since the last poll.
    refused: bool,
    buffers: Arc<BufferPool>,
    completions: Vec<Completion>,
}

/// A run on its way.
struct Run {
    token: u64,
    share: Arc<IoShare>,
    first: PageAddress,
    /// Bytes of the run, without what fills up its last page, and their checksum.
    bytes: usize,
    checksum: u64,
    parts_left: usize,
    /// What the parts are put together in; a run of one part is its request's buffer.
    whole: Option<AlignedBuffer>,
    failure: Option<StoreError>,
    from_copy: bool,
    epoch: u64,
}

impl Run {
    /// Whether some of it came from a copy that was not what it should be.
    fn is_deceived(&self) -> bool {
        let is_right = || self.whole.as_ref().is_some_and(|whole| checksum(&whole[..self.bytes]) == self.checksum);
        self.from_copy && (self.failure.is_some() || !is_right())
    }
}

/// Bytes of a run that lie side by side on a device.
#[derive(Clone, Copy)]
struct Part {
    run: usize,
    offset_in_run: usize,
    place: Place,
    offset: u64,
    bytes: usize,
}

impl Part {
    fn device(&self) -> DeviceId {
        self.place.location.device
    }
}

struct Request {
    part: Part,
    started: Instant,
}

impl RunLane for VolumeRunLane {
    fn try_read(
        &mut self,
        share: &Arc<IoShare>,
        first: PageAddress,
        bytes: usize,
        checksum: u64,
        token: u64,
    ) -> Result<(), Refusal> {
        self.admit_waiting();
        let epoch = self.map.enter();
        let device = match self.admit(share, first) {
            Ok(device) => device,
            Err(refusal) => {
                self.map.leave(epoch);
                self.refused |= refusal != Refusal::Unmapped;
                return Err(refusal);
            }
        };
        let run = self.vacant.pop().unwrap_or_else(|| {
            self.runs.push(None);
            self.runs.len() - 1
        });
        let Some(parts) = self.parts(run, first, bytes) else {
            self.vacant.push(run);
            self.map.leave(epoch);
            gate(&mut self.gates, device).release(share, Duration::ZERO, 0);
            return Err(Refusal::Unmapped);
        };
        assert!(self.runs[run].is_none(), "run {run} is vacant, and under way");
        self.runs[run] = Some(Run {
            token,
            share: Arc::clone(share),
            first,
            bytes,
            checksum,
            parts_left: parts.len(),
            whole: self.whole_of(&parts),
            failure: None,
            from_copy: parts.iter().any(|part| part.place.is_copy),
            epoch,
        });
        if parts[0].device() == device {
            self.submit(parts[0]);
            self.waiting.extend(&parts[1..]);
        } else {
            // It has moved just now.
            gate(&mut self.gates, device).release(share, Duration::ZERO, 0);
            self.waiting.extend(&parts);
        }
        self.admit_waiting();
        Ok(())
    }

    fn poll(&mut self, wait: Option<Duration>, finished: &mut Vec<RunRead>) {
        self.admit_waiting();
        let is_refused = std::mem::take(&mut self.refused) || !self.waiting.is_empty();
        let wait = if is_refused && self.lanes.in_flight() == 0 { wait.map(|wait| wait.min(RETRY)) } else { wait };
        let mut completions = std::mem::take(&mut self.completions);
        self.lanes.poll(wait.map_or(Wait::No, Wait::AtMost), &mut completions);
        for completion in completions.drain(..) {
            self.complete(completion, finished);
        }
        self.completions = completions;
    }

    fn device_of(&mut self, first: PageAddress) -> Option<DeviceId> {
        Some(self.map.locate(self.page_size.chunk_of(first))?.0.location.device)
    }

    fn buffers(&self) -> &Arc<BufferPool> {
        &self.buffers
    }

    fn in_flight(&self) -> usize {
        self.lanes.in_flight()
    }

    fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::new(LaneWaker(self.lanes.waker()))
    }
}

impl VolumeRunLane {
    /// Counts a request on the device of a run's first page, which is returned.
    fn admit(&mut self, share: &Arc<IoShare>, first: PageAddress) -> Result<DeviceId, Refusal> {
        let chunk = self.page_size.chunk_of(first);
        let device = self.map.locate(chunk).ok_or(Refusal::Unmapped)?.0.location.device;
        let in_flight = self.bytes_in_flight.get(usize::from(device.0)).copied().unwrap_or(0);
        if in_flight >= self.bytes_max(device) || !gate(&mut self.gates, device).try_acquire(share) {
            return Err(Refusal::Busy(device));
        }
        Ok(device)
    }

    /// Bytes that may be in flight at a device before another run is refused.
    pub fn bytes_max(&mut self, device: DeviceId) -> usize {
        (gate(&mut self.gates, device).depth() as usize * BYTES_PER_REQUEST).max(BYTES_ALLOWED_MIN)
    }

    /// What a run of several parts is put together in.
    fn whole_of(&self, parts: &[Part]) -> Option<AlignedBuffer> {
        (parts.len() > 1).then(|| self.buffers.take(parts.iter().map(|part| part.bytes).sum()))
    }

    /// Where the pages lie; `None` if some lie nowhere.
    fn parts(&mut self, run: usize, first: PageAddress, bytes: usize) -> Option<Vec<Part>> {
        let bytes = bytes.max(1).next_multiple_of(self.page_size.bytes());
        let mut parts: Vec<Part> = Vec::with_capacity(1);
        let mut done = 0;
        while done < bytes {
            let page = PageAddress(first.0 + (done / self.page_size.bytes()) as u64);
            let within = self.page_size.offset_in_chunk(page);
            let length = (CHUNK_BYTES - within).min(bytes - done);
            let (place, reads) = self.map.locate(self.page_size.chunk_of(page))?;
            count_read(reads, 1, length.div_ceil(self.page_size.bytes()) as u64);
            let offset = place.location.offset() + within as u64;
            let follows = |last: &Part| {
                last.device() == place.location.device
                    && last.offset + last.bytes as u64 == offset
                    && last.place.is_copy == place.is_copy
            };
            match parts.last_mut() {
                Some(last) if follows(last) => last.bytes += length,
                _ => parts.push(Part { run, offset_in_run: done, place, offset, bytes: length }),
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
            if gate(&mut self.gates, part.device()).try_acquire(&run.share) {
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
        let device = usize::from(part.device().0);
        if self.bytes_in_flight.len() <= device {
            self.bytes_in_flight.resize(device + 1, 0);
        }
        self.bytes_in_flight[device] += part.bytes;
        let buffer = Buffer::Aligned(self.buffers.take(part.bytes));
        let kind = OperationKind::Read;
        self.lanes
            .submit(part.device(), Operation { kind, token: token as u64, offset: part.offset, buffer: Some(buffer) });
    }

    fn complete(&mut self, completion: Completion, finished: &mut Vec<RunRead>) {
        let part = self.release(completion.token as usize);
        let run = self.runs[part.run].as_mut().expect("a run lives as long as its parts");
        let Some(Buffer::Aligned(buffer)) = completion.buffer else {
            unreachable!("a lane returns the buffer it was given");
        };
        assert_eq!(buffer.len(), part.bytes, "a part came in another's buffer");
        match (completion.result, &mut run.whole) {
            (Err(error), _) => run.failure = Some(failed_read(&self.members, part.place, error)),
            (Ok(()), Some(whole)) => {
                whole[part.offset_in_run..][..part.bytes].copy_from_slice(&buffer);
                self.buffers.give_back(buffer);
            }
            (Ok(()), None) => run.whole = Some(buffer),
        }
        assert!(run.parts_left > 0, "run {} has more parts than it was cut into", part.run);
        run.parts_left -= 1;
        if run.parts_left == 0 {
            let run = self.runs[part.run].take().expect("just seen");
            self.map.leave(run.epoch);
            let run = if run.is_deceived() { self.read_again(part.run, run) } else { Some(run) };
            let Some(run) = run else { return };
            self.vacant.push(part.run);
            let result = run.failure.map_or_else(|| Ok(run.whole.expect("every part has come")), Err);
            finished.push(RunRead { token: run.token, result });
        }
    }

    /// Has a run read from its homes whose copies were not what they should be. It is given back if it is gone.
    #[cold]
    fn read_again(&mut self, index: usize, mut run: Run) -> Option<Run> {
        let last = PageAddress(run.first.0 + (run.bytes.max(1) - 1) as u64 / self.page_size.bytes() as u64);
        let (first, last) = (self.page_size.chunk_of(run.first), self.page_size.chunk_of(last));
        (first.0..=last.0).for_each(|chunk| self.space.lock().distrust_copy(ChunkId(chunk)));
        run.epoch = self.map.enter();
        let Some(parts) = self.parts(index, run.first, run.bytes) else {
            self.map.leave(run.epoch);
            let gone = || store_error("volume", format!("{} is not mapped", run.first));
            run.failure.get_or_insert_with(gone);
            return Some(run);
        };
        run.failure = None;
        run.whole.take().into_iter().for_each(|buffer| self.buffers.give_back(buffer));
        run.whole = self.whole_of(&parts);
        run.parts_left = parts.len();
        run.from_copy = parts.iter().any(|part| part.place.is_copy);
        self.waiting.extend(&parts);
        self.runs[index] = Some(run);
        None
    }

    /// Ends the count of a request on device and share.
    fn release(&mut self, token: usize) -> Part {
        let Request { part, started } = self.requests[token].take().expect("a completion for each operation, once");
        self.vacant_requests.push(token);
        let in_flight = &mut self.bytes_in_flight[usize::from(part.device().0)];
        assert!(*in_flight >= part.bytes, "{} bytes came that were not asked for", part.bytes);
        *in_flight -= part.bytes;
        let run = self.runs[part.run].as_ref().expect("a run lives as long as its parts");
        gate(&mut self.gates, part.device()).release(&run.share, started.elapsed(), part.bytes as u64);
        part
    }
}

/// The gate of a device that some chunk lies on.
fn gate(gates: &mut Gates, device: DeviceId) -> &mut Gate {
    gates.of(device).expect("a device has nothing any more when it is removed")
}

impl Drop for VolumeRunLane {
    /// The device lane drains itself; what it read for counts no longer.
    fn drop(&mut self) {
        for token in 0..self.requests.len() {
            if self.requests[token].is_some() {
                self.release(token);
            }
        }
    }
}
