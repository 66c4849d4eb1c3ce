//! What plans are priced by: how fast the device is.

use saki_base::PageSize;
use saki_io::{CalibrateOptions, CalibrateProgress, DeviceProfile, ModelOptions, calibrate};
use saki_volume::Volume;

use crate::database::devices::parse_model;
use crate::database::{Database, DeviceSpeed, OpenOptions};
use saki_catalog::{Result, SqlError};

impl Database {
    /// Measures the device and stores its profile; plans are priced by it from now on.
    pub fn calibrate(&self, progress: &mut dyn FnMut(&CalibrateProgress)) -> Result<DeviceProfile> {
        let profile = calibrate(self.device.as_ref(), &CalibrateOptions::default(), progress)
            .map_err(|error| SqlError::storage(error.to_string()))?;
        if self.options.model.is_none() && !self.options.read_only {
            self.volume.store_device_profile(profile.to_json().as_bytes())?;
        }
        *self.speed.write() = profile_speed(&profile, self.page_size());
        Ok(profile)
    }
}

/// What plans are priced by: the model, the stored profile, or an assumption.
pub fn speed_of(volume: &Volume, options: &OpenOptions) -> Result<DeviceSpeed> {
    if let Some(model) = &options.model {
        return Ok(model_speed(&parse_model(model)?, volume.page_size()));
    }
    let stored = volume.device_profile()?;
    let profile = stored.and_then(|bytes| DeviceProfile::from_json(std::str::from_utf8(&bytes).ok()?));
    Ok(profile_speed(&profile.unwrap_or_else(DeviceProfile::assumed), volume.page_size()))
}

fn profile_speed(profile: &DeviceProfile, page_size: PageSize) -> DeviceSpeed {
    let bytes = page_size.bytes() as u32;
    DeviceSpeed {
        latency: profile.depth_one_latency(bytes),
        reads_per_second: profile.best_iops(bytes),
        bytes_per_second: profile.sequential_bandwidth(),
    }
}

/// Requests a second that the device under a model serves at best, neighbouring pages asked for together.
const MODEL_READS_PER_SECOND_MAX: f64 = 90_000.0;

/// A model sees every page as a request of its own, neighbours too: what it serves in pages a second bounds scans.
fn model_speed(model: &ModelOptions, page_size: PageSize) -> DeviceSpeed {
    let latency = (model.latency_min + model.latency_max).as_secs_f64() / 2.0;
    let by_servers = model.servers.map_or(f64::INFINITY, |servers| f64::from(servers) / latency.max(1e-9));
    let reads_per_second = model.iops.unwrap_or(1e6).min(by_servers);
    let by_requests = model.iops.unwrap_or(MODEL_READS_PER_SECOND_MAX) * page_size.bytes() as f64;
    DeviceSpeed {
        latency,
        reads_per_second,
        bytes_per_second: model.bandwidth.unwrap_or(f64::INFINITY).min(by_requests),
    }
}
