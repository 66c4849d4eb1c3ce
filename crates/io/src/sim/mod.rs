//! A device in memory, driven by a seed: the same operations give the same
//! completions, faults and crashes again.
//!
//! ```text
//!  submit ──► lane's schedule (due time, random order) ──► poll: carried out now, against the image
//!                                                            ▲
//!                                              Faults: errors, flips, torn, lost, late …
//!  crash() ──► a new device: flushed writes, and of the others what the seed spares
//!  left()  ──► a new device: all writes, of which those that were not flushed may be lost still
//! ```
//!
//! - An operation takes effect when its completion is due, not when it is
//!   submitted: a read in flight beside a write may see either content.
//! - A flush covers the writes whose completions had been *returned* when it
//!   was submitted, and nothing more: the least that a real device promises.
//! - Determinism holds for lanes polled by one thread. With several threads
//!   the faults are still those of the rates, in an order of the scheduler's.

mod faults;
mod image;
mod observed;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use saki_base::{Arena, Random};

use crate::device::{Completion, Device, DeviceError, Lane, Limits, Operation, OperationKind, Wait, Waker};
use crate::in_flight::{Inbox, Slab};
use faults::WriteFate;
pub use faults::{FaultRates, Faults};
pub use image::Survival;
use image::{GRANULE_BYTES, Image};
pub use observed::{ObservedDevice, Observer};
use saki_base::clock::{Clock, VirtualClock};

/// When a simulated operation is due.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SimTiming {
    /// At once: the next poll returns everything, in an order of the seed's choice.
    #[default]
    Immediate,
    /// In the order of submission, at once.
    InOrder,
    /// After a latency on a virtual clock, shared by all lanes, that only a waiting poll advances.
    Virtual(RangeInclusive<Duration>),
}

/// A simulated device's properties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimOptions {
    pub seed: u64,
    pub length_bytes: u64,
    /// How long `ensure_length` may make it; beyond is `Full`.
    pub length_bytes_max: u64,
    pub block_bytes: usize,
    pub timing: SimTiming,
}

impl Default for SimOptions {
    fn default() -> Self {
        let timing = SimTiming::default();
        Self { seed: 1, length_bytes: 64 << 20, length_bytes_max: 1 << 40, block_bytes: 512, timing }
    }
}

/// See the module's introduction.
pub struct SimDevice {
    name: String,
    options: SimOptions,
    length_bytes: AtomicU64,
    faults: Faults,
    clock: VirtualClock,
    store: Mutex<Store>,
    /// For lanes to hold their device by.
    this: std::sync::Weak<SimDevice>,
}

struct Store {
    image: Image,
    random: Random,
    /// Writes submitted but not carried out: a power loss may find them done.
    in_flight: BTreeMap<u64, (u64, Vec<u8>)>,
    operations: u64,
}

impl SimDevice {
    pub fn new(options: SimOptions) -> Arc<Self> {
        Self::with_image(options, Image::default())
    }

    fn with_image(options: SimOptions, image: Image) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            name: format!("sim:{}", options.seed),
            length_bytes: AtomicU64::new(options.length_bytes),
            faults: Faults::default(),
            clock: VirtualClock::default(),
            store: Mutex::new(Store {
                image,
                random: Random::new(options.seed),
                in_flight: BTreeMap::new(),
                operations: 0,
            }),
            options,
            this: this.clone(),
        })
    }

    /// What goes wrong from now on.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Virtual time, as the waits of polls have moved it.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// The device as it may be found after a power loss now: every flushed
    /// write, and of the others whatever `seed` spares, 4 KiB by 4 KiB. This device is left as it is.
    pub fn crash(&self, seed: u64) -> Arc<Self> {
        self.crash_with(seed, Survival::Any)
    }

    /// The same, where it is said which writes are found.
    pub fn crash_with(&self, seed: u64, survival: Survival) -> Arc<Self> {
        let store = self.store.lock();
        let mut random = Random::new(seed);
        let mut image = store.image.clone();
        for (offset, bytes) in store.in_flight.values() {
            image.write(*offset, bytes);
        }
        let found = image.after_power_loss(&mut random, survival, self.faults.rates().torn_at_power_loss);
        // The file's length is metadata that `ensure_length` made durable.
        let length_bytes = self.length_bytes.load(Ordering::Relaxed);
        Self::with_image(SimOptions { seed: random.next_u64(), length_bytes, ..self.options.clone() }, found)
    }

    /// The device as another program finds it after the one that used it was killed now: what was on its way is done or
    /// not, and what was not flushed is read, and not durable. This device is left as it is.
    pub fn left(&self, seed: u64) -> Arc<Self> {
        let store = self.store.lock();
        let mut random = Random::new(seed);
        let mut image = store.image.clone();
        for (offset, bytes) in store.in_flight.values() {
            if random.chance(0.5) {
                image.write(*offset, bytes);
            }
        }
        let length_bytes = self.length_bytes.load(Ordering::Relaxed);
        Self::with_image(SimOptions { seed: random.next_u64(), length_bytes, ..self.options.clone() }, image)
    }

    /// Inverts one bit of the stored bytes: rot, which every later read sees.
    pub fn flip_bit(&self, offset: u64, bit: u8) {
        self.store.lock().image.flip_bit(offset, bit);
    }

    /// Reads the stored bytes past all faults, for assertions.
    pub fn peek(&self, offset: u64, bytes: &mut [u8]) {
        self.store.lock().image.read(offset, bytes);
    }

    /// Carries out an operation whose time has come.
    fn perform(&self, pending: &mut Pending) -> Result<(), DeviceError> {
        let mut store = self.store.lock();
        let Store { image, random, in_flight, .. } = &mut *store;
        let operation = &mut pending.operation;
        let offset = operation.offset;
        match operation.kind {
            OperationKind::Flush => {
                if let Some(error) = self.faults.error(operation, &self.name, random) {
                    image.fail_flush(pending.flush_covers, random);
                    return Err(error);
                }
                image.flush(pending.flush_covers);
            }
            OperationKind::Read => {
                if let Some(error) = self.faults.error(operation, &self.name, random) {
                    return Err(error);
                }
                let flips = random.chance(self.faults.rates().bit_flips);
                let buffer = operation.buffer.as_deref_mut().unwrap_or_default();
                let done = pending.done_bytes;
                image.read(offset + done as u64, &mut buffer[done..]);
                if flips {
                    let bit = random.range(0..buffer.len() as u64 * 8);
                    buffer[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
            }
            OperationKind::Write => {
                in_flight.remove(&pending.number);
                let fate = self.faults.write_fate(operation, &self.name, random);
                let bytes = operation.buffer.as_deref().unwrap_or_default();
                match fate {
                    WriteFate::Whole => _ = image.write(offset, bytes),
                    WriteFate::Torn(written) => _ = image.write(offset, &bytes[..written]),
                    WriteFate::Misdirected => _ = image.write(offset ^ GRANULE_BYTES as u64, bytes),
                    WriteFate::Error(error, written) => {
                        image.write(offset, &bytes[..written]);
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// The first half of a transfer that is carried out in two.
    fn perform_half(&self, pending: &mut Pending) {
        let mut store = self.store.lock();
        let operation = &mut pending.operation;
        let blocks = operation.length_bytes() / self.options.block_bytes;
        let half = blocks / 2 * self.options.block_bytes;
        match (operation.kind, &mut operation.buffer) {
            (OperationKind::Read, Some(buffer)) => {
                store.image.read(operation.offset, &mut buffer[..half]);
                pending.done_bytes = half;
            }
            // The second step writes the first half again, which changes nothing.
            (OperationKind::Write, Some(buffer)) => _ = store.image.write(operation.offset, &buffer[..half]),
            _ => {}
        }
    }
}

impl Device for SimDevice {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn length_bytes(&self) -> Result<u64, DeviceError> {
        Ok(self.length_bytes.load(Ordering::Relaxed))
    }

    fn block_bytes(&self) -> usize {
        self.options.block_bytes
    }

    fn read_only(&self) -> bool {
        false
    }

    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        if bytes <= self.length_bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(error) = self.faults.refuses_growth(&self.name) {
            return Err(error);
        }
        if bytes > self.options.length_bytes_max {
            return Err(DeviceError::Full { device: self.name.clone() });
        }
        self.length_bytes.fetch_max(bytes.next_multiple_of(self.options.block_bytes as u64), Ordering::Relaxed);
        Ok(())
    }

    fn open_lane(&self, _arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        let device = self.this.upgrade().expect("the device is borrowed, so it is alive");
        Ok(Box::new(SimLane { device, pending: Slab::new(), schedule: BinaryHeap::new(), waker: Inbox::new() }))
    }
}

struct Pending {
    operation: Operation,
    /// Orders writes in flight; of the whole device.
    number: u64,
    /// For a flush: the last write returned before it was submitted.
    flush_covers: u64,
    /// Read by the first of two steps.
    done_bytes: usize,
    refused: Option<DeviceError>,
    /// Carried out in two steps, of which the first is to come.
    halved: bool,
}

struct SimLane {
    device: Arc<SimDevice>,
    pending: Slab<Pending>,
    /// Soonest first; the second number breaks ties by chance or by age.
    schedule: BinaryHeap<Reverse<(Duration, u64, u32)>>,
    /// Only for its waker: completions are made by the lane's own thread.
    waker: Arc<Inbox>,
}

impl SimLane {
    fn latency_and_rank(&self, random: &mut Random, number: u64) -> (Duration, u64) {
        let late = random.chance(self.device.faults.rates().late);
        match &self.device.options.timing {
            SimTiming::InOrder => (Duration::ZERO, number),
            SimTiming::Immediate => (Duration::ZERO, if late { u64::MAX } else { random.next_u64() }),
            SimTiming::Virtual(range) => {
                let (low, high) = (range.start().as_nanos() as u64, range.end().as_nanos() as u64);
                let latency = Duration::from_nanos(random.range(low..high.saturating_add(1)));
                (if late { latency * 100 } else { latency }, number)
            }
        }
    }

    /// Carries out all that is due.
    fn perform_due(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        if self.device.faults.holding() {
            return 0;
        }
        let now = self.device.clock.now();
        while let Some(Reverse((due, _, slot))) = self.schedule.peek().copied() {
            if due > now {
                break;
            }
            self.schedule.pop();
            let pending = self.pending.entry(slot);
            if pending.halved {
                pending.halved = false;
                self.device.perform_half(pending);
                let mut store = self.device.store.lock();
                let number = self.pending.entry(slot).number;
                let (latency, rank) = self.latency_and_rank(&mut store.random, number);
                self.schedule.push(Reverse((now + latency, rank, slot)));
                continue;
            }
            let result = match pending.refused.take() {
                Some(error) => Err(error),
                None => self.device.perform(pending),
            };
            completions.push(self.pending.remove(slot).operation.complete(result));
        }
        completions.len() - before
    }
}

impl Lane for SimLane {
    fn submit(&mut self, operation: Operation) {
        let device = Arc::clone(&self.device);
        let limits = Limits {
            device: &device.name,
            length_bytes: device.length_bytes.load(Ordering::Relaxed),
            block_bytes: device.options.block_bytes,
            read_only: false,
        };
        let refused = limits.check(&operation).err();
        let mut store = device.store.lock();
        store.operations += 1;
        let number = store.operations;
        if let (OperationKind::Write, Some(buffer), None) = (operation.kind, &operation.buffer, &refused) {
            store.in_flight.insert(number, (operation.offset, buffer.to_vec()));
        }
        let (latency, rank) = self.latency_and_rank(&mut store.random, number);
        let halved = refused.is_none()
            && operation.length_bytes() > device.options.block_bytes
            && store.random.chance(device.faults.rates().short);
        let flush_covers = store.image.written();
        let pending = Pending { operation, number, flush_covers, done_bytes: 0, refused, halved };
        let slot = self.pending.insert(pending);
        self.schedule.push(Reverse((device.clock.now() + latency, rank, slot)));
    }

    fn flush_submissions(&mut self) {}

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        let count = self.perform_due(completions);
        let Some(deadline) = wait.deadline(Instant::now()).filter(|_| count == 0) else { return count };
        let next = self.schedule.peek().map(|Reverse((due, ..))| *due).filter(|_| !self.device.faults.holding());
        let (Some(due), Wait::AtMost(limit)) = (next, wait) else {
            // Nothing will ever be due: only a waker can end this, so real time passes.
            return self.waker.take(Some(deadline), completions);
        };
        // Virtual time passes instead of real time.
        self.device.clock.advance_to(due.min(self.device.clock.now() + limit));
        self.perform_due(completions)
    }

    fn in_flight(&self) -> usize {
        self.pending.len()
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::clone(&self.waker) as Arc<dyn Waker>
    }
}

impl Drop for SimLane {
    /// Carries out what was accepted, however late it is and even while completions are held.
    fn drop(&mut self) {
        while let Some(Reverse((_, _, slot))) = self.schedule.pop() {
            let mut pending = self.pending.remove(slot);
            if pending.refused.is_none() {
                let _ = self.device.perform(&mut pending);
            }
        }
    }
}

#[cfg(test)]
mod tests;
