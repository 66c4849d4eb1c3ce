//! A device that answers with another's data at a modelled time.
//!
//! For benchmarks and tests: the inner device does the real reads and writes;
//! a completion is held back until the [`Model`] says it is due. The model's
//! state is shared by all lanes, as a disk is. An inner device slower than the
//! model shows through.
//!
//! ```text
//!  submit ──► together: neighbours merged ──► model: due time ──► inner lane ──► done early: held ──► poll returns it
//!                                                                                                      when due
//! ```
//!
//! Reads that are handed over together go in the order of their addresses, and neighbours among them are one request of
//! up to [`MERGED_BYTES_MAX`], as the kernel's block layer makes them one for a disk, and network block storage counts
//! them as one.

mod model;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use saki_base::Arena;

use crate::device::{Completion, Device, DeviceError, Lane, Operation, OperationKind, Wait, Waker};
use crate::in_flight::Slab;

pub use model::{Model, ModelError, ModelOptions};

/// A sleep may end this much late, so the rest of a wait is spent looking at the clock.
const SPIN: Duration = Duration::from_micros(60);

/// Neighbouring reads are merged up to so many bytes: what Amazon's general-purpose volumes count as one operation
/// (User Guide of EBS, "I/O characteristics"); the kernel merges up to a disk's `max_sectors_kb`, mostly more.
pub const MERGED_BYTES_MAX: usize = 256 << 10;

/// See the module's introduction.
pub struct ModeledDevice {
    inner: Arc<dyn Device>,
    shared: Arc<Shared>,
}

struct Shared {
    model: Mutex<Model>,
    /// Time zero of the model.
    start: Instant,
}

impl ModeledDevice {
    pub fn new(inner: Arc<dyn Device>, options: ModelOptions) -> Arc<Self> {
        // The seed only shapes the latencies' sequence; runs are comparable because it is fixed.
        let shared = Shared { model: Mutex::new(Model::new(options, 1)), start: Instant::now() };
        Arc::new(Self { inner, shared: Arc::new(shared) })
    }
}

impl Device for ModeledDevice {
    fn name(&self) -> String {
        format!("modeled:{}({})", self.shared.model.lock().options(), self.inner.name())
    }

    fn length_bytes(&self) -> Result<u64, DeviceError> {
        self.inner.length_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.inner.block_bytes()
    }

    fn read_only(&self) -> bool {
        self.inner.read_only()
    }

    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        self.inner.ensure_length(bytes)
    }

    fn open_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        let inner = self.inner.open_lane(arena)?;
        let waker = Arc::new(ModeledWaker { woken: AtomicBool::new(false), inner: inner.waker() });
        Ok(Box::new(ModeledLane {
            inner,
            shared: Arc::clone(&self.shared),
            pending: Vec::new(),
            requests: Slab::new(),
            held: BinaryHeap::new(),
            arrived: Vec::new(),
            waker,
        }))
    }
}

/// A request between its submission and its modelled end.
struct Request {
    token: u64,
    due: Instant,
    /// Set once the inner device is done.
    completion: Option<Completion>,
}

struct ModeledLane {
    inner: Box<dyn Lane>,
    shared: Arc<Shared>,
    /// Submitted, and not handed over yet.
    pending: Vec<Operation>,
    requests: Slab<Request>,
    /// Done, but not due: soonest first.
    held: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Scratch for the inner lane's completions.
    arrived: Vec<Completion>,
    waker: Arc<ModeledWaker>,
}

struct ModeledWaker {
    /// Kept here too: the inner poll uses its wake up even when it also
    /// brings completions that are not due, and the wait must still end.
    woken: AtomicBool,
    inner: Arc<dyn Waker>,
}

impl Waker for ModeledWaker {
    fn wake(&self) {
        // Release: pairs with the Acquire of the poll that takes it.
        self.woken.store(true, Ordering::Release);
        self.inner.wake();
    }
}

impl ModeledLane {
    /// Hands over what was submitted: to the model, and to the inner lane.
    fn hand_over(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        // All else keeps its place before the reads; nobody submits a read of what is being written.
        pending.sort_by_key(|operation| (operation.kind == OperationKind::Read).then_some(operation.offset));
        let now = self.shared.start.elapsed();
        let shared = Arc::clone(&self.shared);
        let mut model = shared.model.lock();
        let mut rest = &pending[..];
        let mut dues = Vec::with_capacity(rest.len());
        while let [first, ..] = rest {
            let count = merged(rest);
            let bytes: usize = rest[..count].iter().map(Operation::length_bytes).sum();
            let due = match first.kind {
                OperationKind::Flush => model.flushes_at(now),
                _ => model.completes_at(now, first.offset, bytes as u64),
            };
            dues.extend(std::iter::repeat_n(shared.start + due, count));
            rest = &rest[count..];
        }
        drop(model);
        for (mut operation, due) in pending.drain(..).zip(dues) {
            let request = Request { token: operation.token, due, completion: None };
            operation.token = u64::from(self.requests.insert(request));
            self.inner.submit(operation);
        }
        self.pending = pending;
    }

    fn poll_inner(&mut self, wait: Wait) {
        self.inner.poll(wait, &mut self.arrived);
        for mut completion in self.arrived.drain(..) {
            let slot = completion.token as u32;
            let request = self.requests.entry(slot);
            completion.token = request.token;
            request.completion = Some(completion);
            self.held.push(Reverse((request.due, slot)));
        }
    }

    fn release_due(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        let now = Instant::now();
        while let Some(Reverse((due, slot))) = self.held.peek().copied() {
            if due > now {
                break;
            }
            self.held.pop();
            completions.extend(self.requests.remove(slot).completion);
        }
        completions.len() - before
    }
}

impl Drop for ModeledLane {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl Lane for ModeledLane {
    fn submit(&mut self, operation: Operation) {
        self.pending.push(operation);
    }

    fn flush_submissions(&mut self) {
        self.hand_over();
        self.inner.flush_submissions();
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        self.hand_over();
        self.poll_inner(Wait::No);
        let mut count = self.release_due(completions);
        let Some(deadline) = wait.deadline(Instant::now()) else { return count };
        // Acquire: the caller goes on to look for what the waker left.
        while count == 0 && !self.waker.woken.swap(false, Ordering::Acquire) {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            let due = self.held.peek().map(|Reverse((due, _))| *due);
            let sleep_until = due.map_or(deadline, |due| deadline.min(due.checked_sub(SPIN).unwrap_or(now)));
            let wait = match sleep_until.saturating_duration_since(now) {
                Duration::ZERO => Wait::No,
                sleep => Wait::AtMost(sleep),
            };
            if wait == Wait::No {
                std::hint::spin_loop();
            }
            self.poll_inner(wait);
            count = self.release_due(completions);
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.pending.len() + self.requests.len()
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::clone(&self.waker) as Arc<dyn Waker>
    }
}

/// How many of the operations are one request, from the first on.
fn merged(operations: &[Operation]) -> usize {
    let [first, rest @ ..] = operations else { return 0 };
    let mut bytes = first.length_bytes();
    let follows = |operation: &&Operation| {
        let is_next = (first.kind, operation.kind) == (OperationKind::Read, OperationKind::Read)
            && operation.offset == first.offset + bytes as u64;
        bytes += operation.length_bytes();
        is_next && bytes <= MERGED_BYTES_MAX
    };
    1 + rest.iter().take_while(follows).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, ScratchFile};
    use crate::{Backend, DeviceOptions, SimDevice, SimOptions, open_device};

    fn over_memory(model: &str, bytes: u64) -> Arc<ModeledDevice> {
        let inner = SimDevice::new(SimOptions { length_bytes: bytes, ..SimOptions::default() });
        ModeledDevice::new(inner, model.parse().unwrap())
    }

    #[test]
    fn passes_the_contract() {
        contract::run_all(&*over_memory("latency=200us..2ms,iops=200000", contract::DEVICE_BYTES));
        let scratch = ScratchFile::new(contract::DEVICE_BYTES);
        let options = DeviceOptions { backend: Backend::Auto, ..DeviceOptions::default() };
        let inner = open_device(scratch.path(), options).unwrap();
        contract::run_all(&*ModeledDevice::new(inner, "latency=100us,servers=4".parse().unwrap()));
    }

    #[test]
    fn completions_come_when_due_and_not_before() {
        let device = over_memory("latency=3ms", 1 << 20);
        let mut lane = device.open_lane(None).unwrap();
        let started = Instant::now();
        for token in 0..100 {
            lane.submit(Operation::read(token, token * 4096, contract::filled(4096, 0)));
        }
        contract::drain(&mut *lane);
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(3) && took < Duration::from_millis(300), "{took:?}");
    }

    #[test]
    fn lanes_share_one_disk() {
        let device = over_memory("latency=2ms,servers=1", 1 << 20);
        let started = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let mut lane = device.open_lane(None).unwrap();
                scope.spawn(move || {
                    for token in 0..10 {
                        lane.submit(Operation::read(token, token * 8192, contract::filled(4096, 0)));
                    }
                    contract::drain(&mut *lane);
                });
            }
        });
        assert!(started.elapsed() >= Duration::from_millis(40), "two lanes got two disks");
    }

    #[test]
    fn neighbours_handed_over_together_are_one_request() {
        let device = over_memory("latency=1ms,iops=1000", 4 << 20);
        let took = |offsets: &[u64]| {
            let mut lane = device.open_lane(None).unwrap();
            let started = Instant::now();
            for (token, offset) in offsets.iter().enumerate() {
                lane.submit(Operation::read(token as u64, *offset, contract::filled(4096, 0)));
            }
            assert_eq!(lane.in_flight(), offsets.len());
            contract::drain(&mut *lane);
            started.elapsed()
        };
        let pages: Vec<u64> = (0..128).map(|page| page * 4096).collect();
        let backwards: Vec<u64> = pages.iter().rev().copied().collect();
        // 512 KiB are two requests; pages that are apart are as many as they are.
        assert!(took(&pages) < Duration::from_millis(60));
        assert!(took(&backwards) < Duration::from_millis(60));
        let apart: Vec<u64> = pages.iter().map(|offset| offset * 2).collect();
        assert!(took(&apart) >= Duration::from_millis(127));
    }

    #[test]
    fn the_name_tells_the_model() {
        assert!(over_memory("cloud-volume", 4096).name().starts_with("modeled:cloud-volume(sim"));
    }
}
