//! A database on simulated devices, for tests that hold its devices up, cut their power or turn their bits.

use std::path::Path;
use std::sync::Arc;

use saki_base::{PageSize, Random};
use saki_io::{Device, DeviceError, SimDevice, SimOptions};
use saki_volume::{Volume, VolumeOptions};

use crate::database::{Database, OpenOptions};
use crate::delta::{LogStore, SimLogs};
use saki_catalog::Result;

const SECTOR: u64 = 512;

/// All that a database lies on: a disk, and logs.
pub struct SimStorage {
    pub disk: Arc<SimDevice>,
    pub logs: Arc<SimLogs>,
}

impl Default for SimStorage {
    fn default() -> Self {
        let disk = SimDevice::new(SimOptions { length_bytes: 0, ..SimOptions::default() });
        Self { disk, logs: Arc::default() }
    }
}

impl SimStorage {
    /// Makes an empty database, which is called `name`.
    ///
    /// # Errors
    /// Of storage.
    pub fn create(&self, name: &str, page_size: PageSize, options: OpenOptions) -> Result<Arc<Database>> {
        self.start(name, Volume::create(Arc::clone(&self.disk) as _, VolumeOptions::new(page_size))?, options)
    }

    /// Opens the database that is there.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<Database>> {
        self.start(name, Volume::open(Arc::clone(&self.disk) as _)?, options)
    }

    fn start(&self, name: &str, volume: Arc<Volume>, options: OpenOptions) -> Result<Arc<Database>> {
        let (disk, logs) = (Arc::clone(&self.disk) as Arc<dyn Device>, Arc::clone(&self.logs) as Arc<dyn LogStore>);
        Database::start(Path::new(name), disk, volume, logs, options)
    }

    /// As a power cut now may leave it; this one is left as it is.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let logs = self.logs.devices().iter().map(|log| log.crash(seed)).collect();
        Self { disk: self.disk.crash(seed), logs: Arc::new(SimLogs::of(logs)) }
    }

    /// The disk, and then the logs.
    fn each(&self) -> Vec<Arc<SimDevice>> {
        std::iter::once(&self.disk).chain(self.logs.devices().iter()).map(Arc::clone).collect()
    }

    /// Sectors that hold something: the number of the device, and where.
    ///
    /// # Errors
    /// Of storage.
    pub fn sectors(&self) -> std::result::Result<Vec<(usize, u64)>, DeviceError> {
        let mut sectors = Vec::new();
        for (number, device) in self.each().iter().enumerate() {
            let mut bytes = [0; SECTOR as usize];
            for at in (0..device.length_bytes()?).step_by(SECTOR as usize) {
                device.peek(at, &mut bytes);
                if bytes.iter().any(|byte| *byte != 0) {
                    sectors.push((number, at));
                }
            }
        }
        Ok(sectors)
    }

    /// Turns one bit of `sectors`: for each fourth `number` of the superblocks, for the next of the logs, which are
    /// small beside the rest and as interesting, and else of any. Which it was.
    pub fn turn_bit(&self, sectors: &[(usize, u64)], number: u64, random: &mut Random) -> String {
        let of_logs = sectors.partition_point(|(device, _)| *device == 0);
        let sector = match number % 4 {
            0 => random.below(sectors.len().min(16) as u64),
            1 => random.range(of_logs as u64..sectors.len() as u64),
            _ => random.below(sectors.len() as u64),
        };
        let (device, start) = sectors[sector as usize];
        let (at, bit) = (start + random.below(SECTOR), random.below(8) as u8);
        self.each()[device].flip_bit(at, bit);
        format!("flip {number}, device {device}, byte {at}, bit {bit}")
    }
}
