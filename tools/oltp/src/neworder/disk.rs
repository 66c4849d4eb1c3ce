//! What the disk itself gives to one who writes as a log does: the bound to hold logs against.

use std::path::Path;
use std::time::{Duration, Instant};

use saki_base::{AlignedBuffer, Buffer, Random};
use saki_io::{Completion, DeviceError, DeviceOptions, Lane, Operation, Wait, open_device};
use saki_report::{Common, Report};
use serde_json::json;

const WRITE_BYTES: usize = 1 << 20;
const DEPTH: usize = 4;

/// Figures of a disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskLimit {
    /// Sequential writes that bypass the system's cache, a mebibyte each, four at once.
    pub bytes_per_second: f64,
    /// One block written and flushed: what a lone commit waits for, in the median.
    pub flush_ms: f64,
}

impl DiskLimit {
    /// Measures it in the directory for benchmarks, and reports it.
    ///
    /// # Errors
    /// The device's.
    pub fn measure(common: &Common, report: &mut Report) -> Result<Self, String> {
        std::fs::create_dir_all(&common.data).map_err(|error| format!("{}: {error}", common.data.display()))?;
        let path = common.data.join(format!("saki-oltp-disk-{}", std::process::id()));
        let (bytes, seconds) = if common.small { (8 << 20, 0.05) } else { (1 << 30, 2.0) };
        let limit = measure(&path, bytes, Duration::from_secs_f64(seconds), common.seed);
        // What is not there need not be removed.
        let _ = std::fs::remove_file(&path);
        let (limit, name) = limit.map_err(|error| error.to_string())?;
        report.row(json!({
            "what": "disk", "device": name, "write_mb_per_s": limit.bytes_per_second / 1e6, "flush_ms": limit.flush_ms,
        }));
        report.summarise("disk_write_mb_per_s", limit.bytes_per_second / 1e6);
        report.summarise("disk_flush_ms", limit.flush_ms);
        Ok(limit)
    }
}

fn measure(path: &Path, bytes: u64, duration: Duration, seed: u64) -> Result<(DiskLimit, String), DeviceError> {
    let device = open_device(path, DeviceOptions { create: true, ..DeviceOptions::default() })?;
    device.ensure_length(bytes)?;
    let mut lane = device.open_lane(None)?;
    let mut random = Random::new(seed);
    let mut buffer = |length: usize| {
        let mut buffer = AlignedBuffer::new(length);
        random.fill(&mut buffer);
        Buffer::Aligned(buffer)
    };
    let buffers = (0..DEPTH).map(|_| buffer(WRITE_BYTES)).collect();
    let bytes_per_second = sequential(&mut *lane, buffers, bytes, duration)?;
    let flush_ms = flushes(&mut *lane, buffer(device.block_bytes().max(4096)), bytes, duration)?;
    Ok((DiskLimit { bytes_per_second, flush_ms }, device.name()))
}

/// Writes from the start to the end, round and round, until the time is over.
fn sequential(lane: &mut dyn Lane, buffers: Vec<Buffer>, bytes: u64, duration: Duration) -> Result<f64, DeviceError> {
    let started = Instant::now();
    let mut position = 0;
    let mut submit = |lane: &mut dyn Lane, buffer: Buffer| {
        lane.submit(Operation::write(0, position, buffer));
        position = (position + WRITE_BYTES as u64) % bytes;
    };
    buffers.into_iter().for_each(|buffer| submit(lane, buffer));
    let mut completions = Vec::new();
    let mut written = 0;
    while lane.in_flight() > 0 {
        lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut completions);
        for Completion { buffer, result, .. } in completions.drain(..) {
            result?;
            written += WRITE_BYTES as u64;
            if let Some(buffer) = buffer.filter(|_| started.elapsed() < duration) {
                submit(lane, buffer);
            }
        }
    }
    Ok(written as f64 / started.elapsed().as_secs_f64())
}

/// The median of writes of one block, each followed by a flush, in milliseconds.
fn flushes(lane: &mut dyn Lane, buffer: Buffer, bytes: u64, duration: Duration) -> Result<f64, DeviceError> {
    let block = buffer.len() as u64;
    let (mut buffer, mut position) = (Some(buffer), 0);
    let mut times = Vec::new();
    let started = Instant::now();
    while times.is_empty() || started.elapsed() < duration / 4 {
        let before = Instant::now();
        let written = wait(lane, Operation::write(0, position, buffer.take().expect("came back")))?;
        wait(lane, Operation::flush(0))?;
        times.push(before.elapsed().as_secs_f64() * 1e3);
        buffer = written.buffer;
        position = (position + block) % bytes;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn wait(lane: &mut dyn Lane, operation: Operation) -> Result<Completion, DeviceError> {
    let mut completions = Vec::with_capacity(1);
    lane.submit(operation);
    while lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut completions) == 0 {}
    let completion = completions.pop().expect("counted by poll");
    completion.result.clone()?;
    Ok(completion)
}
