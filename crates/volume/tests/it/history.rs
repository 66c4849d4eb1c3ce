//! Random histories of a volume on several devices, which come and go, whose chunks move and are copied; power is lost
//! on all of them at any one instant. What is found is the last acknowledged state or the one under way, every page
//! whole, every slot accounted for, and it goes on from there.

use std::sync::Arc;

use saki_base::{Arena, ChunkId, DeviceId, Random};
use saki_page::{IoShare, PageStore};
use saki_volume::{OpenOptions, Role, Volume, VolumeError};

use crate::fleet::{Camera, Fleet, label};
use crate::support::Model;

const DEVICES: usize = 8;

struct History {
    fleet: Fleet,
    camera: Arc<Camera>,
    volume: Arc<Volume>,
    random: Random,
    models: Vec<Model>,
    /// The device that is added next.
    next: usize,
}

/// The model's number, as the published root says.
fn version(volume: &Volume) -> usize {
    let root = volume.root();
    if root.is_empty() { 0 } else { u64::from_le_bytes(root.try_into().expect("eight bytes")) as usize }
}

impl History {
    fn begin(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let fleet = Fleet::new(seed, DEVICES);
        let page_bytes = [4096, 16_384][random.range(0..2) as usize];
        let count = 1 + random.range(0..2) as usize;
        drop(fleet.create(count, page_bytes));
        let camera = Camera::new(&fleet, seed ^ 1);
        let volume = open_watched(&fleet, &camera);
        camera.roll().rate = 0.004;
        Self { fleet, camera, volume, random, models: vec![Model::default()], next: count }
    }

    fn step(&mut self) {
        let acknowledged = self.models.len() - 1;
        match self.random.range(0..10) {
            0 => self.add(),
            1 => self.drain(),
            2 | 3 => self.promote(),
            4 => self.evict(),
            5 => self.restart(),
            _ => self.publish(),
        }
        let newest = self.models.len() - 1;
        self.fleet.check(&self.models[newest], &self.volume);
        let pictures = std::mem::take(&mut self.camera.roll().pictures);
        for picture in pictures {
            self.recover(&picture, acknowledged, newest);
        }
    }

    fn publish(&mut self) {
        let mut model = self.models[self.models.len() - 1].clone();
        let page_size = self.volume.page_size();
        let publication = self.volume.begin();
        publication.free(&model.take(&mut self.random, 0.3));
        for _ in 0..self.random.range(1..3) {
            let mut writer = publication.writer();
            let pages = self.random.range(0..3 * page_size.pages_per_chunk());
            model.append(&mut writer, &mut self.random, page_size, pages);
            writer.finish().expect("finished");
        }
        if self.random.chance(0.2) {
            return;
        }
        let root = (self.models.len() as u64).to_le_bytes();
        self.models.push(model);
        publication.commit(&root).expect("committed");
    }

    fn add(&mut self) {
        if self.next == DEVICES {
            return;
        }
        let role = if self.random.chance(0.5) { Role::COPIES } else { Role::HOMES };
        let new = saki_volume::NewDevice {
            device: self.camera.watched(&self.fleet.0[self.next]),
            ..self.fleet.offer(self.next, role)
        };
        self.volume.add_device(new).expect("added");
        self.next += 1;
    }

    /// Drains any device but the first, and takes it away.
    fn drain(&mut self) {
        let devices = self.volume.devices();
        let device = &devices[self.random.range(0..devices.len() as u64) as usize];
        if device.entry.label == label(0) {
            let refused = self.volume.remove_device(device.entry.number);
            assert!(matches!(refused, Err(VolumeError::Refused { .. })), "{refused:?}");
            return;
        }
        self.volume.drain_device(device.entry.number).expect("drained");
        if self.random.chance(0.7) {
            self.volume.remove_device(device.entry.number).expect("removed");
        }
    }

    fn promote(&mut self) {
        let devices = self.volume.devices();
        let Some(device) = devices.iter().find(|it| it.entry.role.copies && !it.entry.role.draining) else { return };
        let chunks = self.some_chunks();
        let count = self.volume.promote(&chunks, device.entry.number).expect("copied");
        assert!(count <= chunks.len());
        self.read_all();
    }

    fn evict(&mut self) {
        let chunks = self.some_chunks();
        self.volume.evict(&chunks);
        self.read_all();
    }

    fn some_chunks(&mut self) -> Vec<ChunkId> {
        let chunks = self.volume.published_chunks().into_iter().map(|it| it.chunk);
        chunks.filter(|_| self.random.chance(0.5)).collect()
    }

    /// A clean restart: copies that fit are taken up again.
    fn restart(&mut self) {
        let hints = self.volume.copy_hints().expect("hints");
        let copies = self.volume.copies();
        self.volume = open_watched(&self.fleet, &self.camera);
        assert_eq!(self.volume.adopt_copies(&hints), copies.len());
        assert_eq!(self.volume.copies(), copies);
        assert_eq!(self.volume.adopt_copies(&hints[1..]), 0);
    }

    /// Reads every page through a lane.
    fn read_all(&self) {
        let model = &self.models[self.models.len() - 1];
        let (arena, mut frames) = Arena::new(8, self.volume.page_size().bytes()).expect("memory");
        let mut lane = PageStore::open_lane(&*self.volume, &arena).expect("opened");
        let (share, mut finished) = (IoShare::new(u32::MAX), Vec::new());
        for page in model.pages.values() {
            let frame = frames.pop().expect("one comes back for each");
            lane.try_read(&share, page.address, frame, 0).map_err(|(_, refusal)| refusal).expect("let in");
            while finished.is_empty() {
                lane.poll(Some(std::time::Duration::from_secs(1)), &mut finished);
            }
            let read = finished.pop().expect("just seen");
            read.result.expect("readable");
            assert_eq!(saki_base::checksum(&read.memory), page.checksum, "{} has other bytes", page.address);
            frames.push(read.memory);
        }
    }

    /// Opens what a power loss left, and goes on.
    fn recover(&mut self, picture: &Fleet, acknowledged: usize, newest: usize) {
        let volume = picture.open().expect("recovers");
        let found = version(&volume);
        assert!((acknowledged..=newest).contains(&found), "{found} after {acknowledged}");
        picture.check(&self.models[found], &volume);
        let mut model = self.models[found].clone();
        let publication = volume.begin();
        publication.free(&model.take(&mut self.random, 0.5));
        let mut writer = publication.writer();
        model.append(&mut writer, &mut self.random, volume.page_size(), 20);
        writer.finish().expect("finished");
        publication.commit(b"12345678").expect("committed");
        drop(volume);
        // Any device of the metadata by itself knows.
        let metadata: Vec<_> = picture.open().expect("opens").devices();
        for device in metadata.iter().filter(|device| device.entry.role.metadata) {
            let again = picture.open_without(device.entry.label[1..].parse().expect("a number"), &[]).expect("opens");
            assert_eq!(again.root(), b"12345678");
            picture.check(&model, &again);
        }
    }
}

fn open_watched(fleet: &Fleet, camera: &Arc<Camera>) -> Arc<Volume> {
    let (devices, watching) = (fleet.0.clone(), Arc::clone(camera));
    let find = move |entry: &saki_volume::DeviceEntry| {
        Ok(watching.watched(&devices[entry.label[1..].parse::<usize>().expect("a number")]))
    };
    let options = OpenOptions {
        find: Some(Arc::new(find)),
        label: Some(label(0)),
        journal_bytes_max: 16 << 10,
        ..OpenOptions::default()
    };
    Volume::open_with(camera.watched(&fleet.0[0]), options).expect("opened")
}

#[test]
fn devices_come_and_go_and_power_is_lost_at_any_instant() {
    let first = std::env::var("SAKI_SEED").ok().and_then(|seed| seed.parse().ok());
    let count = std::env::var("SAKI_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(4);
    let seeds = first.map_or(0..count, |seed: u64| seed..seed + 1);
    for seed in seeds {
        println!("SAKI_SEED={seed}");
        let mut history = History::begin(seed);
        (0..20).for_each(|_| history.step());
        let numbers: Vec<DeviceId> = history.volume.devices().iter().map(|it| it.entry.number).collect();
        assert!(numbers.is_sorted());
    }
}
