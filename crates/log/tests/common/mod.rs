//! What the stories share.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saki_base::{AlignedBuffer, Buffer};
use saki_io::{Device, Operation, SimDevice, SimOptions, Wait};
use saki_log::{LogError, Logs, Options, Range, RecoveryReport};

/// Records by timestamp.
pub type Found = BTreeMap<u64, Vec<u8>>;

pub fn options() -> Options {
    Options {
        extent_bytes: 128 << 10,
        buffer_bytes: 256 << 10,
        write_bytes_max: 32 << 10,
        window: 4096,
        ..Options::new(0x5a5a)
    }
}

pub fn sim_devices(count: u64, seed: u64) -> Vec<Arc<SimDevice>> {
    let options = |log| SimOptions { seed: seed * 100 + log, length_bytes: 0, ..SimOptions::default() };
    (0..count).map(|log| SimDevice::new(options(log))).collect()
}

pub fn memory_devices(count: u64, seed: u64) -> Vec<Arc<dyn Device>> {
    as_devices(&sim_devices(count, seed))
}

pub fn as_devices(devices: &[Arc<SimDevice>]) -> Vec<Arc<dyn Device>> {
    devices.iter().map(|device| Arc::clone(device) as Arc<dyn Device>).collect()
}

/// Logs with records through `last` in turn, closed.
pub fn filled_logs(count: u64, seed: u64, last: u64) -> (Vec<Arc<SimDevice>>, Found) {
    let devices = sim_devices(count, seed);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    let mut expected = Found::new();
    for timestamp in 1..=last {
        let bytes = payload(timestamp, 200 + timestamp as usize * 37 % 3_000);
        logs.reserve((timestamp % count) as usize, bytes.len()).unwrap().commit(timestamp, &bytes);
        expected.insert(timestamp, bytes);
        if timestamp % 10 == 0 {
            logs.wait_durable(timestamp).unwrap();
        }
    }
    logs.close().unwrap();
    (devices, expected)
}

/// Opens the logs and gathers what was applied; each record once.
pub fn open(devices: &[Arc<dyn Device>], options: Options) -> Result<(Logs, RecoveryReport, Found), LogError> {
    open_range(devices, options, Range::default())
}

pub fn open_range(
    devices: &[Arc<dyn Device>],
    options: Options,
    range: Range,
) -> Result<(Logs, RecoveryReport, Found), LogError> {
    let found = Mutex::new(Found::new());
    let apply = |_log: usize, timestamp: u64, payload: &[u8]| {
        let twice = found.lock().unwrap().insert(timestamp, payload.to_vec());
        assert!(twice.is_none(), "timestamp {timestamp} was applied twice");
        Ok::<_, Infallible>(())
    };
    let (logs, report) = Logs::recover(devices.to_vec(), options, range, &|_| {}, &apply)?;
    Ok((logs, report, found.into_inner().unwrap()))
}

/// Runs a test that would wait for ever if it fails: it fails then.
pub fn within(limit: Duration, test: impl FnOnce() + Send + 'static) {
    let (ends, ended) = channel();
    let running = std::thread::spawn(move || {
        test();
        ends.send(()).expect("it is waited for");
    });
    match ended.recv_timeout(limit) {
        Ok(()) => {}
        // Its thread is left to itself.
        Err(RecvTimeoutError::Timeout) => panic!("still waiting after {limit:?}"),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(running.join().expect_err("it has ended early"))
        }
    }
}

/// Commits records to log 0 without a break between them: while its device holds the first one's write, only what
/// fills a frame is taken. So the first has a frame of its own, and all others but the last fill theirs.
pub fn commit_without_break(logs: &Logs, device: &SimDevice, records: &[(u64, &[u8])]) {
    let reserved: Vec<_> = records.iter().map(|(_, payload)| logs.reserve(0, payload.len()).unwrap()).collect();
    device.faults().hold(true);
    for (position, (reservation, (timestamp, payload))) in reserved.into_iter().zip(records).enumerate() {
        let before = logs.statistics()[0].writes;
        reservation.commit(*timestamp, payload);
        while position == 0 && logs.statistics()[0].writes == before {
            std::thread::yield_now();
        }
    }
    device.faults().hold(false);
    // Wakes whoever waited for it.
    logs.cut(0);
}

/// The bytes that belong to a timestamp.
pub fn payload(timestamp: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    saki_base::Random::new(timestamp).fill(&mut bytes);
    bytes
}

/// The seeds to try: so many, as many as `SAKI_SEEDS` says, or the one of `SAKI_SEED`.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("SAKI_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SAKI_SEEDS").unwrap_or(count),
    }
}

/// Writes past all logs.
pub fn write(device: &SimDevice, offset: u64, bytes: &[u8]) {
    let mut buffer = AlignedBuffer::new(bytes.len());
    buffer.copy_from_slice(bytes);
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::write(0, offset, Buffer::Aligned(buffer)));
    lane.submit(Operation::flush(1));
    let mut completions = Vec::new();
    while completions.len() < 2 {
        lane.poll(Wait::No, &mut completions);
    }
}

/// All bytes of a device.
pub fn content(device: &SimDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.length_bytes().unwrap() as usize];
    device.peek(0, &mut bytes);
    bytes
}
