//! One promise each: devices that are missing, wrong, doubled, foreign or too small; draining and removing; copies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use saki_base::{DeviceId, Random};
use saki_io::{Device, OperationKind, SimDevice, SimOptions};
use saki_page::{IoShare, PageCache, PagePort, PageStore};
use saki_volume::{Class, NewDevice, OpenOptions, Role, Volume, VolumeError, VolumeOptions};

use crate::fleet::{Fleet, label};
use crate::support::Model;

fn publish(volume: &Arc<Volume>, model: &mut Model, pages: u64) {
    let publication = volume.begin();
    let mut writer = publication.writer();
    model.append(&mut writer, &mut Random::new(pages), volume.page_size(), pages);
    writer.finish().expect("finished");
    publication.commit(b"root").expect("committed");
}

/// A volume on so many devices, with some chunks on each.
fn filled(seed: u64, count: usize) -> (Fleet, Arc<Volume>, Model) {
    let fleet = Fleet::new(seed, count + 2);
    let volume = fleet.create(count, 8192);
    let mut model = Model::default();
    publish(&volume, &mut model, 128 * 3 * count as u64);
    (fleet, volume, model)
}

#[test]
fn chunks_are_spread_over_the_devices_and_found_again() {
    let (fleet, volume, model) = filled(1, 3);
    fleet.check(&model, &volume);
    let devices = volume.devices();
    assert!(devices.iter().all(|device| device.slots.homes >= 2), "{devices:?}");
    let metadata: Vec<_> = devices.iter().map(|device| device.entry.role.metadata).collect();
    assert_eq!(metadata, [true, true, false], "superblocks and journal lie on two devices");
    drop(volume);
    for by in [0, 1] {
        let volume = fleet.open_without(by, &[]).expect("opened");
        assert_eq!(volume.root(), b"root");
        fleet.check(&model, &volume);
    }
    assert!(matches!(fleet.open_without(2, &[]), Err(VolumeError::NotADatabase { .. })));
}

#[test]
fn what_finds_the_rest_lies_on_the_first_device_until_that_is_drained() {
    let (fleet, volume, mut model) = filled(16, 3);
    let homes = |volume: &Arc<Volume>, model: &mut Model, seed: u64| {
        let before: Vec<_> = model.pages.keys().copied().collect();
        let publication = volume.begin();
        let mut writer = publication.metadata_writer();
        model.append(&mut writer, &mut Random::new(seed), volume.page_size(), 128 * 4);
        writer.finish().expect("finished");
        publication.commit(b"root").expect("committed");
        let added = model.pages.iter().filter(|(key, _)| !before.contains(key));
        added.map(|(_, page)| volume.locate(page.address).expect("mapped").device).collect::<BTreeSet<_>>()
    };
    assert!(volume.devices()[0].slots.homes > 0);
    assert_eq!(homes(&volume, &mut model, 1), BTreeSet::from([DeviceId(0)]), "though others are emptier");
    volume.drain_device(DeviceId(0)).expect("drained");
    assert_eq!(homes(&volume, &mut model, 2), BTreeSet::from([DeviceId(1)]), "the other with superblocks");
    fleet.check(&model, &volume);
}

#[test]
fn what_lies_on_a_missing_device_fails_by_name_and_the_rest_is_readable() {
    let (fleet, volume, model) = filled(2, 3);
    drop(volume);
    let volume = fleet.open_without(0, &[2]).expect("degraded");
    let missing = volume.missing_devices();
    assert_eq!(missing.len(), 1);
    assert!(missing[0].0 == "d2" && missing[0].1.contains("no such file"), "{missing:?}");
    let (mut there, mut gone) = (0, 0);
    let cache = PageCache::new(volume.page_size(), 64).expect("memory");
    let store: Arc<dyn PageStore> = Arc::clone(&volume) as _;
    let mut port = PagePort::new(&cache, &store).expect("opened");
    let (share, reader) = (IoShare::new(u32::MAX), cache.reader());
    for page in model.pages.values() {
        match port.read(&share, &reader, *page) {
            Ok(_) => there += 1,
            Err(error) => {
                assert!(error.to_string().contains("d2"), "{error}");
                gone += 1;
            }
        }
    }
    assert!(there > 0 && gone > 0, "{there} pages there, {gone} gone");
    // It does not hold metadata, so the database is changed all the same.
    let mut more = model.clone();
    publish(&volume, &mut more, 300);
    let refused = volume.remove_device(DeviceId(2)).expect_err("data lies there");
    assert!(refused.to_string().contains("bring it back"), "{refused}");
    drop((port, volume));
    let volume = fleet.open().expect("it is back");
    fleet.check(&more, &volume);
}

#[test]
fn without_a_device_of_the_metadata_nothing_is_published_until_it_is_given_up() {
    let fleet = Fleet::new(3, 3);
    let volume = fleet.create(1, 8192);
    let mut model = Model::default();
    publish(&volume, &mut model, 100);
    volume.add_device(fleet.offer(1, Role::HOMES)).expect("added");
    drop(volume);
    let volume = fleet.open_without(0, &[1]).expect("degraded");
    assert_eq!(volume.root(), b"root");
    let publication = volume.begin();
    let refused = publication.commit(b"other").expect_err("the other would not have it");
    assert!(matches!(refused, VolumeError::MissingDevice { .. }) && refused.to_string().contains("d1"), "{refused}");
    assert!(matches!(volume.remove_device(DeviceId(1)), Ok(())));
    publish(&volume, &mut model, 50);
    fleet.check(&model, &volume);
    drop(volume);
    let refused = fleet.open_without(1, &[]).map(drop).expect_err("it is stale");
    assert!(matches!(refused, VolumeError::WrongDevice { .. }), "{refused}");
}

#[test]
fn wrong_foreign_doubled_and_short_devices_are_refused_by_name() {
    let (fleet, volume, _) = filled(4, 3);
    let (other, foreign, _) = filled(5, 2);
    drop((volume, foreign));
    let open_with = |second: Arc<SimDevice>| {
        let devices = [Arc::clone(&fleet.0[0]), second, Arc::clone(&fleet.0[2])];
        Fleet(devices.to_vec()).open().map(drop).expect_err("refused")
    };
    let cases = [
        (Arc::clone(&other.0[1]), "belongs to the database"),
        (Arc::clone(&fleet.0[2]), "it is device 2"),
        (Arc::clone(&fleet.0[0]), "it is device 0"),
        (SimDevice::new(SimOptions { seed: 77, ..SimOptions::default() }), "no label"),
        (SimDevice::new(SimOptions { seed: 78, length_bytes: 4096, ..SimOptions::default() }), "cut short"),
    ];
    for (device, expected) in cases {
        let name = device.name();
        let refused = open_with(device).to_string();
        assert!(refused.contains(expected) && refused.contains(&name), "{expected}: {refused}");
    }
    let volume = fleet.open().expect("opened");
    for taken in [&fleet.0[1], &other.0[0]] {
        let new = NewDevice::new(Arc::clone(taken) as Arc<dyn Device>, "new");
        assert!(matches!(volume.add_device(new), Err(VolumeError::AlreadyADatabase { .. })));
    }
    let twice = volume.add_device(fleet.offer(1, Role::HOMES));
    assert!(matches!(twice, Err(VolumeError::Refused { .. })), "{twice:?}");
    assert_eq!(volume.devices().len(), 3);
    let doubled = vec![other.offer(2, Role::HOMES), other.offer(2, Role::HOMES)];
    let options = VolumeOptions::new(volume.page_size());
    assert!(matches!(Volume::create_on(doubled, options), Err(VolumeError::Refused { .. })));
}

#[test]
fn one_damaged_label_costs_nothing_and_is_mended() {
    let (fleet, volume, model) = filled(6, 2);
    drop(volume);
    fleet.0[1].flip_bit((128 << 10) + 13, 2);
    let volume = fleet.open().expect("the other label is whole");
    fleet.check(&model, &volume);
    drop(volume);
    fleet.0[1].flip_bit((640 << 10) + 13, 2);
    fleet.check(&model, &fleet.open().expect("both were whole again"));
    for place in [128 << 10, 640 << 10] {
        fleet.0[1].flip_bit(place + 20, 2);
    }
    assert!(matches!(fleet.open(), Err(VolumeError::WrongDevice { .. })));
}

#[test]
fn a_drained_device_has_nothing_and_can_be_taken_away() {
    let (fleet, volume, mut model) = filled(7, 2);
    let before = volume.devices()[0].slots.homes;
    assert!(matches!(volume.remove_device(DeviceId(1)), Err(VolumeError::Refused { .. })), "it has not been drained");
    let third = volume.add_device(fleet.offer(2, Role::HOMES)).expect("added");
    // The device by which the database was opened, and a generation that is read meanwhile.
    let held = volume.hold();
    assert_eq!(volume.drain_device(DeviceId(0)).expect("drained"), before);
    fleet.check(&model, &volume);
    drop(held);
    publish(&volume, &mut model, 500);
    let devices = volume.devices();
    assert_eq!(devices[0].slots.homes, 0);
    assert!(devices[0].entry.role.draining && devices[2].slots.homes > 0);
    volume.remove_device(DeviceId(0)).expect("removed");
    fleet.check(&model, &volume);
    drop(volume);
    assert!(matches!(fleet.open_without(0, &[]), Err(VolumeError::NotADatabase { .. })), "it is nobody's");
    let volume = fleet.open_without(1, &[]).expect("opened");
    assert_eq!(volume.devices().iter().map(|it| it.entry.number).collect::<Vec<_>>(), [DeviceId(1), third]);
    fleet.check(&model, &volume);
    volume.add_device(fleet.offer(0, Role::HOMES)).expect("it may come back as a new one");
    volume.drain_device(third).expect("drained");
    let last = volume.drain_device(DeviceId(1)).and_then(|_| volume.drain_device(DeviceId(0)));
    assert!(matches!(last, Err(VolumeError::Refused { .. })), "nothing else would take it: {last:?}");
    fleet.check(&model, &volume);
}

#[test]
fn a_device_that_fails_while_it_is_drained_keeps_its_homes() {
    let (fleet, volume, mut model) = filled(8, 2);
    for (device, kind) in [(1, OperationKind::Read), (0, OperationKind::Write), (0, OperationKind::Flush)] {
        fleet.0[device].faults().fail_next(kind, 1);
        let failed = volume.drain_device(DeviceId(1));
        if kind != OperationKind::Flush {
            assert!(failed.is_err(), "{kind:?}");
        }
        fleet.0[device].faults().heal();
        fleet.check(&model, &volume);
    }
    drop(volume);
    let volume = fleet.open().expect("opened");
    fleet.check(&model, &volume);
    volume.drain_device(DeviceId(1)).expect("drained");
    publish(&volume, &mut model, 100);
    fleet.check(&model, &volume);
}

/// A flush that fails may drop what others have written, and tells only whoever asked for it.
#[test]
fn what_was_being_written_while_anothers_flush_failed_is_not_published() {
    let (fleet, volume, mut model) = filled(17, 2);
    let (before, mut lost) = (volume.generation(), Model::default());
    let publication = volume.begin();
    let mut writer = publication.writer();
    lost.append(&mut writer, &mut Random::new(1), volume.page_size(), 128 * 2);
    writer.finish().expect("finished");
    fleet.0[0].faults().fail_next(OperationKind::Flush, 1);
    let added = volume.add_device(fleet.offer(2, Role::HOMES));
    assert!(matches!(added, Err(VolumeError::Device(_))), "{added:?}");
    let failed = publication.commit(b"root");
    assert!(matches!(failed, Err(VolumeError::WritesInDoubt { .. })), "{failed:?}");
    assert_eq!(volume.generation(), before);
    publish(&volume, &mut model, 128 * 2);
    fleet.check(&model, &volume);
    drop(volume);
    fleet.check(&model, &fleet.open().expect("opened"));
}

#[test]
fn a_full_device_is_passed_over_and_a_bounded_one_is_not_made_longer() {
    let fleet = Fleet::new(9, 2);
    let bounded = NewDevice { slots_max: Some(8), ..fleet.offer(1, Role::HOMES) };
    let page_size = saki_base::PageSize::new(8192).expect("valid");
    let volume =
        Volume::create_on(vec![fleet.offer(0, Role::HOMES), bounded], VolumeOptions::new(page_size)).expect("created");
    let mut model = Model::default();
    publish(&volume, &mut model, 128 * 40);
    let devices = volume.devices();
    assert!(devices[1].slots.homes > 0 && devices[1].slots.total <= 8, "{devices:?}");
    assert_eq!(devices[0].slots.homes + devices[1].slots.homes, 40);
    fleet.check(&model, &volume);
}

/// A volume with a device for copies, and copies of all that can have one.
fn copied(seed: u64) -> (Fleet, Arc<Volume>, Model) {
    let (fleet, volume, mut model) = filled(seed, 1);
    let fast = NewDevice { class: Class::Fast, ..fleet.offer(1, Role::COPIES) };
    assert_eq!(volume.add_device(fast).expect("added"), DeviceId(1));
    publish(&volume, &mut model, 128);
    let chunks: Vec<_> = volume.published_chunks().into_iter().map(|it| it.chunk).collect();
    assert!(volume.promote(&chunks, DeviceId(1)).expect("copied") >= 3);
    (fleet, volume, model)
}

#[test]
fn copies_are_read_and_no_homes_lie_beside_them() {
    let (fleet, volume, mut model) = copied(10);
    let devices = volume.devices();
    assert_eq!((devices[1].slots.homes, devices[1].entry.role.metadata), (0, false));
    assert!(devices[1].slots.copies >= 3);
    let copies = volume.copies();
    let read = |volume: &Volume| {
        let page = saki_base::PageAddress(copies[0].0.0 * 128);
        volume.locate(page).expect("mapped").device
    };
    assert_eq!(read(&volume), DeviceId(1));
    assert_eq!(volume.evict(&[copies[0].0]), 1);
    assert_eq!((read(&volume), volume.evict(&[copies[0].0])), (DeviceId(0), 0));
    publish(&volume, &mut model, 300);
    fleet.check(&model, &volume);
    assert!(volume.drain_device(DeviceId(0)).is_err(), "a device for copies takes no homes");
    volume.remove_device(DeviceId(1)).expect("copies may vanish");
    fleet.check(&model, &volume);
    assert_eq!(read(&volume), DeviceId(0));
}

#[test]
fn a_copy_that_is_damaged_or_cannot_be_read_is_never_noticed() {
    let (fleet, volume, model) = copied(11);
    let (first, second) = (volume.copies()[0], volume.copies()[1]);
    // One is rotten, another cannot be read.
    fleet.0[1].flip_bit(first.1.offset() + 5000, 1);
    fleet.0[1].faults().fail_range(second.1.offset()..second.1.offset() + (1 << 20));
    let cache = PageCache::new(volume.page_size(), 64).expect("memory");
    let store: Arc<dyn PageStore> = Arc::clone(&volume) as _;
    let mut port = PagePort::new(&cache, &store).expect("opened");
    let (share, reader) = (IoShare::new(u32::MAX), cache.reader());
    for page in model.pages.values() {
        port.read(&share, &reader, *page).unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(volume.copies_distrusted(), 2);
    assert!(volume.copies().iter().all(|copy| *copy != first && *copy != second));
    fleet.0[1].faults().heal();
    fleet.check(&model, &volume);
}

#[test]
fn losing_the_device_of_copies_loses_nothing() {
    let (fleet, volume, mut model) = copied(12);
    let hints = volume.copy_hints().expect("hints");
    drop(volume);
    let volume = fleet.open_without(0, &[1]).expect("degraded");
    assert_eq!(volume.adopt_copies(&hints), 0);
    model.check_pages(&volume, &fleet.0[0]);
    publish(&volume, &mut model, 100);
    volume.remove_device(DeviceId(1)).expect("nothing lies there alone");
    model.check(&volume, &fleet.0[0]);
    drop(volume);
    fleet.check(&model, &fleet.open_without(0, &[1]).expect("opened"));
}

#[test]
fn stale_and_foreign_hints_do_no_harm() {
    let (fleet, volume, mut model) = copied(13);
    let hints = volume.copy_hints().expect("hints");
    let copies = volume.copies().len();
    drop(volume);
    let volume = fleet.open().expect("opened");
    for at in 0..hints.len() {
        let mut damaged = hints.clone();
        damaged[at] ^= 4;
        assert_eq!(volume.adopt_copies(&damaged), 0, "byte {at}");
    }
    // Slots that have other bytes by now.
    let chunks: Vec<_> = volume.published_chunks().into_iter().rev().map(|it| it.chunk).collect();
    let made = volume.promote(&chunks, DeviceId(1)).expect("copied");
    assert_eq!((made, volume.adopt_copies(&hints)), (copies, 0));
    assert_eq!(volume.evict(&chunks), made);
    assert_eq!(volume.adopt_copies(&hints), copies, "nothing tells that they are stale");
    let cache = PageCache::new(volume.page_size(), 64).expect("memory");
    let store: Arc<dyn PageStore> = Arc::clone(&volume) as _;
    let mut port = PagePort::new(&cache, &store).expect("opened");
    let (share, reader) = (IoShare::new(u32::MAX), cache.reader());
    for page in model.pages.values() {
        port.read(&share, &reader, *page).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(volume.copies_distrusted() > 0);
    publish(&volume, &mut model, 100);
    fleet.check(&model, &volume);
}

#[test]
fn a_device_that_is_read_is_not_reused_before_the_read_has_ended() {
    let (fleet, volume, model) = copied(14);
    let (arena, mut frames) = saki_base::Arena::new(2, volume.page_size().bytes()).expect("memory");
    let mut lane = PageStore::open_lane(&*volume, &arena).expect("opened");
    let (chunk, copy) = volume.copies()[0];
    let share = IoShare::new(u32::MAX);
    let page = model.pages.values().find(|page| volume.page_size().chunk_of(page.address) == chunk).expect("a page");
    fleet.0[1].faults().hold(true);
    assert!(lane.try_read(&share, page.address, frames.pop().expect("a frame"), 7).is_ok());
    let pending = |volume: &Volume| volume.devices()[1].slots.pending;
    assert_eq!(volume.evict(&[chunk]), 1);
    assert_eq!(pending(&volume), 1, "a read is under way");
    fleet.0[1].faults().hold(false);
    let mut finished = Vec::new();
    while finished.is_empty() {
        lane.poll(Some(Duration::from_millis(10)), &mut finished);
    }
    assert!(finished[0].from_copy && finished[0].result.is_ok());
    assert_eq!(volume.evict(&[chunk]), 0);
    assert_eq!(pending(&volume), 0, "slot {} is free", copy.slot);
}

#[test]
fn a_moved_database_is_found_by_its_new_label() {
    let (fleet, volume, mut model) = filled(15, 2);
    drop(volume);
    let options =
        OpenOptions { find: Some(fleet.finder()), label: Some("/elsewhere".to_owned()), ..OpenOptions::default() };
    let volume = Volume::open_with(Arc::clone(&fleet.0[0]) as Arc<dyn Device>, options).expect("opened");
    publish(&volume, &mut model, 10);
    assert_eq!(volume.devices()[0].entry.label, "/elsewhere");
    assert_eq!(volume.device_labelled(&label(1)), Some(DeviceId(1)));
}
