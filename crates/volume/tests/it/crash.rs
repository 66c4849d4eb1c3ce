//! Power is lost at any instant of many publishes. What is found afterwards is
//! exactly the last acknowledged generation or the one whose publish was under
//! way, every page of it whole, and the volume goes on working.

use std::sync::Arc;
use std::sync::Mutex;

use saki_base::{Arena, PageSize};
use saki_io::{Completion, Device, DeviceError, Lane, Operation, Random, SimDevice, Wait, Waker};
use saki_volume::{Volume, VolumeOptions};

use crate::support::{Model, device, open};

/// Takes pictures of a device, as a power loss would leave it, while others use it.
struct Camera {
    device: Arc<SimDevice>,
    roll: Arc<Mutex<Roll>>,
}

struct Roll {
    random: Random,
    /// Part of the operations that are pictured.
    rate: f64,
    pictures: Vec<Arc<SimDevice>>,
}

struct CameraLane {
    lane: Box<dyn Lane>,
    device: Arc<SimDevice>,
    roll: Arc<Mutex<Roll>>,
}

impl CameraLane {
    fn picture(&self) {
        let mut roll = self.roll.lock().expect("not poisoned");
        let rate = roll.rate;
        if roll.random.chance(rate) {
            let seed = roll.random.next_u64();
            roll.pictures.push(self.device.crash(seed));
        }
    }
}

impl Device for Camera {
    fn name(&self) -> String {
        self.device.name()
    }
    fn length_bytes(&self) -> Result<u64, DeviceError> {
        self.device.length_bytes()
    }
    fn block_bytes(&self) -> usize {
        self.device.block_bytes()
    }
    fn read_only(&self) -> bool {
        self.device.read_only()
    }
    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        self.device.ensure_length(bytes)
    }
    fn open_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        let lane = self.device.open_lane(arena)?;
        Ok(Box::new(CameraLane { lane, device: Arc::clone(&self.device), roll: Arc::clone(&self.roll) }))
    }
}

impl Lane for CameraLane {
    fn submit(&mut self, operation: Operation) {
        self.picture();
        self.lane.submit(operation);
        self.picture();
    }
    fn flush_submissions(&mut self) {
        self.lane.flush_submissions();
    }
    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        let count = self.lane.poll(wait, completions);
        self.picture();
        count
    }
    fn in_flight(&self) -> usize {
        self.lane.in_flight()
    }
    fn waker(&self) -> Arc<dyn Waker> {
        self.lane.waker()
    }
}

/// The model's number, as the published root says.
fn version(volume: &Volume) -> usize {
    let root = volume.root();
    if root.is_empty() { 0 } else { u64::from_le_bytes(root.try_into().expect("eight bytes")) as usize }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let inner = device(seed);
    inner.faults().set_rates(saki_io::FaultRates { torn_at_power_loss: 0.2, ..saki_io::FaultRates::default() });
    let page_bytes = [4096, 8192, 131_072][random.within(0..3) as usize];
    let page_size = PageSize::new(page_bytes).expect("valid");
    let roll = Roll { random: Random::new(seed ^ 1), rate: 0.0, pictures: Vec::new() };
    let roll = Arc::new(Mutex::new(roll));
    let camera = Arc::new(Camera { device: Arc::clone(&inner), roll: Arc::clone(&roll) });
    let options = VolumeOptions { journal_bytes_max: 16 << 10, database_id: Some(7), ..VolumeOptions::new(page_size) };
    let volume = Volume::create(camera, options).expect("created");
    roll.lock().expect("not poisoned").rate = 0.04;

    let mut models = vec![Model::default()];
    for _ in 0..12 {
        let acknowledged = models.len() - 1;
        let mut model = models[acknowledged].clone();
        let publication = volume.begin();
        publication.free(&model.take(&mut random, 0.3));
        for _ in 0..random.within(1..4) {
            let mut writer = publication.writer();
            let count = random.within(0..300 * 4096 / u64::from(page_bytes) + 2);
            model.append(&mut writer, &mut random, page_size, count);
            writer.finish().expect("finished");
        }
        let commits = !random.chance(0.2);
        if commits {
            models.push(model);
            publication.commit(&(acknowledged as u64 + 1).to_le_bytes()).expect("committed");
            models[acknowledged + 1].check(&volume, &inner);
        } else {
            drop(publication);
        }
        let pictures = std::mem::take(&mut roll.lock().expect("not poisoned").pictures);
        for picture in pictures {
            let recovered = open(&picture).expect("recovers");
            let found = version(&recovered);
            assert!(found == acknowledged || commits && found == acknowledged + 1, "{found} after {acknowledged}");
            models[found].check(&recovered, &picture);
            // It goes on from there.
            let mut model = models[found].clone();
            let publication = recovered.begin();
            publication.free(&model.take(&mut random, 0.5));
            let mut writer = publication.writer();
            model.append(&mut writer, &mut random, page_size, 20);
            writer.finish().expect("finished");
            publication.commit(b"12345678").expect("committed");
            drop(recovered);
            let again = open(&picture).expect("opens");
            assert_eq!(again.root(), b"12345678");
            model.check(&again, &picture);
        }
    }
}

#[test]
fn a_power_loss_finds_the_old_generation_or_the_new_one() {
    for seed in 0..6 {
        println!("seed {seed}");
        run(seed);
    }
}
