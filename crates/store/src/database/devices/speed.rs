//! What plans are priced by: how fast devices are, and how fast what lies on them is read.

use std::sync::Arc;

use saki_base::{DeviceId, PageSize, Part};
use saki_io::{CalibrateOptions, CalibrateProgress, Device, DeviceProfile, MERGED_BYTES_MAX, ModelOptions, calibrate};
use saki_tier::Speed;

use super::{Database, OpenOptions, parse_model};
use saki_catalog::{Result, SqlError};

/// What a device can do, measured or stated, in the numbers that plans are priced by.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSpeed {
    /// Seconds of one read by itself.
    pub latency: f64,
    pub reads_per_second: f64,
    pub bytes_per_second: f64,
}

impl From<Speed> for DeviceSpeed {
    fn from(speed: Speed) -> Self {
        let Speed { latency, reads_per_second, read_bytes_per_second, .. } = speed;
        Self { latency, reads_per_second, bytes_per_second: read_bytes_per_second }
    }
}

impl Database {
    /// Of the first device.
    pub fn speed(&self) -> DeviceSpeed {
        self.tier.speed().expect("a volume has a device").into()
    }

    /// How fast pages of some parts are read where they lie, homes and copies; as from the first device, of parts of
    /// which nothing is known.
    pub fn speed_of(&self, parts: &[Part]) -> DeviceSpeed {
        self.tier.speed_of(parts).map_or_else(|| self.speed(), DeviceSpeed::from)
    }

    /// Measures the devices and stores their profiles, of a model only the first; plans are priced by them from now on.
    /// Returns the first's.
    ///
    /// # Errors
    /// If one cannot be measured.
    pub fn calibrate(&self, progress: &mut dyn FnMut(&CalibrateProgress)) -> Result<DeviceProfile> {
        let first = measure(&*self.device, progress)?;
        if self.options.model.is_some() || self.options.read_only {
            self.volume.governor().restart(&first, self.page_size().into());
            self.tier.set_homes(Speed::of_profile(&first, self.page_size()));
            return Ok(first);
        }
        self.volume.store_device_profile(first.to_json().as_bytes())?;
        for (number, device) in self.others() {
            let profile = measure(&*device, progress)?;
            self.volume.store_profile_of(number, profile.to_json().as_bytes())?;
        }
        self.tier.devices_changed();
        Ok(first)
    }

    /// Devices that are there, but for the first.
    fn others(&self) -> Vec<(DeviceId, Arc<dyn Device>)> {
        let there = self.volume.devices().into_iter().filter(|device| device.missing.is_none());
        let numbers = there.map(|device| device.entry.number).skip(1);
        numbers.filter_map(|number| Some((number, self.volume.device(number)?))).collect()
    }
}

fn measure(device: &dyn Device, progress: &mut dyn FnMut(&CalibrateProgress)) -> Result<DeviceProfile> {
    calibrate(device, &CalibrateOptions::default(), progress).map_err(|error| SqlError::storage(error.to_string()))
}

/// What homes are taken for under a model: what that does.
///
/// # Errors
/// If there is no such model as the options name.
pub fn speed_of_model(options: &OpenOptions, page_size: PageSize) -> Result<Option<Speed>> {
    let model = options.model.as_deref().map(parse_model).transpose()?;
    Ok(model.map(|model| model_speed(&model, page_size)))
}

/// Pages a second that the device under a model serves at best.
const MODEL_PAGES_PER_SECOND_MAX: f64 = 90_000.0;

fn model_speed(model: &ModelOptions, page_size: PageSize) -> Speed {
    let latency = (model.latency_min + model.latency_max).as_secs_f64() / 2.0;
    let by_servers = model.servers.map_or(f64::INFINITY, |servers| f64::from(servers) / latency.max(1e-9));
    let reads_per_second = model.iops.unwrap_or(1e6).min(by_servers);
    // Neighbours are one request.
    let by_requests = model.iops.unwrap_or(f64::INFINITY) * MERGED_BYTES_MAX as f64;
    let by_pages = MODEL_PAGES_PER_SECOND_MAX * page_size.bytes() as f64;
    let bytes_per_second = model.bandwidth.unwrap_or(f64::INFINITY).min(by_requests).min(by_pages);
    Speed {
        latency,
        reads_per_second,
        read_bytes_per_second: bytes_per_second,
        write_bytes_per_second: bytes_per_second,
    }
}
