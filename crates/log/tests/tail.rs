//! Logs that are followed while they are written to: every record that becomes durable, once, in order.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{memory_devices, open, open_range, options, payload, within};
use saki_log::{LogError, LogRecord, Logs, Options, Range};

const LOGS: u64 = 3;

/// Some are longer than a window, and some void.
fn record(timestamp: u64) -> Option<Vec<u8>> {
    let length = if timestamp.is_multiple_of(400) { 300_000 } else { 10 + timestamp as usize % 2900 };
    (!timestamp.is_multiple_of(11)).then(|| payload(timestamp, length))
}

fn append(logs: &Logs, log: usize, timestamp: impl FnOnce() -> u64) {
    let reservation = loop {
        match logs.reserve(log, 300_000) {
            Err(LogError::Full { .. }) => std::thread::yield_now(),
            reserved => break reserved.expect("room"),
        }
    };
    let timestamp = timestamp();
    match record(timestamp) {
        None => reservation.void(timestamp),
        Some(payload) => reservation.commit(timestamp, &payload),
    }
}

fn long() -> Options {
    Options { buffer_bytes: 2 << 20, ..options() }
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn expect_next(next: &mut u64, taken: &[LogRecord]) {
    for LogRecord { timestamp, payload } in taken {
        assert_eq!((*timestamp, payload), (*next, &record(*timestamp)));
        *next += 1;
    }
}

#[test]
fn a_follower_gets_every_record_beside_writers_and_cuts() {
    within(Duration::from_secs(120), follow_beside_writers);
}

fn follow_beside_writers() {
    let devices = memory_devices(LOGS, 1);
    let (logs, ..) = open(&devices, long()).expect("opened");
    let (clock, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Also if what follows fails.
        let _stop = StopOnDrop(&stop);
        for log in 0..LOGS as usize {
            let (logs, clock, stop) = (&logs, &clock, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    append(logs, log, || clock.fetch_add(1, Ordering::Relaxed) + 1);
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
        }
        let (mut tail, mut next) = (logs.tail(0).expect("from the beginning"), 1);
        while next < 8000 {
            let durable = logs.durable();
            let taken = tail.take(u64::MAX, 100_000).expect("followed");
            let bytes = |record: &LogRecord| record.payload.as_ref().map_or(0, Vec::len);
            let all: usize = taken.iter().map(bytes).sum();
            assert!(all >= 100_000 || taken.last().map_or(next - 1, |last| last.timestamp) >= durable, "all there is");
            assert!(taken.last().is_none_or(|last| all - bytes(last) < 100_000), "and no more than was asked for");
            expect_next(&mut next, &taken);
            assert_eq!(tail.next(), next);
            // Extents are used again right behind the follower.
            logs.cut(next - 1);
        }
    });
    assert!(logs.statistics().iter().all(|log| log.written_bytes > 4 * options().extent_bytes), "extents come again");
}

#[test]
fn following_begins_behind_what_was_cut_and_not_before_the_opening() {
    let devices = memory_devices(LOGS, 2);
    let (logs, ..) = open(&devices, long()).expect("opened");
    (1..=500).for_each(|timestamp| append(&logs, timestamp as usize % 3, || timestamp));
    logs.wait_durable(500).expect("durable");
    let (mut tail, mut next) = (logs.tail(300).expect("from there"), 301);
    expect_next(&mut next, &tail.take(450, usize::MAX).expect("followed"));
    assert_eq!(next, 451);
    expect_next(&mut next, &tail.take(u64::MAX, usize::MAX).expect("followed"));
    assert_eq!((next, tail.take(u64::MAX, usize::MAX).expect("followed")), (501, Vec::new()));
    logs.close().expect("closed");

    let (logs, report, _) = open(&devices, long()).expect("opened again");
    assert!(matches!(logs.tail(499), Err(LogError::Options { .. })));
    let (mut tail, mut next) = (logs.tail(report.clock).expect("from the opening"), report.clock + 1);
    (next..next + 50).for_each(|timestamp| append(&logs, 0, || timestamp));
    logs.wait_durable(next + 49).expect("durable");
    let expected = next + 50;
    expect_next(&mut next, &tail.take(u64::MAX, usize::MAX).expect("followed"));
    assert_eq!(next, expected);
    drop(logs);
    assert!(matches!(tail.take(u64::MAX, 1), Ok(none) if none.is_empty()), "nothing new, so nothing is read");
}

/// What was followed, written to new logs that begin behind the cut, is what a recovery finds there.
#[test]
fn what_was_followed_makes_new_logs() {
    let devices = memory_devices(LOGS, 3);
    let (logs, ..) = open(&devices, long()).expect("opened");
    (1..=900).for_each(|timestamp| append(&logs, timestamp as usize % 3, || timestamp));
    logs.wait_durable(900).expect("durable");
    let followed = logs.tail(120).expect("from there").take(u64::MAX, usize::MAX).expect("followed");
    let copies = memory_devices(LOGS, 4);
    let range = Range { after: Some(120), ..Range::default() };
    let (copy, ..) = open_range(&copies, long(), range).expect("empty");
    for LogRecord { timestamp, payload } in &followed[..500] {
        let reservation = copy.reserve(0, payload.as_ref().map_or(0, Vec::len)).expect("room");
        match payload {
            None => reservation.void(*timestamp),
            Some(payload) => reservation.commit(*timestamp, payload),
        }
    }
    copy.close().expect("closed");
    let known = Range { known: Some(400), ..range };
    let (_copy, report, found) = open_range(&copies, long(), known).expect("opened");
    assert_eq!(report.horizon, 620);
    let expected = (121..=620).filter_map(|timestamp| Some((timestamp, record(timestamp)?))).collect();
    assert!(found == expected, "other records");
}
