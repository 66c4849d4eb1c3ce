//! Logs on simulated devices: for tests of what may be told while nothing becomes durable.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use saki_catalog::{Result, SqlError};
use saki_io::{Device, SimDevice, SimOptions};

use super::LogStore;

/// Logs on simulated devices, which can be held up.
#[derive(Default)]
pub struct SimLogs(Mutex<Vec<Arc<SimDevice>>>);

impl SimLogs {
    /// On devices that there are.
    pub fn of(devices: Vec<Arc<SimDevice>>) -> Self {
        Self(Mutex::new(devices))
    }

    pub fn devices(&self) -> Vec<Arc<SimDevice>> {
        self.0.lock().clone()
    }

    /// Holds writes and flushes up: nothing becomes durable until what is given is dropped.
    #[must_use = "nothing is held up without it"]
    pub fn hold(&self) -> Held<'_> {
        self.devices().iter().for_each(|device| device.faults().hold(true));
        Held(self)
    }
}

/// See [`SimLogs::hold`].
pub struct Held<'l>(&'l SimLogs);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.devices().iter().for_each(|device| device.faults().hold(false));
    }
}

impl fmt::Debug for SimLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimLogs").finish_non_exhaustive()
    }
}

impl LogStore for SimLogs {
    fn name(&self) -> String {
        "simulated logs".into()
    }

    fn exists(&self) -> bool {
        !self.0.lock().is_empty()
    }

    fn clear(&self) -> Result<()> {
        self.0.lock().clear();
        Ok(())
    }

    fn open(&self, count: usize) -> Result<Vec<Arc<dyn Device>>> {
        let mut logs = self.0.lock();
        while logs.len() < count {
            let seed = 100 + logs.len() as u64;
            logs.push(SimDevice::new(SimOptions { seed, length_bytes: 0, ..SimOptions::default() }));
        }
        Ok(logs.iter().take(count).map(|log| Arc::clone(log) as _).collect())
    }

    fn open_to_read(&self, count: usize) -> Result<Vec<Arc<dyn Device>>> {
        if self.0.lock().len() < count {
            return Err(SqlError::storage("the logs are not there"));
        }
        self.open(count)
    }

    fn remove(&self) -> Result<()> {
        self.clear()
    }
}
