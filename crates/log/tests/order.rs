//! In what order a log writes and flushes, seen from the device: no frame before its extent's header is durable, and no
//! frame that says that more is durable than flushes have covered.

mod common;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::{open, options, payload, sim_devices};
use saki_base::Arena;
use saki_io::{Completion, Device, DeviceError, Lane, Operation, OperationKind, SimDevice, Wait, Waker};
use saki_log::Options;

/// Small, so that there are many.
const EXTENT_BYTES: u64 = 32 << 10;
const RECORDS: u64 = 3_000;

/// A write as the device sees it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Written {
    /// Of the extent in this slot.
    Header(u64),
    /// With the records of these timestamps.
    Frame(Vec<u64>),
    Zeros,
}

/// What has happened to the device.
#[derive(Default)]
struct Seen {
    in_flight: HashMap<u64, Written>,
    written: HashSet<Written>,
    /// What had been written when the flush in flight was submitted.
    covered: HashSet<Written>,
    durable: HashSet<Written>,
    frames: u64,
}

impl Seen {
    /// The timestamp through which all have a durable record.
    fn horizon(&self) -> u64 {
        let timestamps: HashSet<u64> = self
            .durable
            .iter()
            .flat_map(|written| if let Written::Frame(timestamps) = written { &timestamps[..] } else { &[] })
            .copied()
            .collect();
        (1..).find(|timestamp| !timestamps.contains(timestamp)).expect("there is an end") - 1
    }

    fn submitted(&mut self, operation: &Operation) {
        let Some(buffer) = &operation.buffer else {
            assert_eq!(operation.kind, OperationKind::Flush);
            self.covered = self.written.clone();
            return;
        };
        let number = |at: usize| u64::from_le_bytes(buffer[at..at + 8].try_into().unwrap());
        let short = |at: usize| u32::from_le_bytes(buffer[at..at + 4].try_into().unwrap()) as usize;
        let slot = operation.offset / EXTENT_BYTES;
        let written = if buffer[8..16] == *b"SAKI-LOG" {
            assert_eq!(operation.offset % EXTENT_BYTES, 0);
            // Whatever was known of the extent that was here before.
            self.durable.remove(&Written::Header(slot));
            self.written.remove(&Written::Header(slot));
            Written::Header(slot)
        } else if buffer[8..12] == *b"SKLF" {
            assert!(self.durable.contains(&Written::Header(slot)), "a frame before its extent's header is durable");
            let (proven, horizon) = (number(40), self.horizon());
            assert!(proven <= horizon, "a frame says that {proven} is durable, and all through {horizon} are");
            self.frames += 1;
            let (mut at, mut timestamps) = (64 + short(56), Vec::new());
            while at < 64 + short(12) {
                timestamps.push(number(at));
                at += 16 + short(at + 8);
            }
            Written::Frame(timestamps)
        } else {
            Written::Zeros
        };
        self.in_flight.insert(operation.token, written);
    }

    fn completed(&mut self, completion: &Completion) {
        match (self.in_flight.remove(&completion.token), &completion.result) {
            (Some(written), Ok(())) => _ = self.written.insert(written),
            (None, Ok(())) => self.durable.extend(self.covered.drain()),
            (_, Err(error)) => panic!("{error}"),
        }
    }
}

struct Watched {
    device: Arc<SimDevice>,
    seen: Arc<Mutex<Seen>>,
}

impl Device for Watched {
    fn name(&self) -> String {
        self.device.name()
    }

    fn length_bytes(&self) -> Result<u64, DeviceError> {
        self.device.length_bytes()
    }

    fn block_bytes(&self) -> usize {
        self.device.block_bytes()
    }

    fn read_only(&self) -> bool {
        false
    }

    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        self.device.ensure_length(bytes)
    }

    fn open_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        Ok(Box::new(WatchedLane { lane: self.device.open_lane(arena)?, seen: Arc::clone(&self.seen) }))
    }
}

struct WatchedLane {
    lane: Box<dyn Lane>,
    seen: Arc<Mutex<Seen>>,
}

impl Lane for WatchedLane {
    fn submit(&mut self, operation: Operation) {
        if operation.kind != OperationKind::Read {
            self.seen.lock().unwrap().submitted(&operation);
        }
        self.lane.submit(operation);
    }

    fn flush_submissions(&mut self) {
        self.lane.flush_submissions();
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        let count = self.lane.poll(wait, completions);
        let mut seen = self.seen.lock().unwrap();
        completions[before..].iter().for_each(|completion| seen.completed(completion));
        count
    }

    fn in_flight(&self) -> usize {
        self.lane.in_flight()
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.lane.waker()
    }
}

#[test]
fn flushes_come_before_what_builds_on_them() {
    let seen = Arc::<Mutex<Seen>>::default();
    let device = Watched { device: sim_devices(1, 41).remove(0), seen: Arc::clone(&seen) };
    let options = Options { extent_bytes: EXTENT_BYTES, write_bytes_max: 8 << 10, ..options() };
    let (logs, ..) = open(&[Arc::new(device) as Arc<dyn Device>], options).unwrap();
    let clock = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let reservation = logs.reserve(0, 300).unwrap();
                    let timestamp = clock.fetch_add(1, Ordering::Relaxed) + 1;
                    reservation.commit(timestamp, &payload(timestamp, 300));
                    if timestamp >= RECORDS {
                        return;
                    }
                    // Now and then, so that frames of all sizes are written while others are flushed.
                    if timestamp.is_multiple_of(7) {
                        logs.wait_durable(timestamp).unwrap();
                        let horizon = seen.lock().unwrap().horizon();
                        assert!(horizon >= timestamp, "{timestamp} is called durable, and all through {horizon} are");
                        logs.cut(timestamp.saturating_sub(500));
                    }
                }
            });
        }
    });
    logs.wait_durable(RECORDS).unwrap();
    logs.close().unwrap();
    let frames = seen.lock().unwrap().frames;
    assert!(frames > 50, "only {frames} frames: nothing was in flight beside anything");
}
