//! Power is lost at any instant of many publishes. What is found afterwards is
//! exactly the last acknowledged generation or the one whose publish was under
//! way, every page of it whole, and the volume goes on working.

use std::sync::{Arc, Mutex, MutexGuard};

use saki_base::{PageSize, Random};
use saki_io::{ObservedDevice, Observer, Operation, SimDevice};
use saki_volume::{Volume, VolumeOptions};

use crate::support::{Model, device, open};

/// Takes pictures of a device, as a power loss would leave it, while others use it.
struct Camera(Mutex<Roll>);

struct Roll {
    random: Random,
    /// Part of the operations that are pictured.
    rate: f64,
    pictures: Vec<Arc<SimDevice>>,
}

impl Camera {
    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.0.lock().expect("not poisoned")
    }

    fn picture(&self, device: &SimDevice) {
        let mut roll = self.roll();
        let rate = roll.rate;
        if roll.random.chance(rate) {
            let seed = roll.random.next_u64();
            roll.pictures.push(device.crash(seed));
        }
    }
}

impl Observer for Camera {
    fn submitting(&self, device: &SimDevice, _: &Operation) {
        self.picture(device);
    }
    fn submitted(&self, device: &SimDevice) {
        self.picture(device);
    }
    fn polled(&self, device: &SimDevice) {
        self.picture(device);
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
    let page_bytes = [4096, 8192, 131_072][random.range(0..3) as usize];
    let page_size = PageSize::new(page_bytes).expect("valid");
    let roll = Roll { random: Random::new(seed ^ 1), rate: 0.0, pictures: Vec::new() };
    let camera = Arc::new(Camera(Mutex::new(roll)));
    let options = VolumeOptions { journal_bytes_max: 16 << 10, database_id: Some(7), ..VolumeOptions::new(page_size) };
    let volume = Volume::create(ObservedDevice::new(&inner, Arc::clone(&camera)), options).expect("created");
    camera.roll().rate = 0.04;

    let mut models = vec![Model::default()];
    for _ in 0..12 {
        let acknowledged = models.len() - 1;
        let mut model = models[acknowledged].clone();
        let publication = volume.begin();
        publication.free(&model.take(&mut random, 0.3));
        for _ in 0..random.range(1..4) {
            let mut writer = publication.writer();
            let count = random.range(0..300 * 4096 / u64::from(page_bytes) + 2);
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
        let pictures = std::mem::take(&mut camera.roll().pictures);
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
