//! Superblocks and journals that rot: found, mended or refused by name. What opens without being told to accept a
//! loss is the newest generation, never an older one.

use std::sync::Arc;

use saki_base::{AlignedBuffer, Arena, Buffer, GenerationNumber, Random, checksum};
use saki_io::{Device, DeviceError, Lane, Operation, SimDevice, Wait};
use saki_volume::{OpenOptions, Volume, VolumeError};

use crate::support::{Model, create, device, open};

/// The places of the superblocks of even generations and of odd ones.
const PLACES: [[u64; 2]; 2] = [[0, 256 << 10], [512 << 10, 896 << 10]];
const BLOCK: u64 = 4096;

fn places_of(generation: GenerationNumber) -> [u64; 2] {
    PLACES[(generation.0 % 2) as usize]
}

/// A volume of so many publications, closed, and what the last two hold.
fn filled(seed: u64, publications: u64) -> (Arc<SimDevice>, Model, Model) {
    let (device, mut random) = (device(seed), Random::new(seed));
    let volume = create(&device, 4096);
    let (mut before, mut model) = (Model::default(), Model::default());
    for number in 1..=publications {
        before = model.clone();
        publish(&volume, &mut model, &mut random, number as u8);
    }
    (device, before, model)
}

fn publish(volume: &Arc<Volume>, model: &mut Model, random: &mut Random, root: u8) {
    let publication = volume.begin();
    publication.free(&model.take(random, 0.6));
    let mut writer = publication.writer();
    model.append(&mut writer, random, volume.page_size(), 30);
    writer.finish().expect("finished");
    publication.commit(&[root]).expect("committed");
}

fn write(device: &SimDevice, offset: u64, bytes: &[u8]) {
    let mut buffer = AlignedBuffer::new(bytes.len());
    buffer.copy_from_slice(bytes);
    let mut lane = device.open_lane(None).expect("opened");
    lane.submit(Operation::write(0, offset, Buffer::Aligned(buffer)));
    lane.submit(Operation::flush(1));
    let mut completions = Vec::new();
    while completions.len() < 2 {
        lane.poll(Wait::No, &mut completions);
    }
}

fn accept_loss(device: &Arc<SimDevice>) -> Result<Arc<Volume>, VolumeError> {
    let options = OpenOptions { accept_loss: true, ..OpenOptions::default() };
    Volume::open_with(Arc::clone(device) as Arc<dyn Device>, options)
}

/// The same device, for reading only: opening it changes nothing.
struct ReadOnly(Arc<SimDevice>);

impl Device for ReadOnly {
    fn name(&self) -> String {
        self.0.name()
    }
    fn length_bytes(&self) -> Result<u64, DeviceError> {
        self.0.length_bytes()
    }
    fn block_bytes(&self) -> usize {
        self.0.block_bytes()
    }
    fn read_only(&self) -> bool {
        true
    }
    fn ensure_length(&self, _bytes: u64) -> Result<(), DeviceError> {
        Err(DeviceError::ReadOnly { device: self.name() })
    }
    fn open_lane(&self, arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        self.0.open_lane(arena)
    }
}

/// Blocks of the journal, by their mark.
fn journal_blocks(device: &SimDevice) -> Vec<u64> {
    let is_journal = |offset: &u64| {
        let mut block = vec![0; BLOCK as usize];
        device.peek(*offset, &mut block);
        block[8..12] == *b"SKJB"
    };
    (0..device.length_bytes().expect("known")).step_by(BLOCK as usize).filter(is_journal).collect()
}

#[test]
fn every_flipped_bit_of_superblocks_and_journal_is_found_or_harmless() {
    // Each bit of a byte comes up, whatever the stride; `SAKI_STRIDE=1` is all of them.
    let stride = std::env::var("SAKI_STRIDE").ok().and_then(|text| text.parse().ok()).unwrap_or(37);
    for (seed, publications) in [(1, 1), (2, 4), (3, 9), (4, 12)] {
        let (device, _, model) = filled(seed, publications);
        let superblocks = PLACES.into_iter().flatten();
        let (mut refused, mut reported) = (0, 0);
        for block in superblocks.chain(journal_blocks(&device)) {
            for bit in (0..BLOCK * 8).step_by(stride) {
                device.flip_bit(block + bit / 8, (bit % 8) as u8);
                match Volume::open(Arc::new(ReadOnly(Arc::clone(&device)))) {
                    Ok(volume) => {
                        assert_eq!(volume.root(), [publications as u8], "bit {bit} of the block at {block}");
                        let is_superblock = PLACES.into_iter().flatten().any(|place| place == block);
                        let damages = volume.superblock_damages().iter().map(|damage| damage.offset);
                        assert!(damages.eq(is_superblock.then_some(block)), "bit {bit} of the block at {block}");
                        reported += u64::from(is_superblock);
                        if bit % 97 == 0 {
                            model.check(&volume, &device);
                        }
                    }
                    Err(VolumeError::Corrupt { .. }) => refused += 1,
                    Err(error) => panic!("bit {bit} of the block at {block}: {error}"),
                }
                device.flip_bit(block + bit / 8, (bit % 8) as u8);
            }
        }
        let per_block = (BLOCK * 8).div_ceil(stride as u64);
        assert!(reported == 4 * per_block && refused > 0, "{reported} reported, {refused} refused");
    }
}

#[test]
fn opening_for_writing_mends_a_superblock() {
    let mut random = Random::new(1);
    for place in PLACES.into_iter().flatten() {
        let (device, _, mut model) = filled(1, 5);
        device.flip_bit(place + random.range(0..BLOCK), random.range(0..8) as u8);
        let volume = open(&device).expect("opens");
        let damages = volume.superblock_damages();
        assert!(damages.len() == 1 && damages[0].offset == place, "{damages:?}");
        assert!(damages[0].to_string().contains(&format!("byte {place}")), "{}", damages[0]);
        model.check(&volume, &device);
        drop(volume);
        // Whichever power loss follows, all is as it was; and it goes on.
        let device = device.crash(1);
        let volume = open(&device).expect("opens");
        assert_eq!(volume.superblock_damages(), []);
        publish(&volume, &mut model, &mut random, 6);
        model.check(&volume, &device);
    }
}

#[test]
fn a_newest_generation_without_a_superblock_is_refused_and_never_gone_back_on_in_silence() {
    for publications in 1..8 {
        let (device, before, model) = filled(publications, publications);
        let generation = open(&device).expect("opens").generation();
        for place in places_of(generation) {
            device.flip_bit(place + 300, 2);
        }
        let error = open(&device).err().expect("refused");
        let VolumeError::GenerationLost { generation: readable, places, .. } = &error else { panic!("{error}") };
        assert_eq!((readable.0, *places), (generation.0 - 1, places_of(generation)));
        assert!(error.to_string().contains("accept the loss"), "{error}");
        // Accepted, all of the generation before is there, and from then on it is what there was.
        let volume = accept_loss(&device).expect("opens");
        before.check(&volume, &device);
        assert!(before != model && volume.root().first().copied().unwrap_or(0) == publications as u8 - 1);
        let mut model = before;
        publish(&volume, &mut model, &mut Random::new(3), 99);
        drop(volume);
        let volume = open(&device.crash(1)).expect("opens");
        assert_eq!(volume.root(), [99]);
        model.check(&volume, &device);
    }
}

/// Also of the generation before the newest, so that even its loss is noticed as what it is.
#[test]
fn an_older_generation_without_a_superblock_is_taken_for_a_lost_newer_one() {
    let (device, _, model) = filled(3, 4);
    let generation = open(&device).expect("opens").generation();
    for place in places_of(GenerationNumber(generation.0 - 1)) {
        device.flip_bit(place + 300, 2);
    }
    assert!(matches!(open(&device), Err(VolumeError::GenerationLost { .. })));
    let volume = accept_loss(&device).expect("opens");
    model.check(&volume, &device);
}

/// What the generation before the newest needs stays where it is until there is a next one, whoever opens the volume
/// meanwhile.
#[test]
fn the_generation_before_the_newest_stays_whole_across_openings() {
    for publications in [2, 3, 5, 8, 11] {
        let (device, before, mut model) = filled(40 + publications, publications);
        let mut random = Random::new(publications);
        // The slots that are free are written to, the lowest ones first.
        let volume = open(&device).expect("opens");
        let generation = volume.generation();
        let publication = volume.begin();
        let mut writer = publication.writer();
        let pages = 12 * volume.page_size().pages_per_chunk();
        model.append(&mut writer, &mut random, volume.page_size(), pages);
        writer.finish().expect("finished");
        drop(publication);
        drop(volume);
        for place in places_of(generation) {
            device.flip_bit(place + 300, 2);
        }
        let volume = accept_loss(&device).expect("opens");
        before.check(&volume, &device);
    }
}

#[test]
fn a_copy_that_cannot_be_written_is_made_up_for() {
    let (device, _, mut model) = filled(5, 3);
    let mut random = Random::new(5);
    let volume = open(&device).expect("opens");
    let [_, second] = places_of(GenerationNumber(volume.generation().0 + 1));
    device.faults().fail_range(second..second + BLOCK);
    // The generation is durable all the same.
    publish(&volume, &mut model, &mut random, 10);
    model.check(&open(&device.crash(1)).expect("opens"), &device);
    // The next one must wait for the copy.
    let publication = volume.begin();
    assert!(matches!(publication.commit(b"refused"), Err(VolumeError::Device(_))));
    assert_eq!(volume.root(), [10]);
    device.faults().heal();
    publish(&volume, &mut model, &mut random, 11);
    drop(volume);
    for place in PLACES.into_iter().flatten() {
        let copy = device.crash(1);
        copy.flip_bit(place, 0);
        let volume = open(&copy).expect("opens");
        assert_eq!(volume.root(), [11]);
        model.check(&volume, &copy);
    }
}

/// As version 1 wrote it: one superblock a generation.
fn as_version_1(device: &SimDevice) {
    for [first, second] in PLACES {
        let mut bytes = vec![0; BLOCK as usize];
        device.peek(first, &mut bytes);
        bytes[8] = 1;
        // The root lay behind eight tails.
        bytes.copy_within(976..1232, 208);
        bytes[976..1232].fill(0);
        let sum = checksum(&bytes[..4088]);
        bytes[4088..].copy_from_slice(&sum.to_le_bytes());
        write(device, first, &bytes);
        write(device, second, &[0; BLOCK as usize]);
    }
}

#[test]
fn a_volume_of_version_1_opens_and_is_given_its_copies() {
    let (device, _, mut model) = filled(6, 5);
    as_version_1(&device);
    let read_only = Volume::open(Arc::new(ReadOnly(Arc::clone(&device)))).expect("opens");
    assert_eq!((read_only.root(), read_only.superblock_damages()), (vec![5], [].as_slice()));
    let volume = open(&device).expect("opens");
    model.check(&volume, &device);
    let [first, _] = places_of(volume.generation());
    drop(volume);
    device.flip_bit(first + 77, 3);
    let volume = open(&device).expect("opens by the copy");
    model.check(&volume, &device);
    publish(&volume, &mut model, &mut Random::new(6), 6);
    drop(volume);
    model.check(&open(&device).expect("opens"), &device);
}

/// A torn superblock and a rotten one look alike where there is no copy.
#[test]
fn a_volume_of_version_1_with_a_damaged_superblock_is_refused() {
    let (device, before, _) = filled(7, 5);
    let generation = open(&device).expect("opens").generation();
    as_version_1(&device);
    device.flip_bit(places_of(generation)[0] + 500, 1);
    assert!(matches!(open(&device), Err(VolumeError::GenerationLost { .. })));
    before.check(&accept_loss(&device).expect("opens"), &device);
}

#[test]
fn superblocks_of_another_database_are_refused() {
    let (device, ..) = filled(8, 3);
    let other = crate::support::device(9);
    let options = saki_volume::VolumeOptions::new(saki_base::PageSize::new(4096).expect("valid"));
    drop(Volume::create(Arc::clone(&other) as Arc<dyn Device>, options).expect("created"));
    let mut bytes = vec![0; 2 * BLOCK as usize];
    other.peek(256 << 10, &mut bytes);
    write(&device, 256 << 10, &bytes);
    let error = open(&device).err().expect("refused");
    assert!(error.to_string().contains("different databases"), "{error}");
}
