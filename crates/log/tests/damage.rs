//! What is wrong with a log when it is opened: rot, lost files, files of others. Either nothing durable is missing and everything
//! is as it was, or there is an error that names it. Never a wrong record.

mod common;

use std::sync::Arc;

use common::{Found, as_devices, open, open_range, options, payload, sim_devices};
use saki_base::{AlignedBuffer, Buffer, Random};
use saki_io::{Device, Operation, SimDevice, SimOptions, Wait};
use saki_log::{LogError, Options, Range};

/// Two logs with records through `last`, closed; several segments each.
fn filled(seed: u64, last: u64) -> (Vec<Arc<SimDevice>>, Found) {
    filled_logs(2, seed, last)
}

fn filled_logs(count: u64, seed: u64, last: u64) -> (Vec<Arc<SimDevice>>, Found) {
    let devices = sim_devices(count, seed);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    let mut expected = Found::new();
    for timestamp in 1..=last {
        let bytes = payload(timestamp, 200 + timestamp as usize * 37 % 3_000);
        logs.reserve((timestamp % count) as usize, bytes.len()).unwrap().commit(timestamp, &bytes);
        expected.insert(timestamp, bytes);
        if timestamp % 10 == 0 {
            logs.wait_durable(timestamp).unwrap();
        }
    }
    logs.close().unwrap();
    (devices, expected)
}

fn copy(devices: &[Arc<SimDevice>]) -> Vec<Arc<SimDevice>> {
    // All is flushed: a power loss finds everything.
    devices.iter().map(|device| device.crash(1)).collect()
}

fn write(device: &SimDevice, offset: u64, bytes: &[u8]) {
    let mut buffer = AlignedBuffer::new(bytes.len());
    buffer.copy_from_slice(bytes);
    let mut lane = device.open_lane(None).unwrap();
    lane.submit(Operation::write(0, offset, Buffer::Aligned(buffer)));
    lane.submit(Operation::flush(1));
    let mut completions = Vec::new();
    while completions.len() < 2 {
        lane.poll(Wait::No, &mut completions);
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    flip_every_sector(2);
}

/// There is no other log to tell of what was durable.
#[test]
fn a_flipped_bit_is_found_in_a_log_alone() {
    flip_every_sector(1);
}

fn flip_every_sector(count: u64) {
    let (devices, expected) = filled_logs(count, 1, 120);
    let mut random = Random::new(7);
    let (mut errors, mut harmless) = (0, 0);
    let length = devices[0].length_bytes().unwrap();
    // Every header and every region of frames: one bit in each 512 bytes.
    for sector in 0..length / 512 {
        let damaged = copy(&devices);
        damaged[0].flip_bit(sector * 512 + random.below(512), random.below(8) as u8);
        match open(&as_devices(&damaged), options()) {
            Ok((_logs, report, found)) => {
                harmless += 1;
                assert!(found == expected && report.horizon == 120, "sector {sector}: {report:?}");
            }
            Err(LogError::Corrupt { timestamp, proven, damage }) => {
                errors += 1;
                assert!(timestamp <= 120 && proven == 120, "sector {sector}: {timestamp}, {proven}");
                assert_eq!(damage.log, 0, "sector {sector}");
                let segment = options().segment_bytes;
                assert_eq!(damage.offset / segment, sector * 512 / segment, "sector {sector}: {damage}");
            }
            Err(error) => panic!("sector {sector}: {error}"),
        }
    }
    assert!(errors > 100 && harmless > 10, "{errors} errors, {harmless} flips of what nobody needs");
}

/// A log that was never closed: once all is quiet, its end is no longer taken for a crash's.
#[test]
fn even_the_last_record_is_missed_after_a_quiet_moment() {
    for count in 1..=3 {
        quiet_then_damaged(count);
    }
}

fn quiet_then_damaged(count: usize) {
    let devices = sim_devices(count as u64, 11);
    let last = count - 1;
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    logs.reserve(last, 2_000).unwrap().commit(1, &payload(1, 2_000));
    logs.wait_durable(1).unwrap();
    // In quiet, one frame more comes, and its flush.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let damaged = copy(&devices);
    let mut bytes = vec![0; options().segment_bytes as usize];
    damaged[last].peek(0, &mut bytes);
    let at = bytes.windows(32).position(|part| part == &payload(1, 2_000)[..32]).unwrap() as u64;
    damaged[last].flip_bit(at, 5);
    match open(&as_devices(&damaged), options()).err() {
        Some(LogError::Corrupt { timestamp: 1, proven: 1, damage }) => {
            assert_eq!((damage.log, damage.offset), (last, at - at % 4096));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn with_loss_accepted_all_before_the_damage_is_recovered() {
    let (devices, expected) = filled(2, 200);
    let mut random = Random::new(3);
    let length = devices[1].length_bytes().unwrap();
    let mut losses = 0;
    for _ in 0..60 {
        let damaged = copy(&devices);
        damaged[1].flip_bit(random.below(length), 3);
        let Err(LogError::Corrupt { timestamp, .. }) = open(&as_devices(&damaged), options()) else { continue };
        losses += 1;
        let accept = Options { accept_loss: true, ..options() };
        let (logs, report, found) = open(&as_devices(&damaged), accept).unwrap();
        assert_eq!(report.lost, Some((timestamp, 200)));
        assert_eq!((report.horizon, report.clock), (timestamp - 1, 200));
        assert!(found.iter().eq(expected.range(..timestamp)));
        // From here on this is what there was: the next opening finds no fault, and nothing of what was given up.
        logs.reserve(0, 3).unwrap().commit(201, b"new");
        logs.wait_durable(201).unwrap();
        logs.close().unwrap();
        let (_logs, report, found) = open(&as_devices(&damaged), options()).unwrap();
        assert_eq!((report.horizon, report.lost), (201, None));
        let mut after: Found = expected.range(..timestamp).map(|(t, bytes)| (*t, bytes.clone())).collect();
        after.insert(201, b"new".to_vec());
        assert!(found == after);
    }
    assert!(losses > 10);
}

/// All that says what the run was built on is gone.
#[test]
fn the_only_header_is_missed() {
    for at in [9, 100] {
        let (devices, _) = filled_logs(1, 12, 5);
        devices[0].flip_bit(at, 0);
        // The next one was made ready already.
        devices[0].flip_bit(options().segment_bytes + at, 0);
        match open(&as_devices(&devices), options()).err() {
            Some(LogError::NotALog { .. }) if at == 9 => {}
            Some(LogError::Inconsistent { segment: 1, offset: 0, .. }) if at == 100 => {
                assert!(open(&as_devices(&devices), Options { accept_loss: true, ..options() }).is_ok());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_lost_log_is_missed() {
    let (devices, _) = filled(3, 50);
    let mut devices = as_devices(&devices);
    devices[1] = SimDevice::new(SimOptions { length_bytes: 0, ..SimOptions::default() });
    match open(&devices, options()).err() {
        Some(LogError::Missing { timestamp: 1, proven: 50, logs }) => {
            assert_eq!((logs.len(), logs[1].log, logs[1].segment), (2, 1, 0));
            assert!(logs[1].to_string().contains("it is empty"), "{}", logs[1]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lost_segment_is_missed() {
    let (devices, _) = filled(4, 200);
    write(&devices[0], options().segment_bytes, &[0; 4096]);
    match open(&as_devices(&devices), options()).err() {
        Some(LogError::Corrupt { damage, .. }) => assert_eq!((damage.log, damage.expected.as_str()), (0, "segment 2")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_cut_short_is_missed() {
    let (devices, _) = filled(5, 200);
    // The same bytes, but only the first of them: a segment, one and a half, a header.
    for length in [options().segment_bytes, options().segment_bytes * 3 / 2, 4096, 1024] {
        let short = SimDevice::new(SimOptions { length_bytes: length, ..SimOptions::default() });
        let mut bytes = vec![0; length as usize];
        devices[0].peek(0, &mut bytes);
        write(&short, 0, &bytes);
        let devices = vec![short as Arc<dyn Device>, devices[1].crash(1) as Arc<dyn Device>];
        match open(&devices, options()).err() {
            Some(LogError::Missing { proven: 200, logs, .. }) => {
                assert_eq!(logs[0].segment, u64::from(length == options().segment_bytes));
            }
            Some(LogError::Corrupt { proven: 200, damage, .. }) => {
                assert!(damage.log == 0 && damage.offset <= length, "{damage}");
            }
            other => panic!("{length}: {other:?}"),
        }
        let (logs, report, _) = open(&devices, Options { accept_loss: true, ..options() }).unwrap();
        assert!(report.lost.is_some());
        logs.reserve(0, 300_000).unwrap().commit(201, &payload(201, 300_000));
        logs.wait_durable(201).unwrap();
    }
}

#[test]
fn logs_of_others_are_refused() {
    let (devices, _) = filled(6, 20);
    let devices = as_devices(&devices);
    let error = open(&devices, Options { database: 1, ..options() }).err();
    assert!(matches!(error, Some(LogError::OtherDatabase { expected: 1, found: 0x5a5a, .. })), "{error:?}");
    let swapped = vec![Arc::clone(&devices[1]), Arc::clone(&devices[0])];
    let error = open(&swapped, options()).err();
    assert!(matches!(error, Some(LogError::OtherLog { log: 0, found: 1, .. })), "{error:?}");
    let error = open(&devices[..1], options()).err();
    assert!(matches!(error, Some(LogError::OtherCount { expected: 1, found: 2, .. })), "{error:?}");
    assert!(open(&devices, options()).is_ok());
    let error = open(&[], options()).err();
    assert!(matches!(error, Some(LogError::Options { .. })), "{error:?}");
}

#[test]
fn other_files_are_no_logs() {
    for bytes in [4096, 128 << 10, 300 << 10] {
        let device = SimDevice::new(SimOptions { length_bytes: bytes, ..SimOptions::default() });
        write(&device, 0, &[7; 4096]);
        let error = open(&as_devices(&[device]), options()).err();
        assert!(matches!(error, Some(LogError::NotALog { .. })), "{error:?}");
    }
    // A new file, however long, is an empty log.
    let device = SimDevice::new(SimOptions { length_bytes: 300 << 10, ..SimOptions::default() });
    assert!(open(&as_devices(&[device]), options()).is_ok());
}

#[test]
fn another_version_is_named() {
    let (devices, _) = filled(7, 20);
    let mut block = vec![0; 4096];
    devices[0].peek(0, &mut block);
    block[16] = 9;
    let sum = saki_base::checksum(&block[8..512]).to_le_bytes();
    block[..8].copy_from_slice(&sum);
    write(&devices[0], 0, &block);
    let error = open(&as_devices(&devices), options()).err();
    assert!(matches!(error, Some(LogError::OtherVersion { expected: 1, found: 9, .. })), "{error:?}");
}

#[test]
fn a_base_older_than_the_logs_is_refused() {
    let devices = sim_devices(1, 8);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    for timestamp in 1..=10 {
        logs.reserve(0, 10).unwrap().commit(timestamp, b"0123456789");
    }
    logs.wait_durable(10).unwrap();
    logs.cut(8);
    logs.close().unwrap();
    let range = |after| Range { after: Some(after), ..Range::default() };
    let error = open_range(&as_devices(&devices), options(), range(5)).err();
    assert!(matches!(error, Some(LogError::CutBeyond { cut: 8, after: 5 })), "{error:?}");
    let (logs, report, found) = open_range(&as_devices(&devices), options(), range(9)).unwrap();
    assert_eq!((report.after, report.horizon, found.len()), (9, 10, 1));
    drop(logs);
    // A base newer than all there is in the logs.
    let (_logs, report, found) = open_range(&as_devices(&devices), options(), range(1_000)).unwrap();
    assert_eq!((report.horizon, report.clock, found.len()), (1_000, 1_000, 0));
}

#[test]
fn one_can_go_back_to_an_earlier_moment() {
    let (devices, expected) = filled(9, 100);
    let range = Range { after: None, through: 60 };
    let (logs, report, found) = open_range(&as_devices(&devices), options(), range).unwrap();
    assert_eq!((report.horizon, report.clock, report.dropped), (60, 100, 40));
    assert!(found.iter().eq(expected.range(..=60)));
    logs.close().unwrap();
    let (_logs, report, found) = open(&as_devices(&devices), options()).unwrap();
    assert_eq!((report.horizon, found.len()), (100, 60), "61 to 100 are void for ever: {report:?}");
}

#[test]
fn what_the_caller_refuses_ends_the_recovery() {
    let (devices, _) = filled(10, 30);
    let apply = |_: usize, timestamp: u64, _: &[u8]| if timestamp == 17 { Err("no table 5") } else { Ok(()) };
    let refused = saki_log::Logs::recover(as_devices(&devices), options(), Range::default(), &|_| {}, &apply).err();
    let text = refused.unwrap().to_string();
    assert!(text.contains("timestamp 17") && text.contains("no table 5"), "{text}");
}
