//! New slots are filled with zeros, a little ahead of the frames. A file system only promises the space that a file
//! grows by: the first write to each piece of it changes the file's metadata, which the flush of every commit would
//! have to make durable as well. Slots that are used again need nothing.
//!
//! ```text
//!   slot │ header │ frames … ─► position │ zeros ─► filled │ promised │
//!                                        └──── AHEAD ─────┘
//! ```
//!
//! A frame goes over zeros that are on the device, or over what nobody is filling: never over zeros in flight.

use std::collections::VecDeque;
use std::ops::Range;

use crate::format::BLOCK_BYTES;

/// How far ahead of the frames.
const AHEAD: u64 = 2 << 20;
/// The longest write of zeros.
const STEP: u64 = 1 << 20;

/// The slots that the device has grown by, in the order of use, until they are filled.
pub struct Filling {
    extent_bytes: u64,
    blank: VecDeque<Blank>,
    /// Zeros on their way, in bytes of the device.
    in_flight: Option<Range<u64>>,
}

struct Blank {
    slot: u64,
    /// End of the frames, within the slot.
    position: u64,
    /// End of what has been written once; not before the position.
    filled: u64,
}

impl Filling {
    pub fn new(extent_bytes: u64) -> Self {
        assert!(extent_bytes.is_multiple_of(BLOCK_BYTES as u64), "extents of {extent_bytes} bytes");
        Self { extent_bytes, blank: VecDeque::new(), in_flight: None }
    }

    /// The device has grown by a slot.
    pub fn grown(&mut self, slot: u64) {
        let header = BLOCK_BYTES as u64;
        self.blank.push_back(Blank { slot, position: header, filled: header });
    }

    /// A frame is submitted; frames come in order.
    pub fn used(&mut self, slot: u64, within: Range<u64>) {
        assert!(within.end <= self.extent_bytes, "a frame ends at {}, beyond its extent", within.end);
        // Slots before this one get no frames any more.
        if let Some(place) = self.blank.iter().position(|blank| blank.slot == slot) {
            self.blank.drain(..place);
            let blank = &mut self.blank[0];
            assert!(within.start >= blank.position, "a frame lies before the one before it");
            blank.position = within.end;
            blank.filled = blank.filled.max(within.end);
        }
    }

    /// Whether a frame has to wait for zeros in flight.
    pub fn is_in_the_way(&self, slot: u64, within: &Range<u64>) -> bool {
        let begin = slot * self.extent_bytes;
        self.in_flight
            .as_ref()
            .is_some_and(|zeros| zeros.start < begin + within.end && begin + within.start < zeros.end)
    }

    /// What is to be filled now, in bytes of the device; it counts as submitted.
    pub fn next(&mut self) -> Option<Range<u64>> {
        if self.in_flight.is_some() {
            return None;
        }
        let end = self.extent_bytes;
        while self.blank.front().is_some_and(|blank| blank.filled == end) {
            self.blank.pop_front();
        }
        let blank = self.blank.front_mut()?;
        if blank.filled >= end.min(blank.position + AHEAD) {
            return None;
        }
        let through = end.min(blank.filled + STEP);
        let begin = blank.slot * end;
        let zeros = begin + blank.filled..begin + through;
        blank.filled = through;
        self.in_flight = Some(zeros.clone());
        Some(zeros)
    }

    /// The zeros have arrived.
    pub fn arrived(&mut self) {
        let zeros = self.in_flight.take();
        assert!(zeros.is_some(), "zeros arrived that were not on their way");
    }

    /// There is no room for them: frames will find out for themselves.
    pub fn refused(&mut self) {
        self.in_flight = None;
        self.blank.clear();
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;

    const EXTENT: u64 = 4 << 20;
    const BLOCK: u64 = BLOCK_BYTES as u64;

    #[test]
    fn zeros_keep_ahead_of_frames() {
        let mut filling = Filling::new(EXTENT);
        assert_eq!(filling.next(), None);
        filling.grown(3);
        filling.grown(4);
        let begin = 3 * EXTENT;
        assert_eq!(filling.next(), Some(begin + BLOCK..begin + BLOCK + STEP));
        assert_eq!(filling.next(), None, "one at a time");
        assert!(filling.is_in_the_way(3, &(BLOCK..2 * BLOCK)));
        assert!(!filling.is_in_the_way(2, &(BLOCK..EXTENT)));
        filling.arrived();
        assert!(!filling.is_in_the_way(3, &(BLOCK..2 * BLOCK)));
        assert_eq!(filling.next(), Some(begin + BLOCK + STEP..begin + BLOCK + 2 * STEP));
        filling.arrived();
        assert_eq!(filling.next(), None, "far enough ahead");
        filling.used(3, BLOCK..3 * STEP);
        assert_eq!(filling.next(), Some(begin + 3 * STEP..begin + EXTENT), "not over frames");
        filling.arrived();
        // The first slot is full: the next one's beginning is filled before its first frame.
        assert_eq!(filling.next(), Some(4 * EXTENT + BLOCK..4 * EXTENT + BLOCK + STEP));
        filling.refused();
        assert_eq!(filling.next(), None);
    }

    #[test]
    fn a_slot_that_frames_have_left_is_left_alone() {
        let mut filling = Filling::new(EXTENT);
        filling.grown(0);
        filling.grown(1);
        filling.used(1, BLOCK..2 * BLOCK);
        assert_eq!(filling.next(), Some(EXTENT + 2 * BLOCK..EXTENT + 2 * BLOCK + STEP));
    }
}
