//! The best that a device can do, measured without the engine.

use std::path::Path;
use std::time::Duration;

use saki_io::{DeviceOptions, ModelOptions, ModeledDevice, open_device, random_reads};
use saki_sql::SqlError;

/// Depths that are tried; the best counts.
const DEPTHS: [usize; 4] = [16, 64, 256, 1024];

/// What random reads of one size come to.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLimit {
    /// Reads per second at the best depth.
    pub best_iops: f64,
    /// The depth that was best.
    pub best_depth: usize,
    /// Reads per second, one at a time.
    pub single_iops: f64,
}

/// Measures random reads of `bytes` over all of the file at `path`, as `model` would serve them if there is one.
/// Takes five times `each`. The file must not be open for writing.
///
/// # Errors
/// When the file cannot be opened or read, or the model is not understood.
pub fn device_limit(path: &Path, model: Option<&str>, bytes: usize, each: Duration) -> Result<DeviceLimit, SqlError> {
    let options = DeviceOptions { read_only: true, ..DeviceOptions::default() };
    let mut device = open_device(path, options).map_err(SqlError::storage)?;
    if let Some(model) = model {
        let model: ModelOptions = model.parse().map_err(|error| SqlError::invalid(format!("{error}")))?;
        device = ModeledDevice::new(device, model);
    }
    let mut lane = device.open_lane(None).map_err(SqlError::storage)?;
    let mut iops = |depth: usize| {
        let measured = random_reads(device.as_ref(), lane.as_mut(), bytes, depth, each, depth as u64);
        measured.map(|measured| measured.iops()).map_err(SqlError::storage)
    };
    let single_iops = iops(1)?;
    let mut limit = DeviceLimit { best_iops: single_iops, best_depth: 1, single_iops };
    for depth in DEPTHS {
        let found = iops(depth)?;
        if found > limit.best_iops {
            limit = DeviceLimit { best_iops: found, best_depth: depth, single_iops };
        }
    }
    Ok(limit)
}
