//! Write-ahead logs: what recovery makes of a damaged device, and records of transactions.
//!
//! The device is a valid small log of several extents, with records over frames and extents and one void. The input
//! of [`log`] is a list of edits, and whether checksums are put right afterwards: without them no record may come out
//! that was not put in, with them nothing may panic.
//!
//! ```text
//! input   flags u8 | edits (`damage.rs`)
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use saki_base::checksum;
use saki_io::{Device, SimDevice, SimOptions};
use saki_log::{Logs, Options, Range};
use saki_mvcc::record::{Change, Effect, Patch, changes};

use crate::damage::{BLOCK_BYTES, edit, write};
use crate::input::Input;

const EXTENT_BYTES: u64 = 8 * BLOCK_BYTES as u64;
const DEVICE_BYTES: u64 = 16 * EXTENT_BYTES;
const EXTENT_MAGIC: &[u8; 8] = b"SAKI-LOG";
const FRAME_MAGIC: &[u8; 4] = b"SKLF";
/// Put checksums right after the edits.
const FLAG_REPAIR: u8 = 1;
/// Go back to the moment before a loss.
const FLAG_ACCEPT: u8 = 2;
const TIMESTAMPS: u64 = 24;
const VOID: u64 = 7;
/// Blocks that seeds damage: all of the image, whose number differs a little with how records gathered into frames.
const PLACES: u8 = 64;

static IMAGE: LazyLock<Vec<(u64, Vec<u8>)>> = LazyLock::new(make_image);

fn options() -> Options {
    Options { extent_bytes: EXTENT_BYTES, window: 64, write_bytes_max: 2 * BLOCK_BYTES, ..Options::new(7) }
}

/// What the log has of a timestamp.
fn payload(timestamp: u64) -> Vec<u8> {
    vec![timestamp as u8; (timestamp * 397 % 9_000) as usize]
}

fn new_device() -> Arc<SimDevice> {
    SimDevice::new(SimOptions { length_bytes: DEVICE_BYTES, ..SimOptions::default() })
}

fn make_image() -> Vec<(u64, Vec<u8>)> {
    let device = new_device();
    let nothing = |_: usize, _: u64, _: &[u8]| Ok::<(), std::io::Error>(());
    let devices = vec![Arc::clone(&device) as Arc<dyn Device>];
    let (logs, _) = Logs::recover(devices, options(), Range::default(), &|_| {}, &nothing).expect("an empty device");
    for timestamp in 1..=TIMESTAMPS {
        let payload = payload(timestamp);
        let reservation = logs.reserve(0, payload.len()).expect("room");
        if timestamp == VOID {
            reservation.void(timestamp)
        } else {
            reservation.commit(timestamp, &payload)
        }
        if timestamp % 3 == 0 {
            logs.wait_durable(timestamp).expect("a device that works");
        }
    }
    logs.close().expect("a device that works");
    (0..DEVICE_BYTES)
        .step_by(BLOCK_BYTES)
        .map(|offset| {
            let mut block = vec![0; BLOCK_BYTES];
            device.peek(offset, &mut block);
            (offset, block)
        })
        .filter(|(_, block)| block.iter().any(|byte| *byte != 0))
        .collect()
}

/// Recovers a damaged log.
pub fn log(data: &[u8]) {
    let mut input = Input(data);
    let flags = input.byte();
    let mut blocks = IMAGE.clone();
    edit(&mut blocks, &mut input);
    if flags & FLAG_REPAIR != 0 {
        repair(&mut blocks);
    }
    let damaged = blocks != *IMAGE;
    let device = new_device();
    write(&device, &blocks);
    let found = Mutex::new(BTreeMap::new());
    let apply = |_: usize, timestamp: u64, payload: &[u8]| {
        found.lock().insert(timestamp, payload.to_vec());
        Ok::<(), std::io::Error>(())
    };
    let options = Options { accept_loss: flags & FLAG_ACCEPT != 0, ..options() };
    let devices = vec![Arc::clone(&device) as Arc<dyn Device>];
    match Logs::recover(devices, options, Range::default(), &|_| {}, &apply) {
        Ok((logs, report)) => {
            assert!(report.clock >= report.horizon);
            if flags & FLAG_REPAIR == 0 {
                let right = |(timestamp, found): (&u64, &Vec<u8>)| *found == payload(*timestamp) && *timestamp != VOID;
                assert!(found.lock().iter().all(right), "a record that was never written");
                let voids = u64::from(report.horizon >= VOID);
                assert_eq!(found.lock().len() as u64 + voids, report.horizon, "a gap");
                assert!(damaged || report.horizon == TIMESTAMPS, "an undamaged log ends at {}", report.horizon);
            }
            logs.close().expect("a device that works");
        }
        Err(error) => {
            assert!(damaged, "an undamaged log is refused: {error}");
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Makes checksums right, as someone who forges them would.
fn repair(blocks: &mut [(u64, Vec<u8>)]) {
    for at in 0..blocks.len() {
        let block = &blocks[at].1;
        let sum = if &block[8..16] == EXTENT_MAGIC {
            checksum(&block[8..512])
        } else if &block[8..12] == FRAME_MAGIC {
            // The payload goes on in the blocks that follow.
            let bytes = u32::from_le_bytes(block[12..16].try_into().expect("four bytes")) as usize;
            let frame: Vec<u8> = blocks[at..].iter().take(4).flat_map(|(_, block)| block.iter().copied()).collect();
            checksum(&frame[8..(64 + bytes).min(frame.len())])
        } else {
            continue;
        };
        blocks[at].1[..8].copy_from_slice(&sum.to_le_bytes());
    }
}

/// No edit; a flipped byte in each block, with and without a right checksum; hostile fields of extent and frame
/// headers.
pub fn log_seeds() -> Vec<Vec<u8>> {
    assert!(IMAGE.len() <= usize::from(PLACES));
    let mut seeds = vec![vec![0], vec![FLAG_REPAIR], vec![FLAG_ACCEPT]];
    for flags in [0, FLAG_REPAIR, FLAG_ACCEPT, FLAG_REPAIR | FLAG_ACCEPT] {
        for place in 0..PLACES {
            seeds.push(vec![flags, place, 100, 0, 0, 1]);
        }
        for field in (0..96).step_by(4) {
            seeds.push(vec![flags, 0, field, 0, 3, 0xff, 2, 3, 4]);
            seeds.push(vec![flags, 1, field, 0, 7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        }
    }
    seeds
}

/// Reads a record's changes; what is read, written and read again is the same.
pub fn record(data: &[u8]) {
    let read: Vec<Change<'_>> = changes(data).map_while(Result::ok).collect();
    let mut again = Vec::new();
    for change in &read {
        change.encode(&mut again);
        if let Effect::Patch(patch) = change.effect {
            let mut body = Vec::new();
            if patch.apply(data, &mut body) {
                assert_eq!(body.len(), patch.length());
            }
        }
    }
    assert_eq!(changes(&again).map(|change| change.expect("just written")).collect::<Vec<_>>(), read);
}

/// A change of each kind, and all of them.
pub fn record_seeds() -> Vec<Vec<u8>> {
    let patch = Patch { base: 300, prefix: 4, suffix: 70_000, middle: b"middle" };
    let effects = [Effect::Put(b"body"), Effect::Patch(patch), Effect::Delete];
    let mut seeds = vec![Vec::new(); 4];
    for (number, effect) in effects.into_iter().enumerate() {
        let change = Change { table: 200 * number as u32, key: b"the key", effect };
        change.encode(&mut seeds[number]);
        change.encode(&mut seeds[3]);
    }
    seeds
}
