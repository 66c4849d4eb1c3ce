//! Logs that are copied while they are written to: the copy has all that was durable when copying began.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use std::time::Duration;

use common::{Found, memory_devices, open, open_range, options, payload};
use saki_io::Device;
use saki_log::{LogError, Logs, Range, write_extent};

const LOGS: u64 = 3;
const PIECE_BYTES: usize = 16 << 10;

/// Copies what a recovery would read, each log to a device of its own.
fn copy(logs: &Logs, seed: u64) -> Vec<Arc<dyn Device>> {
    let copies = memory_devices(LOGS, seed);
    let mut slots = [0; LOGS as usize];
    for extent in logs.extents().expect("the headers are read") {
        let mut offset = 0;
        while offset < extent.bytes {
            let length = PIECE_BYTES.min((extent.bytes - offset) as usize);
            let Some(bytes) = logs.read_extent(&extent, offset, length).expect("read") else { break };
            let slot = slots[extent.log];
            write_extent(&copies[extent.log], slot, extent.extent_bytes, offset, &bytes).expect("written");
            offset += length as u64;
        }
        slots[extent.log] += u64::from(offset > 0);
    }
    copies
}

fn is_void(timestamp: u64) -> bool {
    timestamp.is_multiple_of(11)
}

#[test]
fn a_copy_made_beside_writers_has_all_that_was_durable() {
    let devices = memory_devices(LOGS, 1);
    let (logs, ..) = open(&devices, options()).expect("opened");
    let (clock, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for log in 0..LOGS as usize {
            let (logs, clock, stop) = (&logs, &clock, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // Slowly: each copy is to be of logs that a few extents have.
                    std::thread::sleep(Duration::from_micros(500));
                    let reservation = match logs.reserve(log, 3000) {
                        Err(LogError::Full { .. }) => continue,
                        reserved => reserved.expect("room"),
                    };
                    let timestamp = clock.fetch_add(1, Ordering::Relaxed) + 1;
                    match is_void(timestamp) {
                        true => reservation.void(timestamp),
                        false => reservation.commit(timestamp, &payload(timestamp, 10 + timestamp as usize % 2900)),
                    }
                }
            });
        }
        let mut cut = 0;
        for round in 0..12 {
            while logs.durable() < cut + 400 {
                std::thread::yield_now();
            }
            let through = logs.durable();
            let copies = copy(&logs, 100 + round);
            let range = Range { after: Some(cut), through, known: Some(through) };
            let (copied, report, found) = open_range(&copies, options(), range).expect("the copy is whole");
            assert_eq!(report.horizon, through);
            let expected: Found = (cut + 1..=through)
                .filter(|it| !is_void(*it))
                .map(|it| (it, payload(it, 10 + it as usize % 2900)))
                .collect();
            assert_eq!(found.len(), expected.len());
            assert!(found == expected, "the copy has other records");
            copied.close().expect("closed");
            // What came later is void for ever; no range says so any more.
            let (_, again, found) =
                open_range(&copies, options(), Range { after: Some(cut), ..Range::default() }).expect("opened");
            assert!(again.horizon >= through && found == expected, "{again:?}");
            // The extents that this frees are taken again while the next copy is made.
            cut = through;
            logs.cut(cut);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_copy_that_lacks_an_extent_is_refused() {
    let devices = memory_devices(LOGS, 2);
    let (logs, ..) = open(&devices, options()).expect("opened");
    for timestamp in 1..=900 {
        logs.reserve(timestamp as usize % 3, 3000).expect("room").commit(timestamp, &payload(timestamp, 2000));
    }
    logs.wait_durable(900).expect("durable");
    let copies = copy(&logs, 7);
    let (longest, bytes) = (&copies[0], options().extent_bytes);
    write_extent(longest, 1, bytes, 0, &vec![0; bytes as usize]).expect("overwritten");
    let range = Range { after: Some(0), through: 900, known: Some(900) };
    let refused = open_range(&copies, options(), range).expect_err("an extent is gone");
    assert!(matches!(refused, LogError::Corrupt { .. } | LogError::Missing { .. }), "{refused}");
}
