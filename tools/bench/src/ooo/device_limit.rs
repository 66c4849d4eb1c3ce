//! What the device gives at most, to hold the engine against: the lane alone, reading the database's
//! own pages at random, at one request and at many.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, Buffer};
use saki_io::{Backend, Device, DeviceError, DeviceOptions, Lane, ModeledDevice, open_device, random_reads_into};
use saki_sql::Database;
use serde::Serialize;

use saki_report::Common;

/// Random reads a second of the database's page size.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Limit {
    pub best_iops: f64,
    pub best_depth: usize,
    pub depth_one_iops: f64,
}

impl Limit {
    /// The better of two measurements, figure by figure.
    pub fn better(self, other: Self) -> Self {
        let best = if self.best_iops >= other.best_iops { self } else { other };
        Self { depth_one_iops: self.depth_one_iops.max(other.depth_one_iops), ..best }
    }
}

const DEPTHS: [usize; 6] = [1, 64, 128, 256, 512, 1024];

/// Measures a database's device, through a lane of its own.
pub fn device_limit(path: &Path, model: Option<&str>, database: &Database, common: &Common) -> Result<Limit, String> {
    let options = DeviceOptions { backend: Backend::Auto, read_only: true, ..DeviceOptions::default() };
    let mut device = open_device(path, options).map_err(failed)?;
    if let Some(model) = model {
        device = ModeledDevice::new(device, model.parse().map_err(|error| format!("{error}"))?);
    }
    let used_bytes = database.volume().stats().used_bytes;
    let window = Window { length_bytes: device.length_bytes().map_err(failed)?.min(used_bytes), device };
    let page_bytes = database.page_size().bytes();
    let seconds = if common.small { 0.02 } else { 1.0 };
    let mut limit = Limit::default();
    for depth in DEPTHS {
        let (arena, frames) = Arena::new(depth as u32, page_bytes).map_err(|error| error.to_string())?;
        let mut lane = window.open_lane(Some(&arena)).map_err(failed)?;
        let buffers = frames.into_iter().map(Buffer::Frame).collect();
        let duration = Duration::from_secs_f64(seconds);
        let (measured, _) = random_reads_into(&window, &mut *lane, buffers, duration, common.seed).map_err(failed)?;
        if depth == 1 {
            limit.depth_one_iops = measured.iops();
        }
        if measured.iops() > limit.best_iops {
            (limit.best_iops, limit.best_depth) = (measured.iops(), depth);
        }
    }
    Ok(limit)
}

fn failed(error: DeviceError) -> String {
    error.to_string()
}

/// The part of a device that has been written: the rest is reserved, and reads of it are answered
/// without any access to the medium.
struct Window {
    device: Arc<dyn Device>,
    length_bytes: u64,
}

impl Device for Window {
    fn name(&self) -> String {
        self.device.name()
    }

    fn length_bytes(&self) -> Result<u64, DeviceError> {
        Ok(self.length_bytes)
    }

    fn block_bytes(&self) -> usize {
        self.device.block_bytes()
    }

    fn read_only(&self) -> bool {
        true
    }

    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        self.device.ensure_length(bytes)
    }

    fn open_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        self.device.open_lane(arena)
    }
}
