//! Log images that someone has tampered with.
//!
//! [`log_image`] is a body for a fuzzer: bytes are edits of a valid image of two logs, with or without checksums put
//! right afterwards. Here it is driven by seeded mutations.
//!
//! ```text
//! input   flags u8 | edits, each: place u16 (block), offset u16, length u8 (1 to 16), bytes
//! ```

mod common;

use std::sync::{Arc, LazyLock};

use common::{Found, as_devices, open, options, payload, sim_devices};
use saki_base::{AlignedBuffer, Buffer, Random, checksum};
use saki_io::{Device, Operation, SimDevice, SimOptions, Wait};
use saki_log::Options;

const BLOCK_BYTES: usize = 4096;
/// Put checksums right after the edits.
const FLAG_REPAIR: u8 = 1;
/// Open with `accept_loss`.
const FLAG_ACCEPT_LOSS: u8 = 2;
const EDITS_MAX: usize = 16;
const EXTENT_BYTES: usize = 32 << 10;

fn small() -> Options {
    Options { extent_bytes: EXTENT_BYTES as u64, ..options() }
}

/// Two logs of three incarnations, with long records, void ones and a cut.
struct Image {
    logs: Vec<Vec<u8>>,
    records: Found,
}

static IMAGE: LazyLock<Image> = LazyLock::new(make_image);

fn make_image() -> Image {
    let devices = sim_devices(2, 77);
    let mut records = Found::new();
    let mut timestamp = 0;
    for incarnation in 0..3 {
        let (logs, ..) = open(&as_devices(&devices), small()).expect("valid");
        for _ in 0..20 {
            timestamp += 1;
            let bytes = payload(timestamp, if timestamp % 9 == 0 { 40_000 } else { 30 * timestamp as usize });
            let reservation = logs.reserve(timestamp as usize % 2, bytes.len()).expect("room");
            match timestamp % 7 {
                0 => reservation.void(timestamp),
                _ => {
                    reservation.commit(timestamp, &bytes);
                    records.insert(timestamp, bytes);
                }
            }
            logs.wait_durable(timestamp).expect("durable");
        }
        if incarnation == 1 {
            logs.cut(5);
        }
        logs.close().expect("closes");
    }
    let logs = devices.iter().map(|device| {
        let mut bytes = vec![0; device.length_bytes().expect("a length") as usize];
        device.peek(0, &mut bytes);
        bytes
    });
    Image { logs: logs.collect(), records }
}

/// Opens damaged logs: no panic, and without repaired checksums never a record that was not written.
pub fn log_image(data: &[u8]) {
    let image = &*IMAGE;
    let mut logs = image.logs.clone();
    let (flags, mut rest) = data.split_first().map_or((0, data), |(flags, rest)| (*flags, rest));
    for _ in 0..EDITS_MAX {
        let [place_low, place_high, at_low, at_high, length, bytes @ ..] = rest else { break };
        let block = u16::from_le_bytes([*place_low, *place_high]) as usize;
        let log = block % logs.len();
        let start = block / logs.len() % (logs[log].len() / BLOCK_BYTES) * BLOCK_BYTES;
        let at = u16::from_le_bytes([*at_low, *at_high]) as usize % BLOCK_BYTES;
        let length = (*length as usize % 16 + 1).min(BLOCK_BYTES - at).min(bytes.len());
        logs[log][start + at..start + at + length].copy_from_slice(&bytes[..length]);
        rest = &bytes[length..];
    }
    if flags & FLAG_REPAIR != 0 {
        logs.iter_mut().for_each(|log| repair(log));
    }
    let devices: Vec<_> = logs.iter().map(|bytes| device_of(bytes)).collect();
    let accept_loss = flags & FLAG_ACCEPT_LOSS != 0;
    let opened = open(&as_devices(&devices), Options { accept_loss, ..small() });
    let Ok((logs, report, found)) = opened else { return };
    if flags & FLAG_REPAIR == 0 {
        assert!(report.after <= report.horizon, "{report:?}");
        let expected = image.records.range(..=report.horizon).filter(|(timestamp, _)| **timestamp > report.after);
        assert!(expected.eq(found.iter()), "records are others than were written: {report:?}");
        assert!(accept_loss || report.horizon == 60, "{report:?}");
    }
    // Whatever was accepted can be worked with.
    let Ok(reservation) = logs.reserve(0, 3) else { return };
    reservation.commit(logs.durable() + 1, b"new");
    logs.close().expect("the device is well");
}

/// Puts right all checksums of what still says that it is a header.
fn repair(log: &mut [u8]) {
    for start in (0..log.len()).step_by(BLOCK_BYTES) {
        let end = (start / EXTENT_BYTES + 1) * EXTENT_BYTES;
        let part = &mut log[start..end];
        let covered = match () {
            () if part[8..16] == *b"SAKI-LOG" => 512,
            () if part[8..12] == *b"SKLF" => 64 + u32::from_le_bytes(part[12..16].try_into().unwrap()) as usize,
            () => continue,
        };
        if covered <= part.len() {
            let sum = checksum(&part[8..covered]).to_le_bytes();
            part[..8].copy_from_slice(&sum);
        }
    }
}

fn device_of(bytes: &[u8]) -> Arc<SimDevice> {
    let device = SimDevice::new(SimOptions { length_bytes: bytes.len() as u64, ..SimOptions::default() });
    let mut buffer = AlignedBuffer::new(bytes.len());
    buffer.copy_from_slice(bytes);
    let mut lane = device.open_lane(None).expect("a lane");
    lane.submit(Operation::write(0, 0, Buffer::Aligned(buffer)));
    lane.submit(Operation::flush(1));
    let mut completions = Vec::new();
    while completions.len() < 2 {
        lane.poll(Wait::No, &mut completions);
    }
    device
}

/// Places where headers have their fields, so that most edits hit something.
fn mutation(random: &mut Random) -> Vec<u8> {
    let mut data = vec![random.below(4) as u8];
    for _ in 0..random.range(1..4) {
        data.extend((random.next_u64() as u16).to_le_bytes());
        let at = if random.chance(0.8) { random.below(96) } else { random.below(BLOCK_BYTES as u64) };
        data.extend((at as u16).to_le_bytes());
        let length = [1, 2, 4, 8, 16][random.below(5) as usize];
        data.push(length - 1);
        for _ in 0..length {
            data.push([0, 1, 2, 64, 0xff, random.next_u64() as u8][random.below(6) as usize]);
        }
    }
    data
}

#[test]
fn an_untouched_image_opens() {
    log_image(&[0]);
    log_image(&[FLAG_REPAIR]);
    assert_eq!(IMAGE.records.len(), 60 - 8);
}

#[test]
fn no_edit_of_an_image_is_taken_for_a_record() {
    for seed in common::seeds(600) {
        let data = mutation(&mut Random::new(seed));
        let outcome = std::panic::catch_unwind(|| log_image(&data));
        assert!(outcome.is_ok(), "SAKI_SEED={seed}, input {data:02x?}");
    }
}
