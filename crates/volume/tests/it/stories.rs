//! What a volume promises, one behaviour a test.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{Arena, PageAddress, PageSize, Random, checksum};
use saki_page::{IoShare, PageLane, PageStore, Refusal};
use saki_volume::{PROFILE_BYTES_MAX, ROOT_BYTES_MAX, SCRATCH_BLOCK_BYTES, Volume, VolumeError};

use crate::support::{Model, PART, create, device, number, open, page};

fn page_size() -> PageSize {
    PageSize::new(8192).expect("valid")
}

/// Publishes `count` new pages and frees `share` of the old ones.
fn publish(volume: &Arc<Volume>, model: &mut Model, random: &mut Random, count: u64, share: f64) {
    let publication = volume.begin();
    publication.free(&model.take(random, share));
    let mut writer = publication.writer();
    model.append(&mut writer, random, volume.page_size(), count);
    writer.finish().expect("finished");
    publication.commit(b"root").expect("committed");
}

#[test]
fn what_was_published_is_there_after_reopening() {
    let (device, mut random, mut model) = (device(1), Random::new(1), Model::default());
    let volume = create(&device, 8192);
    for round in 0..200 {
        publish(&volume, &mut model, &mut random, round % 7 * 40, 0.2);
    }
    let generation = volume.generation();
    model.check(&volume, &device);
    drop(volume);
    let volume = open(&device).expect("opens");
    assert_eq!((volume.generation(), volume.root(), volume.database_id()), (generation, b"root".to_vec(), 7));
    assert_eq!(volume.page_size(), page_size());
    model.check(&volume, &device);
    assert!(volume.stats().journal_slots <= 2, "the journal is begun anew before it grows long");
}

/// Before and after reopening, those of another volume being nowhere near.
#[test]
fn all_addresses_begin_with_the_number_that_a_volume_was_made_with() {
    for page_bytes in [4096, 8192] {
        let (device, mut random, mut model) = (device(2), Random::new(2), Model::default());
        let mut volume = create(&device, page_bytes);
        for round in 0..3 {
            publish(&volume, &mut model, &mut random, 300, 0.9);
            let of = |address: &PageAddress| volume.page_size().chunk_of(*address).volume();
            assert!(model.parts.keys().all(|address| of(address) == number(page_bytes)), "round {round}");
            model.check(&volume, &device);
            drop(volume);
            volume = open(&device).expect("opens");
        }
    }
}

#[test]
fn small_publishes_share_a_chunk() {
    let (device, mut random, mut model) = (device(1), Random::new(1), Model::default());
    let volume = create(&device, 8192);
    // Inner pages in one, all others in another.
    let chunks = |model: &Model| {
        let inner = model.parts.values().filter(|part| part.is_inner()).count();
        (inner.div_ceil(128) + (model.parts.len() - inner).div_ceil(128)) as u64
    };
    for _ in 0..300 {
        publish(&volume, &mut model, &mut random, 1, 0.0);
        assert_eq!(volume.stats().chunks, chunks(&model));
    }
    assert!(chunks(&model) > 2);
    drop(volume);
    let volume = open(&device).expect("opens");
    publish(&volume, &mut model, &mut random, 1, 0.0);
    assert_eq!(volume.stats().chunks, chunks(&model), "the open chunks are known after reopening");
    model.check(&volume, &device);
}

#[test]
fn an_abandoned_publication_leaves_nothing_behind() {
    let (device, mut random, mut model) = (device(1), Random::new(1), Model::default());
    let volume = create(&device, 8192);
    publish(&volume, &mut model, &mut random, 30, 0.0);
    let before = volume.stats();
    let publication = volume.begin();
    let mut vain = Model::default();
    let mut writer = publication.writer();
    vain.append(&mut writer, &mut random, page_size(), 1000);
    writer.finish().expect("finished");
    let mut dropped = publication.writer();
    vain.append(&mut dropped, &mut random, page_size(), 1000);
    // The writer outlives its publication: the chunks are given back when it is gone as well.
    drop(publication);
    dropped.settle().expect("settled");
    drop(dropped);
    let after = volume.stats();
    assert_eq!((after.chunks, after.live_pages), (before.chunks, before.live_pages));
    assert_eq!(after.used_bytes, before.used_bytes);
    publish(&volume, &mut model, &mut random, 100, 0.0);
    assert!(model.pages.keys().all(|page| !vain.pages.contains_key(page)), "an address is given out once");
    model.check(&volume, &device);
}

#[test]
fn a_held_generation_keeps_its_pages() {
    let (device, mut random, mut model) = (device(1), Random::new(1), Model::default());
    let volume = create(&device, 8192);
    publish(&volume, &mut model, &mut random, 3000, 0.0);
    let (held, before) = (volume.hold(), model.clone());
    for _ in 0..20 {
        publish(&volume, &mut model, &mut random, 1000, 1.0);
    }
    let mut bytes = vec![0; page_size().bytes()];
    for page in before.pages.values() {
        let location = volume.locate(page.address).expect("still mapped");
        device.peek(location.offset() + page_size().offset_in_chunk(page.address) as u64, &mut bytes);
        assert_eq!(checksum(&bytes), page.checksum);
    }
    let full = volume.stats();
    drop(held);
    assert!(volume.stats().used_bytes + (20 << 20) < full.used_bytes, "dropping it frees its chunks");
    assert!(volume.locate(*before.pages.keys().next().expect("some")).is_none());
    model.check(&volume, &device);
}

#[test]
fn runs_are_contiguous_whatever_their_length() {
    let (device, mut random) = (device(1), Random::new(1));
    let volume = create(&device, 8192);
    let publication = volume.begin();
    let mut writer = publication.writer();
    let mut live = 0;
    for length in [1usize, 8192, 8193, 900_000, 3_000_000, 100, 1 << 20] {
        writer.append(PART, &page(&mut random, page_size())).expect("appended");
        let bytes: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        let run = writer.append_run(PART, &bytes).expect("appended");
        writer.settle().expect("settled");
        assert_eq!((run.pages, run.checksum), (length.div_ceil(8192) as u64, checksum(&bytes)));
        let mut read = Vec::new();
        for index in 0..run.pages {
            let address = PageAddress(run.first.0 + index);
            let mut page = vec![0; 8192];
            let location = volume.locate(address).expect("mapped");
            device.peek(location.offset() + page_size().offset_in_chunk(address) as u64, &mut page);
            read.extend_from_slice(&page);
        }
        assert!(read[..length] == bytes && read[length..].iter().all(|byte| *byte == 0));
        live += run.pages + 1;
    }
    writer.finish().expect("finished");
    publication.commit(b"").expect("committed");
    assert_eq!(volume.stats().live_pages, live);
}

#[test]
fn scratch_runs_come_back_and_vanish() {
    let (device, mut random) = (device(1), Random::new(1));
    let volume = create(&device, 4096);
    let before = volume.stats().used_bytes;
    let scratch = volume.scratch();
    let lengths = [0, 1, 5000, SCRATCH_BLOCK_BYTES, SCRATCH_BLOCK_BYTES + 1, 3_333_333];
    let written: Vec<Vec<u8>> =
        lengths.iter().map(|length| (0..*length).map(|_| random.next_u64() as u8).collect()).collect();
    let runs = written.iter().map(|bytes| {
        let mut writer = scratch.writer();
        bytes.chunks(777).for_each(|piece| writer.write(piece).expect("written"));
        writer.finish().expect("finished")
    });
    let runs: Vec<_> = runs.collect();
    assert!(volume.stats().scratch_slots > 0);
    let mut reader = scratch.reader(runs).expect("opened");
    let mut read = vec![Vec::new(); lengths.len()];
    let mut left: Vec<usize> = (0..lengths.len()).collect();
    while !left.is_empty() {
        let at = random.range(0..left.len() as u64) as usize;
        if reader.advance(left[at]).expect("read") {
            read[left[at]].extend_from_slice(reader.block(left[at]));
        } else {
            left.swap_remove(at);
        }
    }
    assert!(read == written);
    drop(reader);
    assert_eq!(volume.stats().used_bytes, before);
    assert_eq!(volume.stats().scratch_slots, 0);
}

#[test]
fn pages_are_read_through_lanes_within_the_governor() {
    let (device, mut random, mut model) = (device(1), Random::new(1), Model::default());
    let volume = create(&device, 8192);
    publish(&volume, &mut model, &mut random, 500, 0.0);
    let (arena, mut frames) = Arena::new(600, 8192).expect("mapped");
    let mut lane = PageStore::open_lane(&*volume, &arena).expect("opened");
    let share = IoShare::new(7);
    let mut pages: Vec<_> = model.pages.values().copied().collect();
    let (mut expected, mut done) = (Vec::new(), 0);
    while done < 500 {
        while let Some(page) = pages.pop() {
            match lane.try_read(&share, page.address, frames.pop().expect("enough"), expected.len() as u64) {
                Ok(()) => expected.push(page.checksum),
                Err((frame, refusal)) => {
                    assert_eq!(refusal, Refusal::Busy(saki_base::DeviceId(0)));
                    assert!(lane.in_flight() == 7);
                    frames.push(frame);
                    pages.push(page);
                    break;
                }
            }
        }
        let mut finished = Vec::new();
        lane.poll(Some(Duration::from_secs(1)), &mut finished);
        for read in finished {
            read.result.expect("read");
            assert_eq!(checksum(&read.memory), expected[read.token as usize]);
            frames.push(read.memory);
            done += 1;
        }
    }
    let unmapped = lane.try_read(&share, PageAddress(1 << 40), frames.pop().expect("enough"), 0);
    assert!(matches!(unmapped, Err((_, Refusal::Unmapped))));
    assert_eq!(share.in_flight(), 0);
    let mut counted = (0, 0);
    volume.chunk_reads(|_, (requests, pages)| counted = (counted.0 + requests, counted.1 + pages));
    assert_eq!((counted, volume.reads()), ((500, 500), 500), "backwards");
}

/// One request in flight is enough for a run of them; what is elsewhere, or comes when the run is with the device, is
/// one of its own.
#[test]
fn neighbours_that_are_asked_for_together_are_one_request() {
    let (device, mut random, mut model) = (device(1), Random::new(1), Model::default());
    let volume = create(&device, 8192);
    publish(&volume, &mut model, &mut random, 500, 0.0);
    let governor = volume.governor();
    let (arena, mut frames) = Arena::new(600, 8192).expect("mapped");
    let mut lane = PageStore::open_lane(&*volume, &arena).expect("opened");
    let share = IoShare::new(u32::MAX);
    let mut addresses: Vec<_> = model.pages.values().map(|page| page.address).collect();
    addresses.sort_unstable();
    let start = addresses.windows(20).find(|run| run[19].0 == run[0].0 + 19).expect("neighbours")[0];
    let mut read = |lane: &mut dyn PageLane, page| {
        let asked = lane.try_read(&share, PageAddress(start.0 + page), frames.pop().expect("enough"), page);
        asked.map_err(|(_, refusal)| refusal)
    };
    for page in 0..8 {
        read(&mut *lane, page).expect("it goes on where the last ends");
    }
    assert_eq!((lane.in_flight(), governor.in_flight()), (8, 1));
    read(&mut *lane, 10).expect("elsewhere");
    assert_eq!((lane.in_flight(), governor.in_flight()), (9, 2));
    let mut finished = Vec::new();
    while lane.in_flight() > 0 {
        lane.poll(Some(Duration::from_secs(1)), &mut finished);
    }
    assert!(finished.iter().all(|read| read.result.is_ok()) && finished.len() == 9);
    let traffic = governor.traffic();
    assert_eq!((governor.in_flight(), traffic.requests, traffic.bytes), (0, 2, 9 * 8192));
    read(&mut *lane, 11).expect("the run has ended");
    assert_eq!(governor.in_flight(), 1);
}

#[test]
fn publications_follow_one_another() {
    let device = device(1);
    let volume = create(&device, 8192);
    let first = volume.begin();
    let second = std::thread::spawn({
        let volume = Arc::clone(&volume);
        move || volume.begin().commit(b"second").expect("committed")
    });
    std::thread::sleep(Duration::from_millis(20));
    assert!(!second.is_finished());
    let generation = first.commit(b"first").expect("committed");
    assert_eq!(second.join().expect("joined").0, generation.0 + 1);
    assert_eq!(volume.root(), b"second");
}

#[test]
fn misuse_is_refused_and_changes_nothing() {
    let (device, mut random, mut model) = (device(1), Random::new(1), Model::default());
    let volume = create(&device, 8192);
    publish(&volume, &mut model, &mut random, 3, 0.0);
    let generation = volume.generation();
    let page = *model.pages.keys().next().expect("some");
    let freed_too_often = volume.begin();
    freed_too_often.free(&[page; 4]);
    assert!(matches!(freed_too_often.commit(b""), Err(VolumeError::Misuse { .. })));
    let freed_unknown = volume.begin();
    freed_unknown.free(&[PageAddress(1 << 40)]);
    assert!(matches!(freed_unknown.commit(b""), Err(VolumeError::Misuse { .. })));
    let unfinished = volume.begin();
    let writer = unfinished.writer();
    assert!(matches!(unfinished.commit(b""), Err(VolumeError::Misuse { .. })));
    drop(writer);
    assert!(matches!(volume.begin().commit(&[0; ROOT_BYTES_MAX + 1]), Err(VolumeError::TooLarge { .. })));
    assert!(matches!(volume.begin().writer().append(PART, &[0; 4096]), Err(VolumeError::Misuse { .. })));
    assert_eq!(volume.generation(), generation);
    model.check(&volume, &device);
}

#[test]
fn the_device_profile_is_kept_beside_the_generations() {
    let device = device(1);
    let volume = create(&device, 8192);
    assert_eq!(volume.device_profile().expect("read"), None);
    let profile = vec![b'x'; PROFILE_BYTES_MAX];
    volume.store_device_profile(&profile).expect("stored");
    assert!(matches!(volume.store_device_profile(&[0; PROFILE_BYTES_MAX + 1]), Err(VolumeError::TooLarge { .. })));
    drop(volume);
    let volume = open(&device).expect("opens");
    assert!(volume.device_profile().expect("read") == Some(profile));
    device.flip_bit((768 << 10) + 100, 3);
    assert_eq!(volume.device_profile().expect("read"), None, "a damaged profile is as good as none");
}

#[test]
fn several_threads_write_into_one_publication_while_others_spill() {
    let (device, mut random, mut model) = (device(1), Random::new(1), Model::default());
    let volume = create(&device, 8192);
    for round in 0..4 {
        let publication = volume.begin();
        publication.free(&model.take(&mut random, 0.3));
        let parts = std::thread::scope(|scope| {
            let writers = (0..4).map(|thread| {
                let (publication, scratch) = (&publication, volume.scratch());
                scope.spawn(move || {
                    let (mut random, mut part) = (Random::new(round * 4 + thread), Model::default());
                    let mut writer = publication.writer();
                    for _ in 0..5 {
                        part.append(&mut writer, &mut random, page_size(), 200);
                        let mut spill = scratch.writer();
                        spill.write(&vec![1; 700_000]).expect("written");
                        let mut reader = scratch.reader(vec![spill.finish().expect("finished")]).expect("opened");
                        while reader.advance(0).expect("read") {
                            assert!(reader.block(0).iter().all(|byte| *byte == 1));
                        }
                    }
                    writer.finish().expect("finished");
                    part
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().map(|writer| writer.join().expect("joined")).collect::<Vec<_>>()
        });
        let before = model.pages.len() + parts.iter().map(|part| part.pages.len()).sum::<usize>();
        for part in parts {
            model.pages.extend(part.pages);
            model.parts.extend(part.parts);
        }
        assert_eq!(model.pages.len(), before, "an address is given out once");
        publication.commit(b"root").expect("committed");
        model.check(&volume, &device);
    }
}
