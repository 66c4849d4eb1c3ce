//! What the stories share.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use saki_io::{Device, SimDevice, SimOptions};
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
