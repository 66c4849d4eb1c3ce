//! Runs of pages, read whole: across chunks that lie apart, by several shares, from devices that fail.

use std::sync::Arc;
use std::time::Duration;

use saki_base::{CHUNK_BYTES, PageAddress, Random};
use saki_io::SimDevice;
use saki_page::{IoShare, Refusal, RunLane, RunRead};
use saki_volume::{PageRun, Volume};

use crate::support::{self, PART};

const PAGE_BYTES: u32 = 8192;

/// Publishes runs of these lengths, in bytes, with pages of others between them.
fn publish(volume: &Arc<Volume>, random: &mut Random, lengths: &[usize]) -> Vec<(PageRun, Vec<u8>)> {
    let publication = volume.begin();
    // Two writers take chunks in turns, so that neighbours in the address space lie apart on the device.
    let (mut writer, mut other) = (publication.writer(), publication.writer());
    let mut runs = Vec::new();
    for length in lengths {
        let bytes: Vec<u8> = (0..*length).map(|_| random.next_u64() as u8).collect();
        other.append_run(PART, &vec![7; CHUNK_BYTES / 2]).unwrap();
        runs.push((writer.append_run(PART, &bytes).unwrap(), bytes));
    }
    writer.finish().unwrap();
    other.finish().unwrap();
    publication.commit(b"root").unwrap();
    runs
}

fn drain(lane: &mut dyn RunLane) -> Vec<RunRead> {
    let mut finished = Vec::new();
    while lane.in_flight() > 0 {
        lane.poll(Some(Duration::from_millis(10)), &mut finished);
    }
    finished
}

fn volume(seed: u64) -> (Arc<SimDevice>, Arc<Volume>) {
    let device = support::device(seed);
    let volume = support::create(&device, PAGE_BYTES);
    (device, volume)
}

#[test]
fn runs_come_back_whole_in_any_order() {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let (_device, volume) = volume(seed);
        let lengths: Vec<usize> = (0..8).map(|_| 1 + random.next_u64() as usize % (3 * CHUNK_BYTES)).collect();
        let runs = publish(&volume, &mut random, &lengths);
        let mut lane = volume.run_lane().unwrap();
        let share = IoShare::new(u32::MAX);
        let mut pending: Vec<usize> = (0..runs.len()).collect();
        let mut finished = Vec::new();
        while !pending.is_empty() || lane.in_flight() > 0 {
            pending.retain(|index| {
                let (run, bytes) = &runs[*index];
                lane.try_read(&share, run.first, bytes.len(), run.checksum, *index as u64)
                    == Err(Refusal::Busy(saki_base::DeviceId(0)))
            });
            lane.poll(Some(Duration::from_millis(10)), &mut finished);
        }
        assert_eq!(finished.len(), runs.len());
        for read in finished {
            let pages = read.result.unwrap();
            let bytes = &runs[read.token as usize].1;
            assert_eq!(pages.len(), bytes.len().next_multiple_of(PAGE_BYTES as usize));
            assert!(pages[..bytes.len()] == bytes[..], "run {} has other bytes", read.token);
            assert!(pages[bytes.len()..].iter().all(|byte| *byte == 0));
        }
        assert_eq!(volume.governor().in_flight(), 0);
    }
}

#[test]
fn a_share_of_one_has_one_request_in_flight() {
    let mut random = Random::new(5);
    let (_device, volume) = volume(5);
    let runs = publish(&volume, &mut random, &[2 * CHUNK_BYTES + 77, 3 * CHUNK_BYTES, 10]);
    let mut lane = volume.run_lane().unwrap();
    let (in_order, other) = (IoShare::new(1), IoShare::new(u32::MAX));
    assert_eq!(lane.try_read(&in_order, runs[1].0.first, runs[1].1.len(), 0, 1), Ok(()));
    assert_eq!(volume.governor().in_flight(), 1);
    assert_eq!(
        lane.try_read(&in_order, runs[2].0.first, runs[2].1.len(), 0, 2),
        Err(Refusal::Busy(saki_base::DeviceId(0)))
    );
    assert_eq!(lane.try_read(&other, runs[2].0.first, runs[2].1.len(), 0, 2), Ok(()), "others are not held up");
    let mut finished = Vec::new();
    while finished.len() < 2 {
        lane.poll(Some(Duration::from_millis(10)), &mut finished);
        assert!(in_order.in_flight() <= 1);
    }
    for read in finished {
        let bytes = &runs[read.token as usize].1;
        assert!(read.result.unwrap()[..bytes.len()] == bytes[..]);
    }
}

#[test]
fn bytes_in_flight_are_bounded() {
    let mut random = Random::new(6);
    let (_device, volume) = volume(6);
    let runs = publish(&volume, &mut random, &[CHUNK_BYTES; 40]);
    let mut lane = volume.run_lane().unwrap();
    let share = IoShare::new(u32::MAX);
    let admitted =
        runs.iter().take_while(|(run, bytes)| lane.try_read(&share, run.first, bytes.len(), run.checksum, 0).is_ok());
    let admitted = admitted.count();
    assert!(
        admitted >= 4 && admitted * CHUNK_BYTES < lane.bytes_max(saki_base::DeviceId(0)) + CHUNK_BYTES,
        "{admitted} of a chunk each"
    );
    assert_eq!(drain(&mut lane).len(), admitted);
}

#[test]
fn who_is_refused_with_nothing_under_way_does_not_sleep_for_long() {
    let mut random = Random::new(9);
    let (_device, volume) = volume(9);
    let runs = publish(&volume, &mut random, &[5000, 6000]);
    let (mut busy, mut lane) = (volume.run_lane().unwrap(), volume.run_lane().unwrap());
    let share = IoShare::new(1);
    assert_eq!(busy.try_read(&share, runs[0].0.first, runs[0].1.len(), 0, 0), Ok(()));
    assert_eq!(
        lane.try_read(&share, runs[1].0.first, runs[1].1.len(), 0, 1),
        Err(Refusal::Busy(saki_base::DeviceId(0)))
    );
    let began = std::time::Instant::now();
    lane.poll(Some(Duration::from_secs(60)), &mut Vec::new());
    assert!(began.elapsed() < Duration::from_secs(30), "no completion of its own was to come");
    assert_eq!(drain(&mut busy).len(), 1);
    assert_eq!(lane.try_read(&share, runs[1].0.first, runs[1].1.len(), 0, 1), Ok(()));
    assert_eq!(drain(&mut lane).len(), 1);
}

#[test]
fn what_is_not_mapped_is_refused_and_counts_for_nothing() {
    let (_device, volume) = volume(7);
    let mut lane = volume.run_lane().unwrap();
    let share = IoShare::new(u32::MAX);
    assert_eq!(lane.try_read(&share, PageAddress(1 << 40), 100, 0, 0), Err(Refusal::Unmapped));
    assert_eq!((lane.in_flight(), volume.governor().in_flight()), (0, 0));
}

#[test]
fn a_failing_part_fails_its_run_alone() {
    let mut random = Random::new(8);
    let (device, volume) = volume(8);
    let runs = publish(&volume, &mut random, &[3 * CHUNK_BYTES, 5000]);
    let bad = volume.locate(PageAddress(runs[0].0.first.0 + 200)).unwrap();
    device.faults().fail_range(bad.offset()..bad.offset() + CHUNK_BYTES as u64);
    let mut lane = volume.run_lane().unwrap();
    let share = IoShare::new(u32::MAX);
    for (token, (run, bytes)) in runs.iter().enumerate() {
        lane.try_read(&share, run.first, bytes.len(), run.checksum, token as u64).unwrap();
    }
    let mut finished = drain(&mut lane);
    finished.sort_by_key(|read| read.token);
    let error = finished[0].result.as_ref().err().expect("its second chunk cannot be read");
    assert!(error.to_string().contains("sim:8"), "{error}");
    assert!(finished[1].result.as_ref().unwrap()[..5000] == runs[1].1[..]);
    // A lane that goes while it reads leaves no count behind.
    lane.try_read(&share, runs[1].0.first, 5000, 0, 9).unwrap();
    drop(lane);
    assert_eq!(volume.governor().in_flight(), 0);
}
