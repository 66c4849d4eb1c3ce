//! What every [`Device`] promises, as functions that its tests call.
//!
//! A device under test is at least [`DEVICE_BYTES`] long, writable, and its
//! content is the suite's to overwrite. Each function panics with what was
//! broken. Devices that inject faults pass with faults switched off.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use saki_base::{AlignedBuffer, Arena, Buffer};

use crate::device::{Completion, Device, DeviceError, Lane, Operation, Wait};

/// Length of the device that the suite wants.
pub const DEVICE_BYTES: u64 = 16 << 20;

/// No operation of the suite may take longer: a lost completion fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// All of the contract.
pub fn run_all(device: &dyn Device) {
    assert!(device.length_bytes().unwrap() >= DEVICE_BYTES, "{} is too short for the suite", device.name());
    round_trips(device.open_lane(None).unwrap(), DEVICE_BYTES);
    sizes_mix(device);
    arena_frames_round_trip(device);
    thousands_in_flight_complete_exactly_once(device);
    beyond_the_end_is_out_of_range(device);
    malformed_operations_are_refused(device);
    a_flush_completes_among_others(device);
    a_wake_ends_a_wait(device);
    an_earlier_wake_is_kept(device);
    no_wake_is_lost(device);
    a_wait_without_operations_ends_in_time(device);
    dropping_a_lane_carries_out_its_writes(device);
    two_lanes_work_at_once(device);
}

/// What is written is read, and buffers come back with their own tokens.
pub fn round_trips(mut lane: Box<dyn Lane>, device_bytes: u64) {
    const BYTES: usize = 4096;
    let count = (device_bytes / BYTES as u64).min(64);
    for token in 0..count {
        lane.submit(Operation::write(token, token * BYTES as u64, filled(BYTES, token)));
    }
    succeed(&drain(&mut *lane), count as usize);
    for token in 0..count {
        lane.submit(Operation::read(token, token * BYTES as u64, filled(BYTES, u64::MAX)));
    }
    for completion in succeed(&drain(&mut *lane), count as usize) {
        expect_filled(completion.buffer.as_ref().unwrap(), completion.token);
    }
}

/// 512 bytes to 1 MiB, side by side.
pub fn sizes_mix(device: &dyn Device) {
    let mut lane = device.open_lane(None).unwrap();
    let sizes = [512, 1024, 4096, 8192, 16 << 10, 48 << 10, 128 << 10, 1 << 20];
    let sizes = sizes.into_iter().filter(|size| size % device.block_bytes() == 0);
    let mut offset = 0;
    let mut written = Vec::new();
    for (token, size) in (0_u64..).zip(sizes) {
        lane.submit(Operation::write(token, offset, filled(size, token)));
        written.push((token, offset, size));
        offset += size as u64;
    }
    succeed(&drain(&mut *lane), written.len());
    for &(token, offset, size) in &written {
        lane.submit(Operation::read(token, offset, filled(size, u64::MAX)));
    }
    for completion in succeed(&drain(&mut *lane), written.len()) {
        let buffer = completion.buffer.as_ref().unwrap();
        assert_eq!(buffer.len(), written[completion.token as usize].2, "a buffer came back with another's token");
        expect_filled(buffer, completion.token);
    }
}

/// Frames of a registered arena carry data, and come back as the frames they were.
pub fn arena_frames_round_trip(device: &dyn Device) {
    const BYTES: usize = 8192;
    let (arena, frames) = Arena::new(32, BYTES).unwrap();
    let mut lane = device.open_lane(Some(&arena)).unwrap();
    for mut frame in frames {
        let token = u64::from(frame.index());
        frame.copy_from_slice(&filled(BYTES, token));
        lane.submit(Operation::write(token, token * BYTES as u64, Buffer::Frame(frame)));
    }
    for completion in drain(&mut *lane) {
        completion.result.unwrap();
        let Some(Buffer::Frame(frame)) = completion.buffer else { panic!("a frame came back as something else") };
        assert_eq!(u64::from(frame.index()), completion.token);
        let other = 31 - completion.token;
        lane.submit(Operation::read(other, other * BYTES as u64, Buffer::Frame(frame)));
    }
    for completion in succeed(&drain(&mut *lane), 32) {
        expect_filled(completion.buffer.as_ref().unwrap(), completion.token);
    }
}

/// More than any ring or pool holds at once; each ends once.
pub fn thousands_in_flight_complete_exactly_once(device: &dyn Device) {
    const COUNT: u64 = 5000;
    let mut lane = device.open_lane(None).unwrap();
    let blocks = DEVICE_BYTES / 4096;
    for token in 0..COUNT {
        lane.submit(Operation::read(token, (token * 7919 % blocks) * 4096, filled(4096, 0)));
        if token % 1000 == 0 {
            lane.flush_submissions();
        }
    }
    assert_eq!(lane.in_flight(), COUNT as usize);
    succeed(&drain(&mut *lane), COUNT as usize);
}

/// At and across the end, and at the end of all numbers.
pub fn beyond_the_end_is_out_of_range(device: &dyn Device) {
    let mut lane = device.open_lane(None).unwrap();
    let end = device.length_bytes().unwrap();
    let last = u64::MAX - u64::MAX % 4096;
    lane.submit(Operation::read(0, end, filled(4096, 0)));
    lane.submit(Operation::read(1, end - 4096, filled(8192, 0)));
    lane.submit(Operation::write(2, end, filled(4096, 0)));
    lane.submit(Operation::read(3, last, filled(8192, 0)));
    let completions = drain(&mut *lane);
    assert_eq!(completions.len(), 4);
    for completion in completions {
        assert!(completion.buffer.is_some(), "a failed operation kept its buffer");
        let result = completion.result;
        assert!(matches!(result, Err(DeviceError::OutOfRange { .. })), "beyond the end: {result:?}");
    }
    assert_eq!(device.length_bytes().unwrap(), end, "a refused write made the device longer");
}

/// Offsets between blocks and absent buffers are errors, not panics.
pub fn malformed_operations_are_refused(device: &dyn Device) {
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::read(0, 100, filled(4096, 0)));
    let mut empty_handed = Operation::read(1, 0, filled(4096, 0));
    empty_handed.buffer = None;
    lane.submit(empty_handed);
    for completion in drain(&mut *lane) {
        assert!(matches!(completion.result, Err(DeviceError::Failed { .. })), "{:?}", completion.result);
    }
}

/// A flush carries no buffer and does not wait for reads that follow.
pub fn a_flush_completes_among_others(device: &dyn Device) {
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::write(0, 0, filled(4096, 1)));
    succeed(&drain(&mut *lane), 1);
    lane.submit(Operation::flush(1));
    lane.submit(Operation::read(2, 0, filled(4096, 0)));
    let completions = drain(&mut *lane);
    for completion in succeed(&completions, 2) {
        assert_eq!(completion.buffer.is_some(), completion.token == 2);
    }
}

/// Another thread's wake ends a wait that has nothing to wait for.
pub fn a_wake_ends_a_wait(device: &dyn Device) {
    let mut lane = device.open_lane(None).unwrap();
    // Twice: the first wake must not use up the means of the second.
    for _ in 0..2 {
        let waker = lane.waker();
        let started = Instant::now();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            waker.wake();
        });
        let mut completions = Vec::new();
        assert_eq!(lane.poll(Wait::AtMost(PATIENCE), &mut completions), 0);
        let waited = started.elapsed();
        assert!(waited >= Duration::from_millis(25), "poll returned after {waited:?}, before the wake");
        assert!(waited < PATIENCE / 2, "the wake was not heard");
        thread.join().unwrap();
    }
}

/// A wake before the wait is not lost, nor used up by a poll that does not wait.
pub fn an_earlier_wake_is_kept(device: &dyn Device) {
    let mut lane = device.open_lane(None).unwrap();
    let mut completions = Vec::new();
    lane.waker().wake();
    lane.poll(Wait::No, &mut completions);
    let started = Instant::now();
    lane.poll(Wait::AtMost(PATIENCE), &mut completions);
    assert!(started.elapsed() < PATIENCE / 2, "a wake before the wait was lost");
    let started = Instant::now();
    lane.poll(Wait::AtMost(Duration::from_millis(20)), &mut completions);
    assert!(started.elapsed() >= Duration::from_millis(15), "one wake ended two waits");
}

/// Messages announced by wakes all arrive, however the wakes fall between polls.
pub fn no_wake_is_lost(device: &dyn Device) {
    const MESSAGES: usize = 2000;
    let mut lane = device.open_lane(None).unwrap();
    let waker = lane.waker();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        for message in 0..MESSAGES {
            sender.send(message).unwrap();
            waker.wake();
            if message % 16 == 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    });
    let (mut received, mut token) = (0, 0);
    let mut completions = Vec::new();
    while received < MESSAGES {
        received += receiver.try_iter().count();
        if received < MESSAGES {
            // Completions beside the wakes must not swallow them.
            token += 1;
            if token % 8 == 0 {
                lane.submit(Operation::read(token, 0, filled(4096, 0)));
            }
            while lane.in_flight() > 8 {
                lane.poll(Wait::AtMost(PATIENCE), &mut completions);
            }
            if receiver.try_iter().inspect(|_| received += 1).count() == 0 && received < MESSAGES {
                let started = Instant::now();
                lane.poll(Wait::AtMost(PATIENCE), &mut completions);
                assert!(started.elapsed() < PATIENCE / 2, "a wake was lost after {received} messages");
            }
            completions.clear();
        }
    }
    thread.join().unwrap();
}

/// The bound of a wait holds, and an idle lane sleeps.
pub fn a_wait_without_operations_ends_in_time(device: &dyn Device) {
    let mut lane = device.open_lane(None).unwrap();
    let started = Instant::now();
    assert_eq!(lane.poll(Wait::AtMost(Duration::from_millis(20)), &mut Vec::new()), 0);
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(15) && waited < Duration::from_secs(10), "20 ms took {waited:?}");
}

/// Nothing accepted is forgotten, and no buffer is freed under the device.
pub fn dropping_a_lane_carries_out_its_writes(device: &dyn Device) {
    let mut lane = device.open_lane(None).unwrap();
    for token in 0..200 {
        lane.submit(Operation::write(token, token * 16_384, filled(16_384, token + 77)));
        if token == 100 {
            lane.flush_submissions();
        }
    }
    drop(lane);
    let mut lane = device.open_lane(None).unwrap();
    for token in 0..200 {
        lane.submit(Operation::read(token, token * 16_384, filled(16_384, 0)));
    }
    for completion in succeed(&drain(&mut *lane), 200) {
        expect_filled(completion.buffer.as_ref().unwrap(), completion.token + 77);
    }
}

/// Two threads, each with its lane and its half of the device.
pub fn two_lanes_work_at_once(device: &dyn Device) {
    std::thread::scope(|scope| {
        for half in 0..2_u64 {
            let mut lane = device.open_lane(None).unwrap();
            scope.spawn(move || {
                let start = half * (DEVICE_BYTES / 2);
                for round in 0..5 {
                    for token in 0..100 {
                        let buffer = filled(4096, half * 1000 + token + round);
                        lane.submit(Operation::write(token, start + token * 4096, buffer));
                    }
                    succeed(&drain(&mut *lane), 100);
                    for token in 0..100 {
                        lane.submit(Operation::read(token, start + token * 4096, filled(4096, 0)));
                    }
                    for completion in succeed(&drain(&mut *lane), 100) {
                        let expected = half * 1000 + completion.token + round;
                        expect_filled(completion.buffer.as_ref().unwrap(), expected);
                    }
                }
            });
        }
    });
}

/// Polls until nothing is in flight, and checks that every token came once.
pub fn drain(lane: &mut dyn Lane) -> Vec<Completion> {
    let expected = lane.in_flight();
    let deadline = Instant::now() + PATIENCE;
    let mut completions = Vec::new();
    while lane.in_flight() > 0 {
        assert!(Instant::now() < deadline, "{} of {expected} operations never completed", lane.in_flight());
        let before = completions.len();
        let count = lane.poll(Wait::AtMost(Duration::from_millis(100)), &mut completions);
        assert_eq!(completions.len() - before, count, "poll miscounted");
    }
    assert_eq!(completions.len(), expected, "operations and completions differ in number");
    let mut seen = HashMap::new();
    for completion in &completions {
        *seen.entry(completion.token).or_insert(0) += 1;
    }
    assert!(seen.values().all(|count| *count == 1), "an operation completed twice");
    completions
}

fn succeed(completions: &[Completion], expected: usize) -> &[Completion] {
    assert_eq!(completions.len(), expected);
    for completion in completions {
        assert!(completion.result.is_ok(), "operation {}: {:?}", completion.token, completion.result);
    }
    completions
}

/// A buffer of a pattern that differs with `seed` and in every eight bytes.
pub fn filled(length: usize, seed: u64) -> Buffer {
    let mut buffer = AlignedBuffer::new(length);
    for (index, word) in (0_u64..).zip(buffer.chunks_exact_mut(8)) {
        word.copy_from_slice(&pattern(seed, index).to_le_bytes());
    }
    Buffer::Aligned(buffer)
}

/// Panics unless `bytes` is the pattern of `seed`.
pub fn expect_filled(bytes: &[u8], seed: u64) {
    for (index, word) in (0_u64..).zip(bytes.chunks_exact(8)) {
        assert_eq!(word, pattern(seed, index).to_le_bytes(), "wrong data, {} bytes in, seed {seed}", index * 8);
    }
}

fn pattern(seed: u64, index: u64) -> u64 {
    (seed.wrapping_add(1)).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index
}

/// A file of zeroes for a test, removed afterwards.
pub struct ScratchFile {
    path: PathBuf,
}

impl ScratchFile {
    pub fn new(bytes: u64) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("saki-io-{}-{number}", std::process::id()));
        std::fs::File::create(&path).and_then(|file| file.set_len(bytes)).expect("scratch file");
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
