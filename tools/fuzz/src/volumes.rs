//! Volumes: superblocks with their device table, labels and journal, by what `Volume::open` makes of a damaged device.
//!
//! The device is a valid small one with some generations published. The input is a list of
//! edits, and whether checksums are put right afterwards: without them damage must
//! never be accepted as another content, with them it must at least not panic.
//!
//! ```text
//! input   flags u8 | edits (`damage.rs`)
//! ```

use std::sync::{Arc, LazyLock};

use saki_base::{PageSize, Part, PartKind, TreeId, checksum};
use saki_io::{Device, SimDevice, SimOptions};
use saki_volume::{Volume, VolumeOptions};

use crate::damage::{BLOCK_BYTES, edit, write};
use crate::input::Input;

const CHUNK_BYTES: u64 = 1 << 20;
/// Superblocks, two places a generation (docs/file-format.md).
const SUPERBLOCKS: [u64; 4] = [0, 256 << 10, 512 << 10, 896 << 10];
/// Where a superblock's device table follows.
const TABLE_OFFSET: u64 = 4096;
/// Labels, two places.
const LABELS: [u64; 2] = [128 << 10, 640 << 10];
const JOURNAL_MAGIC: &[u8; 4] = b"SKJB";
/// Put checksums right after the edits.
const FLAG_REPAIR: u8 = 1;
const DEVICE_BYTES: u64 = 64 << 20;

/// A device's bytes that are not data pages: block by block, with their offsets.
struct Image {
    blocks: Vec<(u64, Vec<u8>)>,
    root: Vec<u8>,
}

static IMAGE: LazyLock<Image> = LazyLock::new(make_image);

fn make_image() -> Image {
    let device = new_device();
    let as_device = Arc::clone(&device) as Arc<dyn Device>;
    let options = VolumeOptions { database_id: Some(7), ..VolumeOptions::new(PageSize::new(4096).expect("valid")) };
    let volume = Volume::create(as_device, options).expect("an empty device");
    for generation in 1..=5_u8 {
        let publication = volume.begin();
        let mut writer = publication.writer();
        let part = Part::new(TreeId(generation.into()), PartKind::Leaves);
        for page in 0..300_u32 {
            writer.append(part, &[page as u8 ^ generation; BLOCK_BYTES]).expect("room");
        }
        writer.finish().expect("room");
        publication.commit(&[generation; 40]).expect("room");
    }
    let root = volume.root();
    drop(volume);
    // All blocks of superblocks, tables, labels and journal, the last found by their marks.
    let is_kept = |offset: &u64, block: &[u8]| {
        let is_table = offset.checked_sub(TABLE_OFFSET).is_some_and(|before| SUPERBLOCKS.contains(&before));
        SUPERBLOCKS.contains(offset) || is_table || LABELS.contains(offset) || &block[8..12] == JOURNAL_MAGIC
    };
    let blocks: Vec<_> = (0..DEVICE_BYTES)
        .step_by(BLOCK_BYTES)
        .map(|offset| {
            let mut block = vec![0; BLOCK_BYTES];
            device.peek(offset, &mut block);
            (offset, block)
        })
        .filter(|(offset, block)| is_kept(offset, block))
        .collect();
    assert!(blocks.len() > 2 * SUPERBLOCKS.len() + LABELS.len(), "no journal block was found: has the format changed?");
    Image { blocks, root }
}

/// Opens a damaged device.
pub fn volume(data: &[u8]) {
    let image = &*IMAGE;
    let mut blocks = image.blocks.clone();
    let mut input = Input(data);
    let flags = input.byte();
    edit(&mut blocks, &mut input);
    if flags & FLAG_REPAIR != 0 {
        repair_tables(&mut blocks);
        blocks.iter_mut().for_each(|(offset, block)| repair(*offset, block));
    }
    let damaged = (0..).zip(&blocks).zip(&image.blocks).any(|((_, now), before)| now != before);
    let device = new_device();
    write(&device, &blocks);
    match Volume::open(Arc::clone(&device) as Arc<dyn Device>) {
        Ok(volume) => {
            let _ = (volume.stats(), volume.live_pages());
            let root = volume.root();
            // Without the means to forge a checksum, what opens is the newest generation.
            assert!(root == image.root || flags & FLAG_REPAIR != 0, "a damaged volume opened with another root");
        }
        Err(error) => {
            assert!(damaged, "an undamaged volume is refused: {error}");
            assert!(error.to_string().contains("sim:"), "a refusal without the device's name: {error}");
        }
    }
}

/// Makes the checksums of device tables right, which their superblocks have.
fn repair_tables(blocks: &mut [(u64, Vec<u8>)]) {
    for place in SUPERBLOCKS {
        let table = blocks.iter().find(|(offset, _)| *offset == place + TABLE_OFFSET).map(|(_, block)| block.clone());
        let superblock = blocks.iter_mut().find(|(offset, _)| *offset == place);
        let (Some(table), Some((_, superblock))) = (table, superblock) else { continue };
        let length = u32::from_le_bytes(superblock[76..80].try_into().expect("four bytes")) as usize;
        let sum = checksum(&table[..length.min(BLOCK_BYTES)]);
        superblock[BLOCK_BYTES - 16..BLOCK_BYTES - 8].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Makes the block's checksum right, as someone who forges one would.
fn repair(offset: u64, block: &mut [u8]) {
    if SUPERBLOCKS.contains(&offset) {
        let sum = checksum(&block[..BLOCK_BYTES - 8]);
        block[BLOCK_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
    } else if LABELS.contains(&offset) {
        let sum = checksum(&block[..40]);
        block[40..48].copy_from_slice(&sum.to_le_bytes());
    } else if block[8..12] == *JOURNAL_MAGIC {
        let count = u32::from_le_bytes(block[12..16].try_into().expect("four bytes")) as usize;
        let used = 32 + count.min((BLOCK_BYTES - 32) / 24) * 24;
        let sum = checksum(&block[8..used]);
        block[..8].copy_from_slice(&sum.to_le_bytes());
    }
}

fn new_device() -> Arc<SimDevice> {
    SimDevice::new(SimOptions { length_bytes: DEVICE_BYTES, ..SimOptions::default() })
}

/// No edit; a flipped bit in each block, with and without a right checksum; hostile fields of the superblock.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0], vec![FLAG_REPAIR]];
    for flags in [0, FLAG_REPAIR] {
        for place in 0..IMAGE.blocks.len() as u8 {
            seeds.push(vec![flags, place, 40, 0, 0, 1]);
        }
        // Page size, next chunk, journal length, sequence, counts: each in all superblocks.
        for field in [12, 32, 40, 48, 56, 64, 68, 72, 80, 88, 208] {
            let edits = (0..SUPERBLOCKS.len() as u8).flat_map(|place| [place, field, 0, 3, 1, 2, 3, 4]);
            seeds.push(std::iter::once(flags).chain(edits).collect());
        }
    }
    const { assert!(CHUNK_BYTES > SUPERBLOCKS[3], "all superblocks lie in the first slot") };
    seeds
}
