//! Slots that are not what they were: headers that have rotted, a device that ends within one.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{as_devices, content, filled_logs, open, options, payload, sim_devices, write};
use saki_io::{SimDevice, SimOptions};
use saki_log::LogError;

/// The device with that many bytes, of which the first are given, and which cannot grow beyond `bytes_max`.
fn device_of(bytes: &[u8], length_bytes: u64, length_bytes_max: u64) -> Arc<SimDevice> {
    let device = SimDevice::new(SimOptions { length_bytes, length_bytes_max, ..SimOptions::default() });
    write(&device, 0, bytes);
    device
}

/// A device that has one slot more, with these bytes and a header that has rotted.
fn with_nameless(device: &SimDevice, slot: &[u8]) -> Arc<SimDevice> {
    let mut bytes = content(device);
    let at = bytes.len() as u64;
    bytes.extend_from_slice(slot);
    let longer = device_of(&bytes, bytes.len() as u64, 1 << 40);
    longer.flip_bit(at + 100, 0);
    longer
}

/// What a slot has.
fn slot_of(device: &SimDevice, slot: usize) -> Vec<u8> {
    let extent = options().extent_bytes as usize;
    content(device)[slot * extent..(slot + 1) * extent].to_vec()
}

/// Frames say which extent they belong to, and other headers what their incarnation was built on.
#[test]
fn an_extent_is_read_without_its_header() {
    let (devices, expected) = filled_logs(1, 21, 200);
    let slots = content(&devices[0]).len() as u64 / options().extent_bytes;
    assert!(slots >= 3, "{slots} slots");
    for slot in 0..slots {
        let rotten = devices[0].crash(1);
        rotten.flip_bit(slot * options().extent_bytes + 100, 0);
        let (_logs, report, found) = open(&as_devices(&[rotten]), options()).unwrap();
        assert!(found == expected && report.horizon == 200, "slot {slot}: {report:?}");
    }
}

/// A log of one incarnation, of which the first extents were cut.
fn cut_log(seed: u64) -> Arc<SimDevice> {
    let devices = sim_devices(1, seed);
    let (logs, ..) = open(&as_devices(&devices), options()).unwrap();
    for timestamp in 1..=400 {
        logs.reserve(0, 2_000).unwrap().commit(timestamp, &payload(timestamp, 2_000));
        if timestamp % 50 == 0 {
            logs.wait_durable(timestamp).unwrap();
            logs.cut(timestamp - 5);
        }
    }
    logs.close().unwrap();
    Arc::clone(&devices[0])
}

/// Nobody knows any more what its incarnation was built on; but all that it had was cut.
#[test]
fn what_was_cut_is_not_missed_with_its_header() {
    let others = sim_devices(1, 22);
    for timestamp in 1..=4 {
        let (logs, ..) = open(&as_devices(&others), options()).unwrap();
        logs.reserve(0, 10).unwrap().commit(timestamp, b"0123456789");
        logs.close().unwrap();
    }
    let cut = cut_log(23);
    let (_logs, before, found) = open(&as_devices(&[cut.crash(1)]), options()).unwrap();
    let slots = content(&others[0]).len() / options().extent_bytes as usize;
    for slot in 0..slots {
        let device = with_nameless(&cut.crash(1), &slot_of(&others[0], slot));
        let (_logs, report, again) = open(&as_devices(&[device]), options()).unwrap();
        assert!(again == found && report.horizon == before.horizon, "slot {slot}: {report:?}");
    }
}

/// The extent has its header in another slot.
#[test]
fn a_copy_without_header_is_passed_by() {
    let (devices, expected) = filled_logs(1, 24, 100);
    let device = with_nameless(&devices[0], &slot_of(&devices[0], 1));
    let (_logs, report, found) = open(&as_devices(&[device]), options()).unwrap();
    assert!(found == expected && report.horizon == 100, "{report:?}");
}

#[test]
fn a_slot_that_is_cut_off_is_made_whole_or_left_alone() {
    let extent = options().extent_bytes;
    let (devices, expected) = filled_logs(1, 25, 5);
    let first = slot_of(&devices[0], 0);
    for (length_max, has_room) in [(2 * extent, true), (2 * extent - 4096, false)] {
        let device = device_of(&first, extent + 8192, length_max);
        let (logs, report, found) = open(&as_devices(&[Arc::clone(&device)]), options()).unwrap();
        assert!(found == expected && report.horizon == 5, "{report:?}");
        let patience = if has_room { Duration::from_secs(10) } else { Duration::from_millis(50) };
        let began = Instant::now();
        let reservation = loop {
            match logs.reserve(0, 10) {
                // There is no room for one more, as long as the one that there is has not been made ready.
                Err(LogError::Full { log: 0, .. }) if began.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                outcome => break outcome,
            }
        };
        if !has_room {
            let outcome = reservation.map(drop);
            assert!(matches!(outcome, Err(LogError::Full { log: 0, .. })), "{outcome:?}");
            continue;
        }
        reservation.unwrap().commit(6, b"0123456789");
        logs.wait_durable(6).unwrap();
        assert_eq!(content(&device).len() as u64, 2 * extent);
        logs.close().unwrap();
        let (_logs, report, _) = open(&as_devices(&[device]), options()).unwrap();
        assert_eq!(report.horizon, 6);
    }
}
