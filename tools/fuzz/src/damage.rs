//! Damage to the blocks of a device.
//!
//! ```text
//! edits   each: place u8, offset u16, length u8 (1 to 16), bytes
//! ```

use saki_base::{AlignedBuffer, Buffer};
use saki_io::{Device, Lane, Operation, SimDevice, Wait};

use crate::input::Input;

pub const BLOCK_BYTES: usize = 4096;
const EDITS_MAX: usize = 16;

/// Applies the edits that an input consists of.
pub fn edit(blocks: &mut [(u64, Vec<u8>)], input: &mut Input<'_>) {
    for _ in 0..EDITS_MAX {
        if input.0.is_empty() {
            break;
        }
        let (place, low, high, length) = (input.byte(), input.byte(), input.byte(), input.byte());
        let count = blocks.len();
        let (_, block) = &mut blocks[place as usize % count];
        let at = u16::from_le_bytes([low, high]) as usize % BLOCK_BYTES;
        let bytes = input.bytes((length as usize % 16 + 1).min(BLOCK_BYTES - at));
        block[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Writes blocks to their offsets.
pub fn write(device: &SimDevice, blocks: &[(u64, Vec<u8>)]) {
    let mut lane: Box<dyn Lane> = device.open_lane(None).expect("a simulated lane");
    for (offset, block) in blocks {
        let mut buffer = AlignedBuffer::new(BLOCK_BYTES);
        buffer.copy_from_slice(block);
        lane.submit(Operation::write(*offset, *offset, Buffer::Aligned(buffer)));
    }
    let mut completions = Vec::new();
    while lane.in_flight() > 0 {
        lane.poll(Wait::No, &mut completions);
    }
    assert!(completions.iter().all(|completion| completion.result.is_ok()));
}
