//! What every user of the logs does: append, wait, close, open again.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use common::{Found, as_devices, commit_without_break, memory_devices, open, options, payload, sim_devices, within};
use saki_io::{Device, DeviceOptions, SimDevice, SimOptions, SimTiming, open_device};
use saki_log::{LogError, Options};

#[test]
fn records_are_durable_and_found_again() {
    let devices = memory_devices(2, 1);
    let (logs, report, found) = open(&devices, options()).unwrap();
    assert_eq!((report.horizon, report.clock, found.len()), (0, 0, 0));
    for timestamp in 1..=100 {
        let reservation = logs.reserve(timestamp as usize % 2, 1000).unwrap();
        match timestamp % 7 {
            0 => reservation.void(timestamp),
            _ => reservation.commit(timestamp, &payload(timestamp, 900)),
        }
    }
    logs.wait_durable(100).unwrap();
    assert_eq!(logs.durable(), 100);
    logs.close().unwrap();

    let (logs, report, found) = open(&devices, options()).unwrap();
    assert_eq!((report.horizon, report.clock, report.records, report.voids), (100, 100, 86, 14), "{report:?}");
    let expected: Found = (1..=100).filter(|t| t % 7 != 0).map(|t| (t, payload(t, 900))).collect();
    assert_eq!(found, expected);
    assert!(!report.duration.is_zero());
    assert_eq!(logs.durable(), 100);
    logs.reserve(0, 3).unwrap().commit(101, b"abc");
    logs.wait_durable(101).unwrap();
    drop(logs);
    let (_logs, report, found) = open(&devices, options()).unwrap();
    assert_eq!((report.horizon, found.len()), (101, 87));
    // That an incarnation ended somewhere is no damage.
    assert!(report.damages.is_empty(), "{report:?}");
}

/// Recovery reads extents in pieces of a megabyte, several at once, which come in any order; frames lie across their
/// borders. Of the last extents it reads a little before it begins.
#[test]
fn extents_are_longer_than_what_is_read_at_once() {
    within(LIMIT, read_long_extents);
}

fn read_long_extents() {
    let timing = SimTiming::Virtual(Duration::from_micros(20)..=Duration::from_micros(300));
    let device = SimDevice::new(SimOptions { seed: 8, length_bytes: 0, timing, ..SimOptions::default() });
    let options = || Options { extent_bytes: 6 << 20, write_bytes_max: 512 << 10, buffer_bytes: 4 << 20, ..options() };
    let (logs, ..) = open(&as_devices(&[Arc::clone(&device)]), options()).unwrap();
    let expected: Found = (1..=120).map(|t| (t, payload(t, 100_000 + t as usize % 7 * 10_000))).collect();
    for (timestamp, bytes) in &expected {
        logs.reserve(0, bytes.len()).unwrap().commit(*timestamp, bytes);
    }
    logs.close().unwrap();
    for seed in 0..4 {
        let (logs, report, found) = open(&as_devices(&[device.crash(seed)]), options()).unwrap();
        assert!(report.horizon == 120 && found == expected, "seed {seed}: {report:?}");
        let extents = logs.extents().unwrap();
        assert!(extents.len() > 2 && extents[..2].iter().all(|extent| extent.bytes == 6 << 20), "{extents:?}");
    }
}

#[test]
fn many_threads_share_a_log() {
    let devices = memory_devices(2, 2);
    let (logs, ..) = open(&devices, options()).unwrap();
    let clock = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (logs, clock) = (&logs, &clock);
            scope.spawn(move || {
                let mut last = 0;
                for round in 0..2_000 {
                    let reservation = logs.reserve(worker % 2, 600).unwrap();
                    last = clock.fetch_add(1, Ordering::Relaxed) + 1;
                    reservation.commit(last, &payload(last, 100 + (round * 7 % 500)));
                }
                logs.wait_durable(last).unwrap();
            });
        }
    });
    assert_eq!(logs.durable(), 8_000);
    logs.close().unwrap();
    let (_logs, report, found) = open(&devices, options()).unwrap();
    assert_eq!((report.horizon, found.len()), (8_000, 8_000));
    found.iter().for_each(|(timestamp, bytes)| assert_eq!(*bytes, payload(*timestamp, bytes.len())));
}

#[test]
fn callbacks_come_in_order_of_need() {
    let devices = memory_devices(1, 3);
    let (logs, ..) = open(&devices, options()).unwrap();
    let (sender, receiver) = mpsc::channel();
    for timestamp in [2, 1, 3] {
        let sender = sender.clone();
        logs.on_durable(timestamp, Box::new(move |answer| sender.send((timestamp, answer.is_ok())).unwrap()));
    }
    logs.reserve(0, 1).unwrap().commit(2, b"2");
    assert!(receiver.recv_timeout(std::time::Duration::from_millis(20)).is_err(), "1 is missing");
    logs.reserve(0, 1).unwrap().commit(1, b"1");
    let mut answered: Vec<_> = (0..2).map(|_| receiver.recv().unwrap()).collect();
    answered.sort_unstable();
    assert_eq!(answered, [(1, true), (2, true)]);
    logs.close().unwrap();
    assert_eq!(receiver.recv().unwrap(), (3, false), "it will not come");
}

#[test]
fn a_closed_log_says_so() {
    let devices = memory_devices(1, 4);
    let (logs, ..) = open(&devices, options()).unwrap();
    let other = logs.clone();
    logs.close().unwrap();
    assert!(matches!(other.reserve(0, 1).err(), Some(LogError::Closed)));
    assert!(matches!(other.wait_durable(1), Err(LogError::Closed)));
    assert!(other.wait_durable(0).is_ok());
}

#[test]
fn a_record_may_be_longer_than_extents_and_buffers() {
    // In the second, every other frame is cut short by the end of its extent.
    let tight = Options { extent_bytes: 5 * 4096, write_bytes_max: 3 * 4096, ..options() };
    for (options, bytes) in [(options(), 3_000_000), (tight, 20_000_000)] {
        let devices = memory_devices(2, 5);
        let (logs, ..) = open(&devices, options.clone()).unwrap();
        let long = payload(2, bytes);
        logs.reserve(0, 10).unwrap().commit(1, b"first");
        logs.reserve(1, long.len()).unwrap().commit(2, &long);
        logs.reserve(1, 10).unwrap().commit(3, b"third");
        logs.wait_durable(3).unwrap();
        assert!(logs.statistics()[1].extents_live > 10);
        logs.close().unwrap();
        let (_logs, report, found) = open(&devices, options).unwrap();
        assert_eq!(report.horizon, 3);
        assert!(found == Found::from([(1, b"first".to_vec()), (2, long), (3, b"third".to_vec())]));
    }
}

#[test]
fn too_long_a_record_is_refused_at_once() {
    let devices = memory_devices(1, 6);
    let (logs, ..) = open(&devices, Options { record_bytes_max: 1_000, ..options() }).unwrap();
    let refused = logs.reserve(0, 1_001).err();
    assert!(matches!(refused, Some(LogError::TooLarge { bytes: 1_001, bytes_max: 1_000 })));
    drop(logs.reserve(0, 1_000).unwrap());
}

#[test]
fn options_that_cannot_be_are_refused() {
    for (niceness, is_right) in [(19, true), (20, false)] {
        let opened = open(&memory_devices(1, 6), Options { niceness, ..options() });
        assert_eq!(opened.is_ok(), is_right, "{niceness}: {:?}", opened.err());
    }
}

#[test]
fn cut_extents_are_used_again() {
    let devices = memory_devices(1, 7);
    let (logs, ..) = open(&devices, options()).unwrap();
    let mut timestamp = 0;
    for _ in 0..20 {
        for _ in 0..200 {
            timestamp += 1;
            logs.reserve(0, 2_000).unwrap().commit(timestamp, &payload(timestamp, 2_000));
        }
        logs.wait_durable(timestamp).unwrap();
        logs.cut(timestamp - 5);
    }
    let length = devices[0].length_bytes().unwrap();
    assert!(length < 4_000_000, "8 MB of records, cut every 400 kB, take {length} bytes");
    logs.close().unwrap();
    let (_logs, report, found) = open(&devices, options()).unwrap();
    assert_eq!((report.horizon, report.after), (timestamp, timestamp - 5));
    assert!(found.range(timestamp - 4..).count() == 5, "{report:?}");
}

/// What is left of a record whose beginning was cut is stepped over, however many frames it fills, up to the record
/// that begins right behind it.
#[test]
fn a_long_record_is_cut_off_in_its_middle() {
    const FRAME_BYTES: usize = 4096 - 64;
    let devices = sim_devices(1, 9);
    let options = Options { extent_bytes: 8 * 4096, write_bytes_max: 4096, ..options() };
    let (logs, ..) = open(&as_devices(&devices), options.clone()).unwrap();
    // The rest of one extent, behind two frames, all of the next one, and a frame and some of a third.
    let long = payload(2, (5 + 7 + 1) * FRAME_BYTES + 500);
    let behind = payload(3, 100);
    commit_without_break(&logs, &devices[0], &[(1, b"first"), (2, &long), (3, &behind)]);
    logs.wait_durable(3).unwrap();
    logs.cut(2);
    for timestamp in 4..=30 {
        logs.reserve(0, 3_000).unwrap().commit(timestamp, &payload(timestamp, 3_000));
        logs.wait_durable(timestamp).unwrap();
    }
    logs.close().unwrap();
    let (logs, report, found) = open(&as_devices(&devices), options).unwrap();
    assert_eq!((report.after, report.horizon, found.len()), (2, 30, 28), "{report:?}");
    assert!(report.damages.is_empty() && found[&3] == behind, "{report:?}");
    assert_eq!(logs.extents().unwrap()[0].sequence, 3, "the record begins in an extent that is gone");
}

/// Files on this machine, through its kernel.
#[test]
fn real_files_hold_logs() {
    let directory = tempfile::tempdir().unwrap();
    let devices = || -> Vec<Arc<dyn Device>> {
        let open = |log| {
            let path = directory.path().join(format!("{log}.log"));
            open_device(path, DeviceOptions { create: true, ..DeviceOptions::default() }).unwrap()
        };
        (0..2).map(open).collect()
    };
    let options = || Options { extent_bytes: 1 << 20, ..Options::new(9) };
    let mut last = 0;
    for incarnation in 0..3 {
        let (logs, report, found) = open(&devices(), options()).unwrap();
        assert_eq!((report.horizon, found.len() as u64), (last, last), "incarnation {incarnation}: {report:?}");
        found.iter().for_each(|(timestamp, bytes)| assert_eq!(*bytes, payload(*timestamp, bytes.len())));
        let clock = AtomicU64::new(last);
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let (logs, clock) = (&logs, &clock);
                scope.spawn(move || {
                    for round in 0..700 {
                        let reservation = logs.reserve(worker % 2, 2_000).unwrap();
                        let timestamp = clock.fetch_add(1, Ordering::Relaxed) + 1;
                        reservation.commit(timestamp, &payload(timestamp, 100 + round));
                    }
                });
            }
        });
        last += 2_100;
        logs.wait_durable(last).unwrap();
    }
}

/// So long at most until a thread is through that nothing holds up any more.
const PATIENCE: Duration = Duration::from_secs(20);
/// So long at most until a test has ended: it waits for its threads, also for one that is not through.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn room_that_is_given_back_goes_to_those_who_wait_for_it() {
    within(LIMIT, give_room_back);
}

fn give_room_back() {
    let (logs, ..) = open(&memory_devices(1, 3), options()).unwrap();
    // As many as the buffer has room for: short records, and a long one.
    for (bytes, count) in [(60 << 10, 4), (200 << 10, 1)] {
        let held: Vec<_> = (0..count).map(|_| logs.reserve(0, bytes).unwrap()).collect();
        let (told, through) = mpsc::channel();
        std::thread::scope(|scope| {
            let logs = &logs;
            scope.spawn(move || told.send(logs.reserve(0, bytes).map(drop).is_ok()));
            assert!(through.recv_timeout(Duration::from_millis(50)).is_err(), "{bytes} bytes had room");
            drop(held);
            assert_eq!(through.recv_timeout(PATIENCE), Ok(true), "{bytes} bytes");
        });
    }
}

#[test]
fn short_records_go_on_when_a_long_one_has_got_its_room() {
    within(LIMIT, let_a_long_one_through);
}

fn let_a_long_one_through() {
    let (logs, ..) = open(&memory_devices(1, 3), options()).unwrap();
    for _ in 0..40 {
        let held = logs.reserve(0, 200 << 10).unwrap();
        let (told, through) = mpsc::channel();
        let long = Mutex::new(None);
        std::thread::scope(|scope| {
            let (logs, long) = (&logs, &long);
            let wait = |bytes: usize| {
                let told = told.clone();
                scope.spawn(move || {
                    let reservation = logs.reserve(0, bytes).unwrap();
                    if bytes > 1 << 10 {
                        *long.lock().unwrap() = Some(reservation);
                    }
                    told.send(bytes).unwrap();
                });
                std::thread::sleep(Duration::from_millis(2));
            };
            let waits = || logs.statistics()[0].waits;
            let before = waits();
            wait(150 << 10);
            while waits() == before {
                std::thread::yield_now();
            }
            assert!(logs.try_reserve(0, 1 << 10).unwrap().is_none(), "there is room, and a long one waits for more");
            wait(1 << 10);
            drop(held);
            let mut got = [through.recv_timeout(PATIENCE), through.recv_timeout(PATIENCE)];
            got.sort_by_key(|got| got.ok());
            assert_eq!(got, [Ok(1 << 10), Ok(150 << 10)]);
        });
    }
}

#[test]
fn timestamps_reach_as_far_as_the_window() {
    within(LIMIT, reach_as_far_as_the_window);
}

fn reach_as_far_as_the_window() {
    let (logs, ..) = open(&memory_devices(2, 4), options()).unwrap();
    let beyond = logs.durable() + options().window + 1;
    for timestamp in [logs.durable(), beyond] {
        let reservation = logs.reserve(0, 3).unwrap();
        let refused = catch_unwind(AssertUnwindSafe(|| reservation.commit(timestamp, b"abc")));
        assert!(refused.is_err(), "timestamp {timestamp}");
    }
    // All up to there, the last one first, and in another log: its own has come too far.
    logs.reserve(1, 3).unwrap().commit(beyond - 1, b"abc");
    for timestamp in 1..beyond - 1 {
        logs.reserve(0, 0).unwrap().void(timestamp);
    }
    logs.wait_durable(beyond - 1).unwrap();
}

/// Half of the window is for what logs are ahead of the horizon, half for the reservations of all logs.
#[test]
fn room_is_refused_to_those_who_might_leave_the_window() {
    within(LIMIT, go_to_the_end_of_the_window);
}

fn go_to_the_end_of_the_window() {
    const HALF: u64 = 32;
    let (logs, ..) = open(&memory_devices(2, 5), Options { window: 2 * HALF, ..options() }).unwrap();
    let is_open = |log| logs.try_reserve(log, 10).unwrap().is_some();
    let share: Vec<_> = (0..HALF / 2).map(|_| logs.reserve(0, 10).unwrap()).collect();
    assert_eq!([0, 1].map(is_open), [false, true], "one log has its share");
    drop(share);
    assert!(is_open(0));

    logs.reserve(0, 10).unwrap().commit(HALF, b"as far as ");
    assert!(is_open(0), "as far ahead as a log may be");
    logs.reserve(0, 10).unwrap().commit(HALF + 1, b"one beyond");
    assert_eq!([0, 1].map(is_open), [false, true], "and one further");
    logs.reserve(1, 10).unwrap().commit(1, b"0123456789");
    logs.wait_durable(1).unwrap();
    assert!(is_open(0), "the horizon has come nearer");
}
