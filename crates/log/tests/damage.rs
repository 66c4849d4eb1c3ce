//! What is wrong with a log when it is opened: rot, lost files, files of others. Either nothing durable is missing and
//! everything is as it was, or there is an error that names it. Never a wrong record.

mod common;

use std::sync::Arc;

use common::{
    Found, as_devices, commit_without_break, content, filled_logs, memory_devices, open, open_range, options, payload,
    sim_devices, write,
};
use saki_base::Random;
use saki_io::{Device, SimDevice, SimOptions};
use saki_log::{LogError, Logs, Options, Range};

/// Two logs with records through `last`, closed; several extents each.
fn filled(seed: u64, last: u64) -> (Vec<Arc<SimDevice>>, Found) {
    filled_logs(2, seed, last)
}

fn copy(devices: &[Arc<SimDevice>]) -> Vec<Arc<SimDevice>> {
    // All is flushed: a power loss finds everything.
    devices.iter().map(|device| device.crash(1)).collect()
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
                let extent = options().extent_bytes;
                assert_eq!(damage.offset / extent, sector * 512 / extent, "sector {sector}: {damage}");
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
    let began = std::time::Instant::now();
    loop {
        let damaged = copy(&devices);
        let at = position_of(&damaged[last], &payload(1, 2_000));
        damaged[last].flip_bit(at, 5);
        match open(&as_devices(&damaged), options()).err() {
            Some(LogError::Corrupt { timestamp: 1, proven: 1, damage }) => {
                assert_eq!((damage.log, damage.offset), (last, at - at % 4096));
                return;
            }
            // In quiet, one frame more comes, and its flush; on a busy machine a little later.
            None if began.elapsed() < std::time::Duration::from_secs(20) => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            other => panic!("{other:?}"),
        }
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

/// All that says what the incarnation was built on is gone.
#[test]
fn the_only_header_is_missed() {
    for at in [9, 100] {
        let (devices, _) = filled_logs(1, 12, 5);
        devices[0].flip_bit(at, 0);
        // The next one was made ready already.
        devices[0].flip_bit(options().extent_bytes + at, 0);
        match open(&as_devices(&devices), options()).err() {
            Some(LogError::NotALog { .. }) if at == 9 => {}
            Some(LogError::Inconsistent { extent: 1, offset: 0, .. }) if at == 100 => {
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
            assert_eq!((logs.len(), logs[1].log, logs[1].extent), (2, 1, 0));
            assert!(logs[1].to_string().contains("it is empty"), "{}", logs[1]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lost_extent_is_missed() {
    let (devices, _) = filled(4, 200);
    write(&devices[0], options().extent_bytes, &[0; 4096]);
    match open(&as_devices(&devices), options()).err() {
        Some(LogError::Corrupt { damage, .. }) => assert_eq!((damage.log, damage.expected.as_str()), (0, "extent 2")),
        other => panic!("{other:?}"),
    }
}

/// Each extent holds the end of one record and the beginning of the next, all of the same length: what is left of two
/// without the extent between them would make one.
#[test]
fn what_a_lost_extent_has_parted_is_not_joined() {
    const FRAME_BYTES: usize = 4096 - 64;
    let devices = sim_devices(1, 13);
    let small = Options { extent_bytes: 4 * 4096, write_bytes_max: 4096, ..options() };
    let expected: Found = (1..=12)
        .map(|timestamp| (timestamp, payload(timestamp, if timestamp < 3 { 1_000 } else { 3 * FRAME_BYTES - 16 })))
        .collect();
    let (logs, ..) = open(&as_devices(&devices), small.clone()).unwrap();
    let records: Vec<_> = expected.iter().map(|(timestamp, payload)| (*timestamp, payload.as_slice())).collect();
    commit_without_break(&logs, &devices[0], &records);
    logs.close().unwrap();
    let slots = devices[0].length_bytes().unwrap() / small.extent_bytes;
    let mut parted = 0;
    for slot in 0..slots {
        let damaged = copy(&devices);
        write(&damaged[0], slot * small.extent_bytes, &vec![0; small.extent_bytes as usize]);
        let accept = Options { accept_loss: true, ..small.clone() };
        let (_logs, report, found) = open(&as_devices(&damaged), accept).unwrap();
        assert!(found.iter().eq(expected.range(..=report.horizon)), "without slot {slot}: {report:?}");
        parted += u64::from(report.horizon > 2 && report.horizon < 12);
    }
    assert!(parted > 5, "{parted} losses of {slots} are of an extent between two others");
}

#[test]
fn a_file_cut_short_is_missed() {
    let (devices, _) = filled(5, 200);
    // The same bytes, but only the first of them: an extent, one and a half, a header.
    for length in [options().extent_bytes, options().extent_bytes * 3 / 2, 4096, 1024] {
        let short = SimDevice::new(SimOptions { length_bytes: length, ..SimOptions::default() });
        let mut bytes = vec![0; length as usize];
        devices[0].peek(0, &mut bytes);
        write(&short, 0, &bytes);
        let devices = vec![short as Arc<dyn Device>, devices[1].crash(1) as Arc<dyn Device>];
        match open(&devices, options()).err() {
            Some(LogError::Missing { proven: 200, logs, .. }) => {
                assert_eq!(logs[0].extent, u64::from(length == options().extent_bytes));
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
    let range = Range { through: 60, ..Range::default() };
    let (logs, report, found) = open_range(&as_devices(&devices), options(), range).unwrap();
    assert_eq!((report.horizon, report.clock, report.dropped), (60, 100, 40));
    assert!(found.iter().eq(expected.range(..=60)));
    logs.close().unwrap();
    let (_logs, report, found) = open(&as_devices(&devices), options()).unwrap();
    assert_eq!((report.horizon, found.len()), (100, 60), "61 to 100 are void for ever: {report:?}");
}

/// What a later incarnation had in it stays void with what came before it.
#[test]
fn going_back_over_the_border_of_an_incarnation_brings_nothing_back() {
    for goes_back in [false, true] {
        let (devices, expected) = filled(13, 100);
        let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
        for timestamp in 101..=130 {
            logs.reserve(0, 10).unwrap().commit(timestamp, b"later one.");
        }
        logs.close().unwrap();
        let (logs, report, found) = if goes_back {
            open_range(&as_devices(&devices), options(), Range { through: 60, ..Range::default() }).unwrap()
        } else {
            let at = position_of(&devices[1], &expected[&61]);
            devices[1].flip_bit(at, 0);
            assert!(matches!(open(&as_devices(&devices), options()), Err(LogError::Corrupt { timestamp: ..=61, .. })));
            open(&as_devices(&devices), Options { accept_loss: true, ..options() }).unwrap()
        };
        let kept = report.horizon;
        assert!(kept <= 60 && kept > 40 && report.clock == 130, "{report:?}");
        assert!(found.iter().eq(expected.range(..=kept)));
        logs.reserve(0, 3).unwrap().commit(131, b"new");
        logs.close().unwrap();
        for _ in 0..2 {
            let (_logs, report, found) = open(&as_devices(&devices), options()).unwrap();
            let mut after: Found = expected.range(..=kept).map(|(t, bytes)| (*t, bytes.clone())).collect();
            after.insert(131, b"new".to_vec());
            assert!(found == after, "{report:?}: {:?}", found.keys());
        }
    }
}

/// Where some bytes lie on a device.
fn position_of(device: &SimDevice, sought: &[u8]) -> u64 {
    let bytes = content(device);
    let sought = &sought[..sought.len().min(64)];
    bytes.windows(sought.len()).position(|part| part == sought).unwrap() as u64
}

/// A base that is newer than the logs beside it knows of more than they tell.
#[test]
fn logs_older_than_their_base_are_refused() {
    let (devices, _) = filled(14, 50);
    let older = copy(&devices);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    for timestamp in 51..=60 {
        logs.reserve(0, 10).unwrap().commit(timestamp, b"0123456789");
    }
    logs.wait_durable(60).unwrap();
    logs.cut(60);
    logs.close().unwrap();
    let range = Range { after: Some(60), known: Some(60), ..Range::default() };
    let (logs, report, _) = open_range(&as_devices(&devices), options(), range).unwrap();
    assert_eq!(report.horizon, 60);
    logs.close().unwrap();
    let error = open_range(&as_devices(&older), options(), range).err();
    assert!(matches!(error, Some(LogError::Older { known: 60, newest: Some(50) })), "{error:?}");
    let gone = sim_devices(2, 15);
    let error = open_range(&as_devices(&gone), options(), range).err();
    assert!(matches!(error, Some(LogError::Older { known: 60, newest: None })), "{error:?}");
    // Accepted, timestamps go on behind what was known.
    let accept = Options { accept_loss: true, ..options() };
    let range = Range { after: Some(40), ..range };
    let (logs, report, found) = open_range(&as_devices(&older), accept, range).unwrap();
    assert_eq!((report.horizon, report.clock, found.len()), (50, 60, 10));
    logs.close().unwrap();
    assert!(open_range(&as_devices(&older), options(), range).is_ok());
}

/// Looking says what an opening would, and leaves everything as it was.
#[test]
fn inspecting_says_what_an_opening_would() {
    let inspect = |devices: &[Arc<SimDevice>], range| {
        let contents = |devices: &[Arc<SimDevice>]| copy(devices).iter().map(|it| content(it)).collect::<Vec<_>>();
        let before = contents(devices);
        let report = saki_log::Logs::inspect(as_devices(devices), &options(), range, &|_| {});
        assert!(contents(devices) == before);
        report
    };
    let (devices, expected) = filled(16, 80);
    let report = inspect(&devices, Range::default()).unwrap();
    assert_eq!((report.horizon, report.records, report.lost), (80, 80, None));
    // After a crash no frame may say of the last records that they are durable: they are looked at all the same.
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    logs.reserve(0, 5).unwrap().commit(81, b"again");
    logs.wait_durable(81).unwrap();
    let after: Vec<_> = devices.iter().map(|device| device.crash(1)).collect();
    drop(logs);
    let report = inspect(&after, Range::default()).unwrap();
    assert_eq!((report.horizon, report.records, report.dropped), (81, 81, 0));
    let error = inspect(&devices, Range { known: Some(82), ..Range::default() }).err();
    assert!(matches!(error, Some(LogError::Older { known: 82, newest: Some(81) })), "{error:?}");
    devices[1].flip_bit(position_of(&devices[1], &expected[&41]), 0);
    let error = inspect(&devices, Range::default()).err();
    assert!(matches!(error, Some(LogError::Corrupt { .. })), "{error:?}");
}

#[test]
fn what_the_caller_refuses_ends_the_recovery() {
    let (devices, _) = filled(10, 30);
    let apply = |_: usize, timestamp: u64, _: &[u8]| if timestamp == 17 { Err("no table 5") } else { Ok(()) };
    let refused = saki_log::Logs::recover(as_devices(&devices), options(), Range::default(), &|_| {}, &apply).err();
    let text = refused.unwrap().to_string();
    assert!(text.contains("timestamp 17") && text.contains("no table 5"), "{text}");
}

/// Logs are read side by side; which of two records of one timestamp is told does not depend on which came first.
#[test]
fn of_two_records_of_one_timestamp_always_the_same_is_told() {
    let (devices, _) = filled_logs(3, 18, 200);
    // What one log had in another history, put in the place of what it has.
    let others = sim_devices(3, 18);
    let (logs, ..) = open(&as_devices(&others), options()).unwrap();
    for timestamp in 1..=200 {
        logs.reserve((timestamp % 2) as usize, 50).unwrap().commit(timestamp, &payload(timestamp, 50));
        logs.wait_durable(timestamp).unwrap();
    }
    logs.close().unwrap();
    let mixed = vec![Arc::clone(&devices[0]), Arc::clone(&others[1]), Arc::clone(&devices[2])];
    let mut told = None;
    for _ in 0..30 {
        let looked = Logs::inspect(as_devices(&mixed), &options(), Range::default(), &|_| {});
        let error = looked.expect_err("two records of one timestamp");
        let LogError::Inconsistent { log, offset, ref expected, ref found, .. } = error else { panic!("{error}") };
        assert_eq!(expected, "each timestamp once");
        let this = (log, offset, found.clone());
        assert_eq!(*told.get_or_insert_with(|| this.clone()), this);
    }
}

#[test]
fn a_record_that_the_caller_refuses_is_told_with_its_place() {
    let devices = memory_devices(2, 12);
    let (logs, ..) = open(&devices, options()).unwrap();
    for timestamp in 1..=20 {
        logs.reserve(timestamp as usize % 2, 5_000).unwrap().commit(timestamp, &payload(timestamp, 5_000));
        logs.wait_durable(timestamp).unwrap();
    }
    logs.close().unwrap();
    // Those in the middle are proven by what follows, the last ones are held back until all logs have been read.
    for refused in [1, 13, 20] {
        let apply = |_: usize, timestamp: u64, _: &[u8]| if timestamp == refused { Err("no") } else { Ok(()) };
        let error = Logs::recover(devices.clone(), options(), Range::default(), &|_| {}, &apply).map(drop).unwrap_err();
        let message = error.to_string();
        let LogError::Refused { log, device, extent, offset, timestamp, .. } = error else { panic!("{message}") };
        assert_eq!((log, timestamp, device), (refused as usize % 2, refused, devices[log].name()));
        assert!(message.contains(&format!("extent {extent}, byte {offset}")), "{message}");
        // Extents have 128 KiB; every record has a frame of its own, of two blocks.
        let place = 1 + (refused - 1) / 2;
        assert!(extent == 1 && offset >= 4096 * place && offset < 128 << 10, "{message}");
    }
}

/// Logs are read side by side, and what one refuses does not depend on how fast the others are.
#[test]
fn of_several_refusals_the_earliest_timestamp_is_told() {
    let (devices, _) = filled_logs(3, 17, 60);
    for first in [1, 2, 3, 31, 58] {
        for slow in 0..3 {
            let apply = |log: usize, timestamp: u64, _: &[u8]| {
                if log == slow {
                    std::thread::sleep(std::time::Duration::from_micros(500));
                }
                if timestamp >= first { Err("no") } else { Ok(()) }
            };
            let refused = Logs::recover(as_devices(&devices), options(), Range::default(), &|_| {}, &apply).err();
            let Some(LogError::Refused { log, timestamp, .. }) = refused else { panic!("{refused:?}") };
            assert_eq!((log as u64, timestamp), (first % 3, first), "log {slow} is slow");
        }
    }
}
