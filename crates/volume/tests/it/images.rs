//! Every picture that a power loss may leave of short histories: each write that no flush has covered is there, or
//! not, or in part, in any combination. Histories go over several openings, over processes that are killed, and on
//! from what was found.
//!
//! Each picture opens at the last generation that was acknowledged or at the one whose publication was under way,
//! every page whole, and what is published on it makes pictures that do so as well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use saki_base::{AlignedBuffer, Buffer, PageSize, Random};
use saki_io::{Device, ObservedDevice, Observer, Operation, OperationKind, SimDevice, SimOptions, SimTiming, Wait};
use saki_volume::{Volume, VolumeOptions};

use crate::support::{Model, open};

const BLOCK: usize = 4096;
const SECTOR: usize = 512;
/// With so many unflushed writes or fewer, every subset is looked at.
const ALL_SUBSETS_OF: usize = 5;
/// Of more, so many.
const SAMPLES: u64 = 24;

/// Blocks by their number.
type Content = BTreeMap<u64, Arc<[u8]>>;

#[derive(Clone)]
enum Event {
    Write(u64, Arc<[u8]>),
    Flush,
    /// So many publications have begun.
    Begun(usize),
    /// The publication of this number was acknowledged.
    Acknowledged(usize),
}

/// Keeps what is done to a device, in order.
struct Recorder {
    device: Arc<SimDevice>,
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    fn over(device: &Arc<SimDevice>) -> Arc<Self> {
        Arc::new(Self { device: Arc::clone(device), events: Mutex::default() })
    }

    /// The device, to be used so that it is recorded.
    fn recorded(self: &Arc<Self>) -> Arc<dyn Device> {
        ObservedDevice::new(&self.device, Arc::clone(self))
    }

    fn note(&self, event: Event) {
        self.events().push(event);
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().expect("not poisoned")
    }
}

impl Observer for Recorder {
    fn submitting(&self, _: &SimDevice, operation: &Operation) {
        let event = match (operation.kind, &operation.buffer) {
            (OperationKind::Write, Some(buffer)) => Some(Event::Write(operation.offset, buffer[..].into())),
            (OperationKind::Flush, _) => Some(Event::Flush),
            _ => None,
        };
        self.events().extend(event);
    }
}

/// What a power loss may leave, and what it may be.
struct Picture {
    content: Content,
    acknowledged: usize,
    begun: usize,
}

/// All pictures of what was recorded from event `from` on, beginning with `durable` of generation `acknowledged`.
fn pictures(
    events: &[Event],
    from: usize,
    mut durable: Content,
    acknowledged: usize,
    random: &mut Random,
) -> Vec<Picture> {
    let (mut acknowledged, mut begun) = (acknowledged, acknowledged);
    let mut unflushed: Vec<(u64, &[u8])> = Vec::new();
    let mut pictures = Vec::new();
    for (number, event) in events.iter().enumerate() {
        match event {
            Event::Write(offset, bytes) => {
                let blocks = bytes.chunks(BLOCK).enumerate();
                unflushed.extend(blocks.map(|(index, block)| (offset / BLOCK as u64 + index as u64, block)));
            }
            Event::Begun(version) => begun = *version,
            Event::Acknowledged(version) => acknowledged = *version,
            Event::Flush => {
                if number >= from {
                    for content in subsets(&durable, &unflushed, random) {
                        pictures.push(Picture { content, acknowledged, begun });
                    }
                }
                for (block, bytes) in unflushed.drain(..) {
                    durable.insert(block, bytes.into());
                }
            }
        }
    }
    for content in subsets(&durable, &unflushed, random) {
        pictures.push(Picture { content, acknowledged, begun });
    }
    pictures
}

/// `durable` with subsets of the writes over it, some of them torn at a sector.
fn subsets(durable: &Content, writes: &[(u64, &[u8])], random: &mut Random) -> Vec<Content> {
    let all = writes.len() <= ALL_SUBSETS_OF;
    let count = if all { 1 << writes.len() } else { SAMPLES };
    let mut contents = Vec::new();
    for number in 0..count {
        // Of the samples, the first has none and the second all.
        let mask: Vec<bool> = (0..writes.len())
            .map(|write| match (all, number) {
                (true, _) => number >> write & 1 == 1,
                (false, 0) => false,
                (false, 1) => true,
                (false, _) => random.chance(0.5),
            })
            .collect();
        for torn in [false, true] {
            let mut content = durable.clone();
            for ((block, bytes), is_there) in writes.iter().zip(&mask) {
                let mut mixed = content.get(block).map_or_else(|| vec![0; BLOCK], |old| old.to_vec());
                for sector in 0..BLOCK / SECTOR {
                    // A torn write has any of its sectors.
                    if *is_there && (!torn || random.chance(0.5)) {
                        let range = sector * SECTOR..(sector + 1) * SECTOR;
                        mixed[range.clone()].copy_from_slice(&bytes[range]);
                    }
                }
                content.insert(*block, mixed.into());
            }
            contents.push(content);
            if !mask.contains(&true) {
                break;
            }
        }
    }
    contents
}

fn device_with(content: &Content, length_bytes: u64) -> Arc<SimDevice> {
    let device = SimDevice::new(SimOptions { length_bytes, timing: SimTiming::InOrder, ..SimOptions::default() });
    let mut lane = device.open_lane(None).expect("opened");
    for (block, bytes) in content {
        let mut buffer = AlignedBuffer::new(BLOCK);
        buffer.copy_from_slice(bytes);
        lane.submit(Operation::write(0, block * BLOCK as u64, Buffer::Aligned(buffer)));
    }
    lane.submit(Operation::flush(1));
    lane.poll(Wait::No, &mut Vec::new());
    drop(lane);
    device
}

/// The model's number, as the published root says.
fn version(volume: &Volume) -> usize {
    let root = volume.root();
    if root.is_empty() { 0 } else { u64::from_le_bytes(root.try_into().expect("eight bytes")) as usize }
}

/// Publishes one generation more.
fn publish(volume: &Arc<Volume>, recorder: &Recorder, models: &mut Vec<Model>, random: &mut Random) {
    let number = models.len();
    let mut model = models[number - 1].clone();
    recorder.note(Event::Begun(number));
    let publication = volume.begin();
    publication.free(&model.take(random, 0.6));
    for _ in 0..random.range(1..3) {
        let mut writer = publication.writer();
        let count = random.range(0..12);
        model.append(&mut writer, random, volume.page_size(), count);
        writer.finish().expect("finished");
    }
    models.push(model);
    publication.commit(&(number as u64).to_le_bytes()).expect("committed");
    recorder.note(Event::Acknowledged(number));
}

struct History {
    random: Random,
    pictures: u64,
}

impl History {
    /// The process ends after some event, with what it wrote in the system's cache; the next one goes on from there,
    /// and then the power goes.
    fn kill(&mut self, recorder: &Recorder, base: &Content, models: &[Model], times: u32) {
        let events = recorder.events().clone();
        for _ in 0..times {
            let end = self.random.range(0..events.len() as u64 + 1) as usize;
            let mut cached = base.clone();
            for event in &events[..end] {
                if let Event::Write(offset, bytes) = event {
                    let blocks = (offset / BLOCK as u64..).zip(bytes.chunks(BLOCK));
                    cached.extend(blocks.map(|(block, bytes)| (block, bytes.into())));
                }
            }
            let device = device_with(&cached, recorder.device.length_bytes().expect("known"));
            let recorder = Recorder::over(&device);
            recorder.events().extend(events[..end].iter().cloned());
            let volume = Volume::open(recorder.recorded()).expect("opens");
            let mut models = models[..=version(&volume)].to_vec();
            for _ in 0..self.random.range(1..3) {
                publish(&volume, &recorder, &mut models, &mut self.random);
            }
            drop(volume);
            self.look_at(&recorder, end, base.clone(), 0, &models, 0);
        }
    }

    /// Opens each picture of the events from `from` on, checks it, and goes on from some of them, `depth` times.
    fn look_at(&mut self, recorder: &Recorder, from: usize, base: Content, first: usize, models: &[Model], depth: u32) {
        let events = std::mem::take(&mut *recorder.events());
        let length = recorder.device.length_bytes().expect("known");
        let pictures = pictures(&events, from, base, first, &mut self.random);
        // Of the second generation of pictures on, so many altogether.
        let share = if depth == 0 { 0.0 } else { (8.0 / pictures.len() as f64).min(1.0) };
        for (number, picture) in pictures.into_iter().enumerate() {
            self.pictures += 1;
            let device = device_with(&picture.content, length);
            let recorder = Recorder::over(&device);
            let opened = Volume::open(recorder.recorded());
            let volume = opened.unwrap_or_else(|error| panic!("picture {number}, depth {depth}: {error}"));
            let found = version(&volume);
            let (low, high) = (picture.acknowledged, picture.begun);
            assert!((low..=high).contains(&found), "picture {number}, depth {depth}: {found}, not {low} to {high}");
            models[found].check(&volume, &device);
            if self.random.chance(share) {
                let mut models = models[..=found].to_vec();
                for _ in 0..self.random.range(1..3) {
                    publish(&volume, &recorder, &mut models, &mut self.random);
                }
                drop(volume);
                self.look_at(&recorder, 0, picture.content, found, &models, depth - 1);
            }
        }
    }
}

fn run(seed: u64, rounds: usize) -> u64 {
    let mut random = Random::new(seed);
    let device = SimDevice::new(SimOptions { length_bytes: 0, timing: SimTiming::InOrder, ..SimOptions::default() });
    let page_size = PageSize::new([4096, 8192][seed as usize % 2]).expect("valid");
    // So small that journals are begun anew.
    let journal_bytes_max = 8 << 10;
    let options = VolumeOptions { journal_bytes_max, database_id: Some(7), ..VolumeOptions::new(page_size) };
    drop(Volume::create(Arc::clone(&device) as Arc<dyn Device>, options).expect("created"));
    let base = content_of(&device);
    let recorder = Recorder::over(&device);
    let mut models = vec![Model::default()];
    for _ in 0..rounds {
        let options = saki_volume::OpenOptions { journal_bytes_max, ..saki_volume::OpenOptions::default() };
        let volume = Volume::open_with(recorder.recorded(), options).expect("opens");
        for _ in 0..random.range(1..4) {
            publish(&volume, &recorder, &mut models, &mut random);
        }
    }
    models[models.len() - 1].check(&open(&device).expect("opens"), &device);
    let mut history = History { random, pictures: 0 };
    history.kill(&recorder, &base, &models, 12);
    history.look_at(&recorder, 0, base, 0, &models, 2);
    history.pictures
}

fn content_of(device: &SimDevice) -> Content {
    let mut content = Content::new();
    for block in 0..device.length_bytes().expect("known") / BLOCK as u64 {
        let mut bytes = vec![0; BLOCK];
        device.peek(block * BLOCK as u64, &mut bytes);
        if bytes.iter().any(|byte| *byte != 0) {
            content.insert(block, bytes.into());
        }
    }
    content
}

#[test]
fn every_picture_of_a_power_loss_opens_at_what_was_acknowledged_or_under_way() {
    let seeds = std::env::var("SAKI_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let mut pictures = 0;
    for seed in 0..seeds {
        println!("seed {seed}");
        pictures += run(seed, 2);
    }
    assert!(pictures > 500 * seeds, "{pictures} pictures");
}

/// A picture of a volume being made is no volume, or an empty one.
#[test]
fn a_volume_that_is_being_made_is_none_yet_or_empty() {
    let device = SimDevice::new(SimOptions { length_bytes: 0, timing: SimTiming::InOrder, ..SimOptions::default() });
    let recorder = Recorder::over(&device);
    let options = VolumeOptions::new(PageSize::new(4096).expect("valid"));
    drop(Volume::create(recorder.recorded(), options).expect("created"));
    let events = std::mem::take(&mut *recorder.events());
    let length = device.length_bytes().expect("known");
    let mut empty = 0;
    for picture in pictures(&events, 0, Content::new(), 0, &mut Random::new(1)) {
        if let Ok(volume) = open(&device_with(&picture.content, length)) {
            Model::default().check(&volume, &device);
            assert!(volume.root().is_empty());
            empty += 1;
        }
    }
    assert!(empty > 4, "{empty}");
}
