//! What a device can do: measured once, then used to price plans and to start the governor.
//!
//! ```text
//!    IOPS │        ┌───────────── best_iops
//!         │      ╱ ▲
//!         │    ╱   └ knee_depth: deeper brings (almost) nothing but latency
//!         │  ╱
//!         │╱ 1 / depth_one_latency
//!         └──────────────────────── depth
//! ```
//!
//! Between measured depths and sizes the curve is interpolated on
//! logarithmic scales; beyond them it is held at the nearest.

mod measure;

use std::ops::Range;
use std::time::Duration;

use saki_base::{AlignedBuffer, Buffer};
use serde::{Deserialize, Serialize};

use crate::device::{Device, DeviceError, Lane, OperationKind};

use measure::sequential;
pub use measure::{LatencySummary, Measurement, random_reads, random_reads_into};

/// One measured point: random reads of one size at one depth.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProfilePoint {
    pub bytes: u32,
    pub depth: u32,
    pub iops: f64,
    /// Seconds.
    pub latency_mean: f64,
    /// Seconds.
    pub latency_p99: f64,
}

/// What a device can do. See the module's introduction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeviceProfile {
    /// The device's name when it was measured, or "assumed".
    pub device: String,
    /// By size, then by depth.
    points: Vec<ProfilePoint>,
    /// Bytes per second.
    sequential_read: f64,
    /// Bytes per second; `None` where no range was given to write to.
    sequential_write: Option<f64>,
}

/// The share of the best throughput that the knee has to reach.
const KNEE_SHARE: f64 = 0.95;

impl DeviceProfile {
    /// What to expect of a device that nobody has measured: a middling local
    /// solid-state disk, 100 µs and 50 k IOPS of 4 KiB, 1 GB/s. Kind enough
    /// to depth that plans fetch out of order, and soon corrected by the
    /// governor, which measures while it works.
    pub fn assumed() -> Self {
        let latency = |bytes: u32| 100e-6 + f64::from(bytes) / 1e9;
        let mut points = Vec::new();
        for bytes in CALIBRATED_BYTES {
            for depth in CALIBRATED_DEPTHS {
                let best = f64::min(50e3, 1e9 / f64::from(bytes));
                let iops = best.min(f64::from(depth) / latency(bytes));
                let mean = f64::from(depth) / iops;
                points.push(ProfilePoint { bytes, depth, iops, latency_mean: mean, latency_p99: 3.0 * mean });
            }
        }
        Self { device: "assumed".into(), points, sequential_read: 1e9, sequential_write: Some(0.5e9) }
    }

    /// A profile of points measured elsewhere.
    /// Returns `None` without at least one point, or with a figure that is not positive.
    pub fn from_points(device: String, mut points: Vec<ProfilePoint>, sequential_read: f64) -> Option<Self> {
        let sound = |point: &ProfilePoint| {
            point.bytes > 0 && point.depth > 0 && point.iops > 0.0 && point.iops.is_finite() && point.latency_mean > 0.0
        };
        points.sort_by_key(|point| (point.bytes, point.depth));
        let all_sound = !points.is_empty() && points.iter().all(sound) && sequential_read > 0.0;
        all_sound.then_some(Self { device, points, sequential_read, sequential_write: None })
    }

    /// Reads a profile written by [`Self::to_json`]; `None` if it is not one.
    pub fn from_json(text: &str) -> Option<Self> {
        let profile: Self = serde_json::from_str(text).ok()?;
        let write = profile.sequential_write.filter(|rate| *rate > 0.0);
        let checked = Self::from_points(profile.device, profile.points, profile.sequential_read)?;
        Some(Self { sequential_write: write, ..checked })
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a profile is plain numbers and text")
    }

    pub fn points(&self) -> &[ProfilePoint] {
        &self.points
    }

    /// Seconds that `count` random reads of `bytes` take with `depth` of them in flight.
    pub fn seconds_for_reads(&self, count: u64, depth: u32, bytes: u32) -> f64 {
        if count == 0 {
            return 0.0;
        }
        // Never deeper than there are reads, and never done before the last one's latency.
        let depth = depth.max(1).min(u32::try_from(count).unwrap_or(u32::MAX));
        let rounds = count as f64 / self.iops(depth, bytes);
        rounds.max(self.depth_one_latency(bytes))
    }

    /// Random reads of `bytes` per second with `depth` in flight.
    pub fn iops(&self, depth: u32, bytes: u32) -> f64 {
        self.over_sizes(bytes, |size| self.iops_at(size, depth))
    }

    /// The most random reads of `bytes` per second, at any depth.
    pub fn best_iops(&self, bytes: u32) -> f64 {
        self.points.iter().map(|point| self.iops(point.depth, bytes)).fold(0.0, f64::max)
    }

    /// Mean seconds of one random read of `bytes` when nothing else is in flight.
    pub fn depth_one_latency(&self, bytes: u32) -> f64 {
        1.0 / self.iops(1, bytes)
    }

    /// Bytes per second of one long sequential read.
    pub fn sequential_bandwidth(&self) -> f64 {
        self.sequential_read
    }

    /// Bytes per second of one long sequential write, where it was measured; otherwise taken for that of reads.
    pub fn write_bandwidth(&self) -> f64 {
        self.sequential_write.unwrap_or(self.sequential_read)
    }

    /// The smallest depth that brings 95 % of the best throughput.
    pub fn knee_depth(&self, bytes: u32) -> u32 {
        let wanted = self.best_iops(bytes) * KNEE_SHARE;
        let deepest = self.points.iter().map(|point| point.depth).max().unwrap_or(1);
        // Measured curves dip here and there, so every depth is looked at, from the shallowest.
        (1..=deepest).find(|depth| self.iops(*depth, bytes) >= wanted).unwrap_or(deepest)
    }

    fn of_size(&self, bytes: u32) -> impl Iterator<Item = &ProfilePoint> {
        self.points.iter().filter(move |point| point.bytes == bytes)
    }

    /// IOPS of a measured size, at any depth.
    fn iops_at(&self, bytes: u32, depth: u32) -> f64 {
        let curve = self.of_size(bytes).map(|point| (f64::from(point.depth), point.iops));
        interpolate(curve, f64::from(depth.max(1)))
    }

    /// A figure of measured sizes, at any size.
    fn over_sizes(&self, bytes: u32, figure: impl Fn(u32) -> f64) -> f64 {
        let mut sizes: Vec<u32> = self.points.iter().map(|point| point.bytes).collect();
        sizes.dedup();
        interpolate(sizes.into_iter().map(|size| (f64::from(size), figure(size))), f64::from(bytes.max(1)))
    }
}

/// The value at `x` of a curve of rising x, straight between points on logarithmic scales, flat outside.
fn interpolate(curve: impl Iterator<Item = (f64, f64)>, x: f64) -> f64 {
    let mut before: Option<(f64, f64)> = None;
    for (right, value) in curve {
        if x <= right {
            return match before {
                Some((left, low)) => {
                    let share = (x / left).ln() / (right / left).ln();
                    (low.ln() * (1.0 - share) + value.ln() * share).exp()
                }
                None => value,
            };
        }
        before = Some((right, value));
    }
    before.map_or(f64::MIN_POSITIVE, |(_, value)| value)
}

const CALIBRATED_BYTES: [u32; 5] = [4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20];
const CALIBRATED_DEPTHS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// Buffers of one point: bounds depth times size.
const POINT_MEMORY_BYTES: u64 = 128 << 20;

/// How to calibrate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CalibrateOptions {
    /// Per point, at least; slow devices get as long as twelve reads take, up to a second.
    pub time_per_point: Duration,
    /// Bytes of the device that may be overwritten to measure its write bandwidth.
    pub write_range: Option<Range<u64>>,
    pub seed: u64,
}

impl Default for CalibrateOptions {
    fn default() -> Self {
        Self { time_per_point: Duration::from_millis(100), write_range: None, seed: 1 }
    }
}

/// How far a calibration has come.
#[derive(Clone, PartialEq, Debug)]
pub struct CalibrateProgress {
    pub steps_done: usize,
    pub steps: usize,
    /// What was just measured, for people.
    pub message: String,
}

/// Measures what `device` can do, in a few seconds. Reads only, over what
/// exists, unless `options` gives a range to write.
///
/// Blocks that were reserved but never written read as zeroes without any
/// access to the medium: the profile of an empty database is too good.
///
/// # Errors
/// The first error of the device; `OutOfRange` if it is shorter than 4 KiB.
pub fn calibrate(
    device: &dyn Device,
    options: &CalibrateOptions,
    progress: &mut dyn FnMut(&CalibrateProgress),
) -> Result<DeviceProfile, DeviceError> {
    let mut lane = device.open_lane(None)?;
    let length = device.length_bytes()?;
    let smallest = u64::from(CALIBRATED_BYTES[0]);
    if length < smallest {
        return Err(DeviceError::OutOfRange { device: device.name(), offset: 0, length: smallest });
    }
    let grid: Vec<(u32, u32)> = CALIBRATED_BYTES
        .into_iter()
        .flat_map(|bytes| CALIBRATED_DEPTHS.map(|depth| (bytes, depth)))
        .filter(|(bytes, depth)| {
            u64::from(*bytes) <= length && u64::from(*bytes) * u64::from(*depth) <= POINT_MEMORY_BYTES
        })
        .collect();
    let steps = grid.len() + 1 + usize::from(options.write_range.is_some());
    let mut steps_done = 0;
    let mut report = |message: String| {
        steps_done += 1;
        progress(&CalibrateProgress { steps_done, steps, message });
    };

    let mut points = Vec::with_capacity(grid.len());
    let mut time = options.time_per_point;
    for (bytes, depth) in grid {
        let measured = measure_point(device, &mut *lane, bytes, depth, time, options.seed)?;
        let latency = measured.latency;
        time = time.max(Duration::from_secs_f64((12.0 * latency.mean / f64::from(depth)).min(1.0)));
        points.push(ProfilePoint {
            bytes,
            depth,
            iops: measured.iops(),
            latency_mean: latency.mean,
            latency_p99: latency.p99,
        });
        report(format!(
            "{} KiB, depth {depth}: {:.0} IOPS, {:.3} ms",
            bytes >> 10,
            measured.iops(),
            latency.mean * 1e3
        ));
    }
    let read = measure_stream(&mut *lane, OperationKind::Read, 0..length, time)?;
    report(format!("sequential read: {:.2} GB/s", read / 1e9));
    let mut sequential_write = None;
    if let Some(range) = options.write_range.clone() {
        let write = measure_stream(&mut *lane, OperationKind::Write, range, time)?;
        report(format!("sequential write: {:.2} GB/s", write / 1e9));
        sequential_write = Some(write);
    }
    let profile = DeviceProfile::from_points(device.name(), points, read).ok_or_else(|| DeviceError::Failed {
        device: device.name(),
        action: "calibrate",
        offset: 0,
        message: "no read completed in time".into(),
        errno: None,
    })?;
    Ok(DeviceProfile { sequential_write, ..profile })
}

fn measure_point(
    device: &dyn Device,
    lane: &mut dyn Lane,
    bytes: u32,
    depth: u32,
    time: Duration,
    seed: u64,
) -> Result<Measurement, DeviceError> {
    let buffers = (0..depth).map(|_| Buffer::Aligned(AlignedBuffer::new(bytes as usize))).collect();
    let (measured, _) = random_reads_into(device, lane, buffers, time, seed ^ u64::from(bytes) ^ u64::from(depth))?;
    Ok(measured)
}

/// Bytes per second of a sequential transfer in 1 MiB pieces (smaller on a smaller range), 16 at once.
fn measure_stream(
    lane: &mut dyn Lane,
    kind: OperationKind,
    range: Range<u64>,
    time: Duration,
) -> Result<f64, DeviceError> {
    let available = range.end.saturating_sub(range.start);
    let step = (available / 16).next_power_of_two().clamp(4096, 1 << 20) as usize;
    let buffers = (0..16).map(|_| Buffer::Aligned(AlignedBuffer::new(step))).collect();
    let start = range.start.next_multiple_of(4096);
    let measured = sequential(lane, kind, buffers, start..range.end, time * 3)?;
    Ok(measured.bytes_per_second().max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModeledDevice, SimDevice, SimOptions};

    #[test]
    fn the_assumed_profile_is_consistent() {
        let profile = DeviceProfile::assumed();
        assert!((profile.best_iops(4096) - 50e3).abs() < 1.0);
        assert!((profile.depth_one_latency(4096) - 104e-6).abs() < 1e-6);
        assert!((2..=16).contains(&profile.knee_depth(4096)), "{}", profile.knee_depth(4096));
        assert!(profile.seconds_for_reads(1000, 1, 4096) > 4.0 * profile.seconds_for_reads(1000, 64, 4096));
        assert_eq!(profile.seconds_for_reads(0, 64, 4096), 0.0);
        // One read at any depth takes one latency.
        assert!((profile.seconds_for_reads(1, 1024, 4096) - profile.depth_one_latency(4096)).abs() < 1e-9);
        assert!(profile.best_iops(32 << 10) < profile.best_iops(4096));
        let again = DeviceProfile::from_json(&profile.to_json()).unwrap();
        assert!((again.best_iops(4096) / profile.best_iops(4096) - 1.0).abs() < 1e-9);
        assert_eq!(again.points().len(), profile.points().len());
    }

    #[test]
    fn a_knee_is_found_between_measured_depths() {
        let point = |depth: u32| ProfilePoint {
            bytes: 4096,
            depth,
            iops: f64::min(f64::from(depth) * 1000.0, 100e3),
            latency_mean: 1e-3,
            latency_p99: 1e-3,
        };
        let points = CALIBRATED_DEPTHS.map(point).to_vec();
        let profile = DeviceProfile::from_points("test".into(), points, 1e9).unwrap();
        assert!((95..=256).contains(&profile.knee_depth(4096)), "{}", profile.knee_depth(4096));
    }

    #[test]
    fn a_curve_that_falls_again_has_its_knee_before_the_fall() {
        let point = |(depth, iops)| ProfilePoint { bytes: 4096, depth, iops, latency_mean: 1e-3, latency_p99: 1e-3 };
        let points = [(1, 20e3), (4, 50e3), (16, 60e3), (64, 83e3), (256, 90e3), (1024, 77e3)].map(point).to_vec();
        let profile = DeviceProfile::from_points("test".into(), points, 1e9).unwrap();
        assert!((profile.best_iops(4096) - 90e3).abs() < 1.0);
        assert!((64..=256).contains(&profile.knee_depth(4096)), "{}", profile.knee_depth(4096));
        assert!(profile.knee_depth(8192) <= 256);
    }

    #[test]
    fn broken_profiles_are_refused() {
        assert!(DeviceProfile::from_json("{}").is_none());
        let broken = DeviceProfile::assumed().to_json().replace("1000000000.0", "-1.0");
        assert!(DeviceProfile::from_json(&broken).is_none());
        assert!(DeviceProfile::from_points("test".into(), Vec::new(), 1.0).is_none());
    }

    #[test]
    fn calibration_works_on_a_tiny_device_and_writes_only_where_allowed() {
        let device = SimDevice::new(SimOptions { length_bytes: 256 << 10, ..SimOptions::default() });
        let time_per_point = Duration::from_millis(2);
        let options = CalibrateOptions { time_per_point, write_range: Some(65_536..131_072), seed: 1 };
        let mut last = None;
        let mut untouched = vec![1; 65_536];
        let profile = calibrate(&*device, &options, &mut |progress| last = Some(progress.clone())).unwrap();
        let last = last.unwrap();
        assert_eq!(last.steps_done, last.steps);
        assert!(profile.best_iops(4096) > 0.0 && profile.write_bandwidth() > 0.0);
        device.peek(0, &mut untouched);
        assert!(untouched.iter().all(|byte| *byte == 0));
        let empty = SimDevice::new(SimOptions { length_bytes: 512, ..SimOptions::default() });
        assert!(calibrate(&*empty, &options, &mut |_| {}).is_err());
    }

    #[test]
    fn calibration_sees_the_latency_of_a_far_device() {
        let inner = SimDevice::new(SimOptions::default());
        let device = ModeledDevice::new(inner, "latency=5ms".parse().unwrap());
        let options = CalibrateOptions { time_per_point: Duration::from_millis(5), ..CalibrateOptions::default() };
        let profile = calibrate(&*device, &options, &mut |_| {}).unwrap();
        assert!(profile.depth_one_latency(4096) >= 5e-3);
        assert!(profile.best_iops(4096) > 4.0 / profile.depth_one_latency(4096));
    }
}
