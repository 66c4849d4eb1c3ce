//! A device that answers with another's data at a modelled time.
//!
//! For benchmarks and tests: the inner device does the real reads and writes;
//! a completion is held back until the [`Model`] says it is due. The model's
//! state is shared by all lanes, as a disk is. An inner device slower than the
//! model shows through.
//!
//! ```text
//!  submit ──► model: due time ──► inner lane ──► done early: held ──► poll returns it when due
//! ```

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

impl Lane for ModeledLane {
    fn submit(&mut self, mut operation: Operation) {
        let now = self.shared.start.elapsed();
        let due = {
            let mut model = self.shared.model.lock();
            match operation.kind {
                OperationKind::Flush => model.flushes_at(now),
                _ => model.completes_at(now, operation.offset, operation.length_bytes() as u64),
            }
        };
        let request = Request { token: operation.token, due: self.shared.start + due, completion: None };
        operation.token = u64::from(self.requests.insert(request));
        self.inner.submit(operation);
    }

    fn flush_submissions(&mut self) {
        self.inner.flush_submissions();
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
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
        self.requests.len()
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::clone(&self.waker) as Arc<dyn Waker>
    }
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
    fn the_name_tells_the_model() {
        assert!(over_memory("cloud-volume", 4096).name().starts_with("modeled:cloud-volume(sim"));
    }
}
