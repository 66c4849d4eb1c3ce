//! What happens when the device fails, fills up, or has been damaged.

use std::sync::Arc;
use std::time::Duration;

use saki_base::Random;
use saki_io::{Device, OperationKind, SimDevice, SimOptions};
use saki_volume::{Volume, VolumeError, VolumeOptions};

use crate::support::{Model, create, device, open, slots};

fn publish(volume: &Arc<Volume>, model: &Model, random: &mut Random, count: u64) -> Result<Model, VolumeError> {
    let mut next = model.clone();
    let publication = volume.begin();
    let mut writer = publication.writer();
    for _ in 0..count {
        let page = writer.append(crate::support::PART, &crate::support::page(random, volume.page_size()))?;
        next.pages.insert(page.address, page);
    }
    writer.finish()?;
    publication.commit(b"root")?;
    Ok(next)
}

#[test]
fn each_kind_of_wrong_file_has_its_own_answer() {
    let empty = SimDevice::new(SimOptions { length_bytes: 0, ..SimOptions::default() });
    assert!(matches!(open(&empty), Err(VolumeError::NotADatabase { .. })));
    let zeros = SimDevice::new(SimOptions::default());
    assert!(matches!(open(&zeros), Err(VolumeError::NotADatabase { .. })));

    let made = || {
        let device = device(3);
        create(&device, 8192);
        device
    };
    let again = VolumeOptions::new(saki_base::PageSize::new(4096).expect("valid"));
    assert!(matches!(Volume::create(made() as Arc<dyn Device>, again), Err(VolumeError::AlreadyADatabase { .. })));
    // The version, in all superblocks.
    let places = [0, 256 << 10, 512 << 10, 896 << 10];
    let other_version = made();
    places.iter().for_each(|place| other_version.flip_bit(place + 9, 0));
    assert!(matches!(open(&other_version), Err(VolumeError::UnsupportedVersion { found: 262, supported: 6, .. })));
    let damaged = made();
    places.iter().for_each(|place| damaged.flip_bit(place + 2000, 0));
    assert!(matches!(open(&damaged), Err(VolumeError::Corrupt { .. })));
}

#[test]
fn a_file_cut_short_is_noticed() {
    let (device, mut random) = (device(3), Random::new(3));
    let volume = create(&device, 8192);
    publish(&volume, &Model::default(), &mut random, 1000).expect("published");
    drop(volume);
    let copy_of = |length: u64| {
        let short = SimDevice::new(SimOptions { length_bytes: length, ..SimOptions::default() });
        let mut lane = short.open_lane(None).expect("opened");
        let mut bytes = saki_base::AlignedBuffer::new(length as usize);
        device.peek(0, &mut bytes);
        let buffer = Some(saki_base::Buffer::Aligned(bytes));
        lane.submit(saki_io::Operation { kind: OperationKind::Write, token: 0, offset: 0, buffer });
        lane.poll(saki_io::Wait::No, &mut Vec::new());
        drop(lane);
        short
    };
    for length in [slots(4), slots(1), 600 << 10, 8192] {
        let opened = open(&copy_of(length));
        assert!(matches!(opened, Err(VolumeError::Truncated { .. })), "{length}: {:?}", opened.err());
    }
    assert!(matches!(open(&copy_of(1024)), Err(VolumeError::NotADatabase { .. })));
}

#[test]
fn a_superblock_cut_short_leaves_the_generation_before() {
    let (device, mut random) = (device(3), Random::new(3));
    let volume = create(&device, 8192);
    let mut models = vec![Model::default()];
    for round in 1..40 {
        let publication = volume.begin();
        let mut next: Model = models[round - 1].clone();
        publication.free(&next.take(&mut random, 0.7));
        let mut writer = publication.writer();
        next.append(&mut writer, &mut random, volume.page_size(), 200);
        writer.finish().expect("finished");
        publication.commit(&[round as u8]).expect("committed");
        models.push(next);
        // The next one's first place is half written.
        let copy = device.crash(round as u64);
        let place = if volume.generation().0.is_multiple_of(2) { 512 << 10 } else { 0 };
        copy.flip_bit(place + 999, 1);
        let older = open(&copy).expect("opens");
        assert_eq!(older.root(), [round as u8]);
        models[round].check(&older, &copy);
    }
}

#[test]
fn a_full_device_loses_nothing_and_recovers() {
    let device = SimDevice::new(SimOptions { length_bytes: 0, length_bytes_max: slots(20), ..SimOptions::default() });
    let mut random = Random::new(3);
    let volume = create(&device, 8192);
    let mut model = publish(&volume, &Model::default(), &mut random, 128 * 10).expect("published");
    for _ in 0..3 {
        assert!(matches!(publish(&volume, &model, &mut random, 128 * 10), Err(VolumeError::Full { .. })));
        model.check(&volume, &device);
    }
    // Freeing needs no room; what is freed can be used by the very next publication.
    for _ in 0..5 {
        let publication = volume.begin();
        publication.free(&model.take(&mut random, 1.0));
        publication.commit(b"dropped").expect("committed");
        model = publish(&volume, &model, &mut random, 128 * 15).expect("published");
        model.check(&volume, &device);
    }
    drop(volume);
    model.check(&open(&device).expect("opens"), &device);
}

#[test]
fn a_failing_device_fails_the_publish_and_keeps_the_rest() {
    let (device, mut random) = (device(3), Random::new(3));
    let volume = create(&device, 8192);
    let mut model = publish(&volume, &Model::default(), &mut random, 300).expect("published");
    for kind in [OperationKind::Write, OperationKind::Flush] {
        device.faults().fail_next(kind, 1);
        assert!(matches!(publish(&volume, &model, &mut random, 300), Err(VolumeError::Device(_))));
        model.check(&volume, &device);
        model = publish(&volume, &model, &mut random, 300).expect("published once the device is well");
    }
    device.faults().set_full(true);
    assert!(matches!(publish(&volume, &model, &mut random, 3000), Err(VolumeError::Full { .. })));
    device.faults().set_full(false);
    device.faults().set_read_only(true);
    assert!(matches!(publish(&volume, &model, &mut random, 3), Err(VolumeError::Device(_))));
    device.faults().set_read_only(false);
    model = publish(&volume, &model, &mut random, 300).expect("published");
    drop(volume);
    model.check(&open(&device).expect("opens"), &device);
}

#[test]
fn a_superblock_that_may_or_may_not_be_written_stops_publishing() {
    let (device, mut random) = (device(3), Random::new(3));
    let volume = create(&device, 8192);
    let model = publish(&volume, &Model::default(), &mut random, 30).expect("published");
    let offset = if (volume.generation().0 + 1).is_multiple_of(2) { 0 } else { 512 << 10 };
    device.faults().fail_range(offset..offset + 4096);
    for _ in 0..2 {
        let failed = publish(&volume, &model, &mut random, 30);
        assert!(matches!(failed, Err(VolumeError::PublishOutcomeUnknown { .. })));
        device.faults().heal();
    }
    model.check_pages(&volume, &device);
    drop(volume);
    let volume = open(&device).expect("opens");
    // Either generation may be there.
    assert!([30, 60].contains(&volume.stats().live_pages));
    model.check_pages(&volume, &device);
    publish(&volume, &model, &mut random, 30).expect("published");
}

#[test]
fn a_superblock_that_fails_for_a_while_is_written_again() {
    let (device, mut random) = (device(3), Random::new(3));
    let volume = create(&device, 8192);
    let mut model = publish(&volume, &Model::default(), &mut random, 30).expect("published");
    for is_full in [false, false, true, true] {
        let offset = if (volume.generation().0 + 1).is_multiple_of(2) { 0 } else { 512 << 10 };
        if is_full {
            device.faults().fill_range(offset..offset + 4096);
        } else {
            device.faults().fail_range(offset..offset + 4096);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                device.faults().heal();
            });
            model = publish(&volume, &model, &mut random, 30).expect("published once the device is well");
        });
        model.check(&open(&device.crash(1)).expect("opens"), &device.crash(1));
    }
}

#[test]
fn a_rotten_journal_is_an_error_and_never_another_map() {
    let (device, mut random) = (device(3), Random::new(3));
    let volume = create(&device, 8192);
    let mut model = Model::default();
    for _ in 0..3 {
        model = publish(&volume, &model, &mut random, 300).expect("published");
    }
    drop(volume);
    // The journal is found by its blocks' marks; one bit of each block's used part is flipped.
    let mut blocks = 0;
    for offset in (0..device.length_bytes().expect("known")).step_by(4096) {
        let mut block = vec![0; 4096];
        device.peek(offset, &mut block);
        if block[8..12] != *b"SKJB" {
            continue;
        }
        blocks += 1;
        let copy = device.crash(1);
        copy.flip_bit(offset + random.range(0..56), random.range(0..8) as u8);
        assert!(matches!(open(&copy), Err(VolumeError::Corrupt { .. })));
    }
    assert_eq!(blocks, 3);
}
