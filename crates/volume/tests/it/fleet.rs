//! Several simulated devices, and the volume on them.

use std::sync::{Arc, Mutex, MutexGuard};

use saki_base::{DeviceId, PageSize, Random};
use saki_io::{Device, DeviceError, FaultRates, ObservedDevice, Observer, Operation, SimDevice, SimOptions};
use saki_volume::{DeviceEntry, FindDevice, NewDevice, OpenOptions, Role, Volume, VolumeError, VolumeOptions};

use crate::support::{Model, number};

/// Devices `d0`, `d1`, …
#[derive(Clone)]
pub struct Fleet(pub Vec<Arc<SimDevice>>);

pub fn label(index: usize) -> String {
    format!("d{index}")
}

fn index_of(label: &str) -> usize {
    label[1..].parse().expect("a label of the fleet")
}

impl Fleet {
    pub fn new(seed: u64, count: usize) -> Self {
        let device = |index| SimOptions { seed: seed * 100 + index, length_bytes: 0, ..SimOptions::default() };
        Self((0..count as u64).map(|index| SimDevice::new(device(index))).collect())
    }

    /// A device that is to be part of a volume.
    pub fn offer(&self, index: usize, role: Role) -> NewDevice {
        NewDevice { role, ..NewDevice::new(Arc::clone(&self.0[index]) as Arc<dyn Device>, label(index)) }
    }

    /// A volume on the first so many.
    pub fn create(&self, count: usize, page_bytes: u32) -> Arc<Volume> {
        let page_size = PageSize::new(page_bytes).expect("valid");
        let options =
            VolumeOptions { journal_bytes_max: 16 << 10, number: number(page_bytes), ..VolumeOptions::new(page_size) };
        let devices = (0..count).map(|index| self.offer(index, Role::HOMES)).collect();
        Volume::create_on(devices, options).expect("created")
    }

    pub fn finder(&self) -> FindDevice {
        let devices = self.0.clone();
        Arc::new(move |entry| Ok(Arc::clone(&devices[index_of(&entry.label)]) as Arc<dyn Device>))
    }

    /// Opens the volume by one of them; `missing` cannot be found.
    pub fn open_without(&self, by: usize, missing: &[usize]) -> Result<Arc<Volume>, VolumeError> {
        let (find, missing) = (self.finder(), missing.to_vec());
        let find = move |entry: &DeviceEntry| match missing.contains(&index_of(&entry.label)) {
            true => Err(DeviceError::Failed {
                device: entry.label.clone(),
                action: "open",
                offset: 0,
                message: "no such file".to_owned(),
                errno: Some(2),
            }),
            false => find(entry),
        };
        let options = OpenOptions { find: Some(Arc::new(find)), journal_bytes_max: 16 << 10, ..OpenOptions::default() };
        Volume::open_with(Arc::clone(&self.0[by]) as Arc<dyn Device>, options)
    }

    pub fn open(&self) -> Result<Arc<Volume>, VolumeError> {
        self.open_without(0, &[])
    }

    /// The device that has a number.
    pub fn device(&self, volume: &Volume, number: DeviceId) -> &SimDevice {
        let devices = volume.devices();
        let entry = devices.iter().find(|it| it.entry.number == number).expect("a device of the volume");
        &self.0[index_of(&entry.entry.label)]
    }

    /// The model's pages are there, and the books are right.
    pub fn check(&self, model: &Model, volume: &Volume) {
        model.check_books(volume, volume.devices().len() as u64);
        model.check_pages_on(volume, |number| self.device(volume, number));
        let mut faults = Vec::new();
        volume.check_devices(|fault| faults.push(fault)).expect("readable");
        assert_eq!(faults, Vec::<String>::new());
    }
}

/// Takes pictures of all devices at one instant, as a power loss would leave them.
pub struct Camera(Mutex<Roll>);

pub struct Roll {
    fleet: Fleet,
    random: Random,
    /// Part of the operations that are pictured.
    pub rate: f64,
    pub pictures: Vec<Fleet>,
}

impl Camera {
    pub fn new(fleet: &Fleet, seed: u64) -> Arc<Self> {
        for device in &fleet.0 {
            device.faults().set_rates(FaultRates { torn_at_power_loss: 0.2, ..FaultRates::default() });
        }
        let roll = Roll { fleet: fleet.clone(), random: Random::new(seed), rate: 0.0, pictures: Vec::new() };
        Arc::new(Self(Mutex::new(roll)))
    }

    pub fn roll(&self) -> MutexGuard<'_, Roll> {
        self.0.lock().expect("not poisoned")
    }

    /// A device that is watched.
    pub fn watched(self: &Arc<Self>, device: &Arc<SimDevice>) -> Arc<dyn Device> {
        ObservedDevice::new(device, Arc::clone(self))
    }

    fn picture(&self) {
        let mut roll = self.roll();
        let rate = roll.rate;
        if roll.random.chance(rate) {
            let seeds: Vec<_> = roll.fleet.0.iter().map(|device| (Arc::clone(device), 0)).collect();
            let crashed = seeds.into_iter().map(|(device, _)| device.crash(roll.random.next_u64())).collect();
            roll.pictures.push(Fleet(crashed));
        }
    }
}

impl Observer for Camera {
    fn submitting(&self, _: &SimDevice, _: &Operation) {
        self.picture();
    }
    fn submitted(&self, _: &SimDevice) {
        self.picture();
    }
    fn polled(&self, _: &SimDevice) {
        self.picture();
    }
}
