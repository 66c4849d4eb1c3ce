//! Which slot of a device holds which extent, and which may be used again.
//!
//! ```text
//!            next extent              first frame               cut ≥ newest, in order
//!   free ───────────────► prepared ───────────────► live ─────────────────────────────► free
//! ```
//!
//! Extents are freed oldest first, so what is needed is always a suffix of the sequence, and its beginning is part of
//! every extent header. Only the log thread touches this.

use std::collections::VecDeque;

/// Where preparing an extent has got to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preparation {
    /// The header is to be written.
    Due,
    Writing,
    /// Written, and in need of a flush.
    Written,
    /// Covered by the flush in flight.
    Flushing,
    Durable,
}

/// An extent that has a slot and no frame yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prepared {
    pub sequence: u64,
    pub slot: u64,
    pub state: Preparation,
}

/// An extent with frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Live {
    pub sequence: u64,
    pub slot: u64,
    /// The greatest timestamp that a reader needs this extent for.
    pub newest: u64,
}

/// See the module's introduction.
pub struct Slots {
    live: VecDeque<Live>,
    prepared: VecDeque<Prepared>,
    free: VecDeque<u64>,
    /// Slots of the device, used or not.
    count: u64,
    next_sequence: u64,
    /// What a new extent is needed for even without a record: it says that its incarnation was, so until all before the
    /// incarnation's first timestamp is cut it stays.
    newest_at_least: u64,
}

impl Slots {
    /// `live` in the order of sequence numbers; `free` in the order of use; the device has `count` slots.
    pub fn new(live: Vec<Live>, free: Vec<u64>, count: u64, next_sequence: u64, newest_at_least: u64) -> Self {
        Self { live: live.into(), prepared: VecDeque::new(), free: free.into(), count, next_sequence, newest_at_least }
    }

    /// The sequence number that the next prepared extent will have.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Takes a free slot for the next extent. `false` if there is none.
    pub fn prepare(&mut self) -> bool {
        let Some(slot) = self.free.pop_front() else { return false };
        self.prepared.push_back(Prepared { sequence: self.next_sequence, slot, state: Preparation::Due });
        self.next_sequence += 1;
        true
    }

    /// The device has become one slot longer.
    pub fn grown(&mut self) {
        debug_assert!(!self.free.contains(&self.count), "slot {} is new, and free already", self.count);
        self.free.push_back(self.count);
        self.count += 1;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The extents with a slot and no frame.
    pub fn prepared_mut(&mut self) -> impl Iterator<Item = &mut Prepared> {
        self.prepared.iter_mut()
    }

    /// The last extent of those whose headers are durable without a gap.
    pub fn ready_through(&self) -> Option<u64> {
        let ready = self.prepared.iter().take_while(|prepared| prepared.state == Preparation::Durable);
        ready.last().map(|prepared| prepared.sequence)
    }

    /// The slot of the extent that a frame with timestamps up to `newest` goes to: the last one, or the one after it.
    pub fn frame_goes_to(&mut self, sequence: u64, newest: u64) -> u64 {
        if self.live.back().is_none_or(|live| live.sequence < sequence) {
            let first = self.prepared.pop_front().expect("frames go to prepared extents");
            assert!(first.sequence == sequence && first.state == Preparation::Durable, "{first:?} for {sequence}");
            self.live.push_back(Live { sequence, slot: first.slot, newest: self.newest_at_least });
        }
        let live = self.live.back_mut().expect("just made sure");
        assert_eq!(live.sequence, sequence, "frames are written in order");
        live.newest = live.newest.max(newest);
        live.slot
    }

    /// The oldest extent still needed; if there is none, the one with this number.
    pub fn oldest_or(&self, sequence: u64) -> u64 {
        self.live.front().map_or(sequence, |live| live.sequence)
    }

    /// The oldest extent holds nothing after `cut`.
    pub fn has_cut(&self, cut: u64) -> bool {
        self.live.front().is_some_and(|live| live.newest <= cut)
    }

    /// Frees the extents before `before`, oldest first, that hold nothing after `cut`; tells whether there was one.
    pub fn free_through(&mut self, cut: u64, before: u64) -> bool {
        let kept = self.live.iter().position(|live| live.newest > cut || live.sequence >= before);
        debug_assert!(self.live.iter().is_sorted_by_key(|live| live.sequence), "live extents are not in order");
        let freed = self.live.drain(..kept.unwrap_or(self.live.len()));
        let free_before = self.free.len();
        self.free.extend(freed.map(|live| live.slot));
        self.free.len() > free_before
    }

    /// Live, prepared and free.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.live.len() as u64, self.prepared.len() as u64, self.free.len() as u64)
    }
}
