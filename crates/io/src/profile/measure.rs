//! Driving a device at a steady depth, and writing down what it did.
//!
//! Shared by [`calibrate`](crate::calibrate) and by benchmarks, so that a
//! profile and a published figure mean the same thing.

use std::time::{Duration, Instant};

use saki_base::{AlignedBuffer, Buffer, Random};
use serde::{Deserialize, Serialize};

use crate::device::{Completion, Device, DeviceError, Lane, Operation, OperationKind, Wait};

/// What a run at one depth and size did.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    pub operations: u64,
    pub bytes: u64,
    pub seconds: f64,
    pub latency: LatencySummary,
}

impl Measurement {
    pub fn iops(&self) -> f64 {
        if self.seconds > 0.0 { self.operations as f64 / self.seconds } else { 0.0 }
    }

    pub fn bytes_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / self.seconds } else { 0.0 }
    }
}

/// Latencies of a run, in seconds, from submission to the poll that returned the completion.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LatencySummary {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// Reads `bytes` at random aligned offsets of the whole device, `depth` at once, for `duration`.
///
/// The figures are of the steady state: the clock starts once the first
/// generation (`depth` reads) has completed, or after twice `duration` if that is sooner.
/// What is in flight at the end is waited for, not counted. A slow device's
/// run goes on until one operation has been counted.
///
/// # Errors
/// The first error of the device; `OutOfRange` if it is shorter than `bytes`.
pub fn random_reads(
    device: &dyn Device,
    lane: &mut dyn Lane,
    bytes: usize,
    depth: usize,
    duration: Duration,
    seed: u64,
) -> Result<Measurement, DeviceError> {
    let buffers = (0..depth.max(1)).map(|_| Buffer::Aligned(AlignedBuffer::new(bytes))).collect();
    random_reads_into(device, lane, buffers, duration, seed).map(|(measurement, _)| measurement)
}

/// As [`random_reads`], into buffers of the caller's (of one size; their number is the depth), which come back.
/// Frames of an arena that the lane has registered spare the kernel's pinning.
pub fn random_reads_into(
    device: &dyn Device,
    lane: &mut dyn Lane,
    buffers: Vec<Buffer>,
    duration: Duration,
    seed: u64,
) -> Result<(Measurement, Vec<Buffer>), DeviceError> {
    let bytes = buffers.first().map_or(0, |buffer| buffer.len()) as u64;
    let length = device.length_bytes()?;
    if bytes == 0 || length < bytes {
        return Err(DeviceError::OutOfRange { device: device.name(), offset: 0, length: bytes });
    }
    let positions = length / bytes;
    let mut random = Random::new(seed);
    let next = move || Some(random.range(0..positions) * bytes);
    let generation = buffers.len() as u64;
    run(lane, OperationKind::Read, buffers, generation, duration, next)
}

/// Transfers every `step`-sized piece from `start` to `end` in order, `buffers.len()` at once, until
/// the end or `duration`.
pub(crate) fn sequential(
    lane: &mut dyn Lane,
    kind: OperationKind,
    buffers: Vec<Buffer>,
    range: std::ops::Range<u64>,
    duration: Duration,
) -> Result<Measurement, DeviceError> {
    let step = buffers.first().map_or(1, |buffer| buffer.len()) as u64;
    let mut position = range.start;
    let next = move || {
        let offset = position;
        position += step;
        (position <= range.end).then_some(offset)
    };
    run(lane, kind, buffers, 0, duration, next).map(|(measurement, _)| measurement)
}

/// Keeps every buffer in flight while `next` gives offsets and time is left; leaves the first `uncounted` out.
fn run(
    lane: &mut dyn Lane,
    kind: OperationKind,
    buffers: Vec<Buffer>,
    uncounted: u64,
    duration: Duration,
    mut next: impl FnMut() -> Option<u64>,
) -> Result<(Measurement, Vec<Buffer>), DeviceError> {
    let bytes = buffers.first().map_or(0, |buffer| buffer.len()) as u64;
    let mut idle = Vec::with_capacity(buffers.len());
    let mut completions: Vec<Completion> = Vec::with_capacity(buffers.len());
    let mut histogram = Histogram::default();
    let mut failure = None;
    let started = Instant::now();
    // A token carries the submission's time, in nanoseconds of the run.
    let mut submit = |lane: &mut dyn Lane, buffer, now: Duration, idle: &mut Vec<Buffer>| match next() {
        Some(offset) => {
            lane.submit(Operation { kind, token: now.as_nanos() as u64, offset, buffer: Some(buffer) });
        }
        None => idle.push(buffer),
    };
    for buffer in buffers {
        submit(lane, buffer, Duration::ZERO, &mut idle);
    }
    let mut warm = 0;
    let mut counted_from = (uncounted == 0).then_some(Duration::ZERO);
    let mut seconds = 0.0;
    let mut over = false;
    while lane.in_flight() > 0 {
        lane.poll(Wait::AtMost(Duration::from_secs(1)), &mut completions);
        let now = started.elapsed();
        match counted_from {
            // The completions of this poll came while it waited, so they still count.
            Some(from) if !over => {
                for completion in &completions {
                    histogram.record(now.saturating_sub(Duration::from_nanos(completion.token)));
                }
                seconds = (now - from).as_secs_f64();
                over = now - from >= duration && histogram.count > 0;
            }
            Some(_) => {}
            None => {
                warm += completions.len() as u64;
                counted_from = (warm >= uncounted || now >= 2 * duration).then_some(now);
            }
        }
        for completion in completions.drain(..) {
            failure = failure.or(completion.result.err());
            match completion.buffer {
                Some(buffer) if over || failure.is_some() => idle.push(buffer),
                Some(buffer) => submit(lane, buffer, now, &mut idle),
                None => {}
            }
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    let operations = histogram.count;
    Ok((Measurement { operations, bytes: operations * bytes, seconds, latency: histogram.summary() }, idle))
}

/// Counts of latencies in buckets 1/16 of a power of two wide: 6 % at worst, in 8 KiB.
#[derive(Clone)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: Duration,
    max: Duration,
}

const SUB_BUCKETS: u64 = 16;

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; 64 * SUB_BUCKETS as usize], count: 0, sum: Duration::ZERO, max: Duration::ZERO }
    }
}

impl Histogram {
    pub fn record(&mut self, latency: Duration) {
        let nanoseconds = (latency.as_nanos() as u64).max(SUB_BUCKETS);
        let power = u64::from(nanoseconds.ilog2());
        let sub = (nanoseconds >> (power - SUB_BUCKETS.ilog2() as u64)) - SUB_BUCKETS;
        self.buckets[(power * SUB_BUCKETS + sub) as usize] += 1;
        self.count += 1;
        self.sum += latency;
        self.max = self.max.max(latency);
    }

    /// The latency that a `share` of all did not exceed, in seconds.
    fn percentile(&self, share: f64) -> f64 {
        let rank = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (index, count) in (0_u64..).zip(&self.buckets) {
            seen += count;
            if seen >= rank {
                let (power, sub) = (index / SUB_BUCKETS, index % SUB_BUCKETS);
                let upper = (SUB_BUCKETS + sub + 1) as f64 * 2_f64.powi(power as i32 - 4);
                return (upper * 1e-9).min(self.max.as_secs_f64());
            }
        }
        self.max.as_secs_f64()
    }

    pub fn summary(&self) -> LatencySummary {
        if self.count == 0 {
            return LatencySummary::default();
        }
        LatencySummary {
            mean: self.sum.as_secs_f64() / self.count as f64,
            p50: self.percentile(0.5),
            p90: self.percentile(0.9),
            p99: self.percentile(0.99),
            max: self.max.as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModeledDevice, SimDevice, SimOptions};

    #[test]
    fn percentiles_are_close() {
        let mut histogram = Histogram::default();
        for microseconds in 1..=1000 {
            histogram.record(Duration::from_micros(microseconds));
        }
        let summary = histogram.summary();
        for (found, expected) in [(summary.p50, 500e-6), (summary.p90, 900e-6), (summary.p99, 990e-6)] {
            assert!((found / expected - 1.0).abs() < 0.07, "{found} for {expected}");
        }
        assert!((summary.mean - 500.5e-6).abs() < 1e-9 && summary.max == 1e-3);
    }

    #[test]
    fn a_modeled_volume_measures_as_modelled() {
        let inner = SimDevice::new(SimOptions::default());
        let device = ModeledDevice::new(inner, "latency=2ms".parse().unwrap());
        let mut lane = device.open_lane(None).unwrap();
        let measured = random_reads(&*device, &mut *lane, 4096, 8, Duration::from_millis(100), 1).unwrap();
        // Upper bound only: a busy machine is slower.
        assert!(measured.operations > 0 && measured.iops() <= 4100.0, "{measured:?}");
        assert!(measured.latency.p50 >= 2e-3);
        assert_eq!(lane.in_flight(), 0);
    }

    #[test]
    fn errors_end_the_run_and_short_devices_are_refused() {
        let device = SimDevice::new(SimOptions { length_bytes: 8192, ..SimOptions::default() });
        let mut lane = device.open_lane(None).unwrap();
        let time = Duration::from_millis(5);
        assert!(matches!(random_reads(&*device, &mut *lane, 16_384, 1, time, 1), Err(DeviceError::OutOfRange { .. })));
        device.faults().fail_next(OperationKind::Read, 1);
        assert!(random_reads(&*device, &mut *lane, 4096, 4, time, 1).is_err());
        assert_eq!(lane.in_flight(), 0);
        random_reads(&*device, &mut *lane, 4096, 4, time, 1).unwrap();
    }
}
