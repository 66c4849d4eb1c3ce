//! The end of a log that is still in memory: where workers append, and what the log thread takes from.
//!
//! ```text
//!      sealed, to be written        current                  ready extents
//!   ┌─────────┬─────────┬─────────┐ ┌───────────┐
//!   │ piece   │ piece   │ piece   │ │ piece ··· │ ·········│············│
//!   └─────────┴─────────┴─────────┘ └───────────┘ limit    └ ready_through
//!     taken by the log thread         appended to by workers
//! ```
//!
//! A *piece* is the buffer of one frame: workers append records behind the space for its header, the log thread fills
//! in the header and hands the same memory to the device. A piece knows from its beginning where in which extent it
//! will lie, since the piece before it is sealed, and so has its length, when it becomes the current one; it never
//! reaches beyond its extent.
//!
//! # Invariants
//! - Records appended never need more disk than ready extents have, and never more than was reserved: a reservation
//!   counts the worst case, how often the log thread may seal a piece meanwhile included. So appending cannot fail.
//! - Memory is bounded by reservations; buffers are used again, and only a record longer than all allocates more.

use std::collections::VecDeque;

use saki_base::AlignedBuffer;

use crate::format::frame::FRAME_HEADER_BYTES;
use crate::format::record::{RECORD_HEADER_BYTES, RecordHeader};
use crate::format::{BLOCK_BYTES, whole_blocks};

/// The buffer of one frame, and what the log thread must know of its content.
pub struct Piece {
    pub buffer: AlignedBuffer,
    /// Sequence number of the extent, and byte within it.
    pub extent: u64,
    pub offset: u64,
    /// End of what was appended, from the buffer's start.
    pub used: usize,
    /// How far it may be appended to.
    limit: usize,
    /// Bytes at the beginning that belong to a record begun before.
    pub continued_bytes: u32,
    /// The record that reaches in from the piece before has not ended yet.
    continuing: bool,
    /// Timestamps of the records that end here: durable when this piece and all before it are.
    pub timestamps: Vec<u64>,
    /// The greatest timestamp with a byte here.
    pub newest: u64,
}

impl Piece {
    pub fn payload_bytes(&self) -> usize {
        self.used - FRAME_HEADER_BYTES
    }

    /// What the frame takes on disk; nothing if it would hold nothing.
    fn frame_bytes(&self) -> u64 {
        if self.payload_bytes() == 0 { 0 } else { whole_blocks(self.used) as u64 }
    }
}

/// Sizes that do not change.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub extent_bytes: u64,
    pub write_bytes_max: usize,
    pub buffer_bytes: u64,
}

impl Geometry {
    /// Bytes of an extent behind its header.
    pub fn extent_room(&self) -> u64 {
        self.extent_bytes - BLOCK_BYTES as u64
    }

    /// What a record of `payload` bytes may take on disk at most. Header and payload; a header for every frame it may
    /// be cut into (full ones, one shortened by each extent's end, the first and the last); the last one's padding,
    /// and a block because the piece it starts in may be sealed before it comes.
    pub fn disk_bytes(&self, payload: usize) -> u64 {
        let bytes = (payload + RECORD_HEADER_BYTES) as u64;
        let frame_room = (self.write_bytes_max as u64).min(self.extent_room()) - FRAME_HEADER_BYTES as u64;
        let frames = 3 + 2 * (bytes / frame_room);
        let block = BLOCK_BYTES as u64;
        (bytes + frames * FRAME_HEADER_BYTES as u64).next_multiple_of(block) + 2 * block
    }
}

/// What a reservation counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Record bytes in memory.
    pub memory: u64,
    /// Bytes on disk at most.
    pub disk: u64,
}

/// Whether there is room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Room {
    Granted(Claim),
    /// When what is on its way is durable.
    Later,
    /// When the log thread has made so many extents ready.
    NeedsExtents(u64),
}

/// See the module's introduction. Always under the lock of its log.
pub struct Stream {
    geometry: Geometry,
    current: Piece,
    sealed: VecDeque<Piece>,
    spare_buffers: Vec<AlignedBuffer>,
    spare_timestamps: Vec<Vec<u64>>,
    spares_max: usize,
    /// Record bytes appended and not yet durable.
    unsettled: u64,
    /// Sums over the reservations that are neither used nor dropped, and their number.
    reserved: Claim,
    reservations: u64,
    /// The greatest timestamp appended.
    newest: u64,
    /// A long record waits for the memory: short ones queue up behind it.
    long_waiting: u32,
    /// Extents up to this one may be appended to.
    ready_through: u64,
    /// Extents that somebody waits for beyond these.
    extents_wanted: u64,
    /// The device had no space when extents were wanted last.
    pub refused: bool,
    /// It is known whether there is a first extent.
    begun: bool,
    /// Threads that wait in `reserve`.
    pub waiting: u32,
    /// The log thread sleeps and could take more work: whoever leaves some wakes it.
    pub sleeping: bool,
    pub closing: bool,
}

impl Stream {
    /// A stream whose first byte will lie in extent `extent`, of which none is ready.
    pub fn new(geometry: Geometry, extent: u64) -> Self {
        let Geometry { extent_bytes, write_bytes_max, .. } = geometry;
        let block = BLOCK_BYTES as u64;
        assert!(extent > 0, "extents are counted from 1");
        assert!(extent_bytes.is_multiple_of(block) && extent_bytes > block, "extents of {extent_bytes} bytes");
        assert!(
            write_bytes_max > 0 && write_bytes_max.is_multiple_of(BLOCK_BYTES),
            "writes of {write_bytes_max} bytes"
        );
        let spares_max = (geometry.buffer_bytes as usize / geometry.write_bytes_max).max(2) + 2;
        let mut stream = Self {
            geometry,
            current: Piece {
                buffer: AlignedBuffer::new(geometry.write_bytes_max),
                extent,
                offset: BLOCK_BYTES as u64,
                used: FRAME_HEADER_BYTES,
                limit: 0,
                continued_bytes: 0,
                continuing: false,
                timestamps: Vec::new(),
                newest: 0,
            },
            sealed: VecDeque::new(),
            spare_buffers: Vec::new(),
            spare_timestamps: Vec::new(),
            spares_max,
            unsettled: 0,
            reserved: Claim { memory: 0, disk: 0 },
            reservations: 0,
            newest: 0,
            long_waiting: 0,
            ready_through: extent - 1,
            extents_wanted: 0,
            refused: false,
            begun: false,
            waiting: 0,
            sleeping: false,
            closing: false,
        };
        stream.current.limit = stream.limit_at(BLOCK_BYTES as u64);
        stream
    }

    /// Asks for room for a record of `payload` bytes, and takes it if it is there.
    pub fn reserve(&mut self, payload: usize) -> Room {
        let claim = Claim { memory: (payload + RECORD_HEADER_BYTES) as u64, disk: self.geometry.disk_bytes(payload) };
        let pending = self.unsettled + self.reserved.memory;
        let long = self.is_long(payload);
        // A record longer than the whole buffer goes when nothing else is there.
        let fits = pending + claim.memory <= self.geometry.buffer_bytes || pending == 0;
        if !fits || (self.long_waiting > 0 && !long) {
            return Room::Later;
        }
        let missing = (self.reserved.disk + claim.disk).saturating_sub(self.space());
        if missing > 0 {
            return Room::NeedsExtents(missing.div_ceil(self.geometry.extent_room()));
        }
        self.reserved.memory += claim.memory;
        self.reserved.disk += claim.disk;
        self.reservations += 1;
        Room::Granted(claim)
    }

    /// Gives a reservation's room back: it is not used, or is being used right now.
    pub fn release(&mut self, claim: Claim) {
        let Claim { memory, disk } = self.reserved;
        assert!(memory >= claim.memory && disk >= claim.disk, "{claim:?} is released of {memory} and {disk} bytes");
        assert!(self.reservations > 0, "a reservation is released twice");
        self.reserved.memory -= claim.memory;
        self.reserved.disk -= claim.disk;
        self.reservations -= 1;
    }

    /// Whether a record is so long that it would wait for ever among short ones.
    pub fn is_long(&self, payload: usize) -> bool {
        payload as u64 > self.geometry.buffer_bytes / 4
    }

    /// Counts the long records that wait.
    pub fn long_waits(&mut self, begins: bool) {
        assert!(begins || self.long_waiting > 0, "the wait of a long record ends that has not begun");
        self.long_waiting = if begins { self.long_waiting + 1 } else { self.long_waiting - 1 };
    }

    /// Asks the log thread for extents.
    pub fn want_extents(&mut self, count: u64) {
        self.extents_wanted = self.extents_wanted.max(count);
        self.refused = false;
    }

    /// The last extent to be made ready now: one ahead of where the next byte goes, and what is waited for.
    pub fn extents_due(&self) -> u64 {
        (self.current.extent + 1).max(self.ready_through + self.extents_wanted)
    }

    pub fn extents_wanted(&self) -> u64 {
        self.extents_wanted
    }

    /// The first extent is ready, or cannot be had for now.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Extents up to `extent` have their headers on disk.
    pub fn ready(&mut self, extent: u64) {
        assert!(extent >= self.ready_through, "extent {extent} is ready after {}", self.ready_through);
        let more = extent - self.ready_through;
        self.ready_through = extent;
        self.begun = true;
        self.extents_wanted = self.extents_wanted.saturating_sub(more);
    }

    /// The device has no space for the extents that were wanted.
    pub fn refuse(&mut self) {
        self.refused = self.extents_wanted > 0;
        self.extents_wanted = 0;
        self.begun = true;
    }

    /// Appends a record whose room was reserved and has been released.
    pub fn append(&mut self, header: &RecordHeader, payload: &[&[u8]]) {
        let length: usize = payload.iter().map(|part| part.len()).sum();
        debug_assert_eq!(length, header.length as usize, "a record of another length than its header says");
        if self.current.used == self.current.limit {
            // Nothing of this record is in the full piece, so it does not continue in the next.
            self.push_full();
        }
        self.write(header.timestamp, &header.encode());
        payload.iter().for_each(|part| self.write(header.timestamp, part));
        self.newest = self.newest.max(header.timestamp);
        self.current.continuing = false;
        self.current.timestamps.push(header.timestamp);
        self.unsettled += RECORD_HEADER_BYTES as u64 + u64::from(header.length);
    }

    fn push_full(&mut self) {
        let full = self.seal();
        self.sealed.push_back(full);
    }

    fn write(&mut self, timestamp: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let piece = &mut self.current;
            let count = bytes.len().min(piece.limit - piece.used);
            if count == 0 {
                self.push_full();
                self.current.continuing = true;
                continue;
            }
            if piece.payload_bytes() == 0 {
                assert!(piece.extent <= self.ready_through, "a record goes where no extent is ready");
            }
            let (now, later) = bytes.split_at(count);
            piece.buffer[piece.used..piece.used + count].copy_from_slice(now);
            piece.used += count;
            piece.newest = piece.newest.max(timestamp);
            if piece.continuing {
                piece.continued_bytes += count as u32;
            }
            bytes = later;
        }
    }

    /// Takes the oldest piece with records, if there is one and it is full or may be taken as it is; with `or_empty`
    /// the current one even without, if there is room on disk for one more block than what is reserved.
    pub fn take(&mut self, only_full: bool, or_empty: bool) -> Option<Piece> {
        if let Some(piece) = self.sealed.pop_front() {
            return Some(piece);
        }
        if only_full {
            return None;
        }
        let block = BLOCK_BYTES as u64;
        let has_records = self.current.payload_bytes() > 0;
        if has_records || (or_empty && self.space() >= self.reserved.disk + block) {
            return Some(self.seal());
        }
        None
    }

    /// Exchanges the current piece for an empty one behind it.
    fn seal(&mut self) -> Piece {
        let end = self.current.offset + whole_blocks(self.current.used) as u64;
        assert!(end <= self.geometry.extent_bytes, "a piece ends at {end}, beyond its extent");
        let (extent, offset) = match end < self.geometry.extent_bytes {
            true => (self.current.extent, end),
            false => (self.current.extent + 1, BLOCK_BYTES as u64),
        };
        let buffer = self.spare_buffers.pop();
        let next = Piece {
            buffer: buffer.unwrap_or_else(|| AlignedBuffer::new(self.geometry.write_bytes_max)),
            extent,
            offset,
            used: FRAME_HEADER_BYTES,
            limit: self.limit_at(offset),
            continued_bytes: 0,
            continuing: false,
            timestamps: self.spare_timestamps.pop().unwrap_or_default(),
            newest: 0,
        };
        std::mem::replace(&mut self.current, next)
    }

    fn limit_at(&self, offset: u64) -> usize {
        assert!(offset < self.geometry.extent_bytes, "a piece would begin at the end of its extent");
        (self.geometry.extent_bytes - offset).min(self.geometry.write_bytes_max as u64) as usize
    }

    /// Takes back the memory of a piece that is durable: until then it may have to be written again.
    pub fn settled(&mut self, payload_bytes: u64, mut buffer: AlignedBuffer) {
        assert!(self.unsettled >= payload_bytes, "{payload_bytes} bytes are durable that were not appended");
        self.unsettled -= payload_bytes;
        if self.spare_buffers.len() < self.spares_max {
            buffer.set_length(buffer.capacity());
            self.spare_buffers.push(buffer);
        }
    }

    /// Takes back a list whose timestamps are durable.
    pub fn marked(&mut self, mut timestamps: Vec<u64>) {
        if self.spare_timestamps.len() < self.spares_max {
            timestamps.clear();
            self.spare_timestamps.push(timestamps);
        }
    }

    /// Disk space behind what the current piece holds.
    fn space(&self) -> u64 {
        let Piece { extent, offset, .. } = self.current;
        if extent > self.ready_through {
            return 0;
        }
        let here = self.geometry.extent_bytes - offset - self.current.frame_bytes();
        here + (self.ready_through - extent) * self.geometry.extent_room()
    }

    /// Nothing is appended and not taken, and nothing can come any more.
    pub fn is_drained(&self) -> bool {
        self.closing && self.reservations == 0 && !self.has_records()
    }

    /// There is something to take.
    pub fn has_records(&self) -> bool {
        !self.sealed.is_empty() || self.current.payload_bytes() > 0
    }

    /// There is something to take as `take` does.
    pub fn has_piece(&self, only_full: bool) -> bool {
        !self.sealed.is_empty() || (!only_full && self.has_records())
    }

    pub fn unsettled_bytes(&self) -> u64 {
        self.unsettled
    }

    pub fn newest(&self) -> u64 {
        self.newest
    }

    pub fn reservations(&self) -> u64 {
        self.reservations
    }

    /// The extent of the oldest piece that was not taken.
    pub fn oldest_extent(&self) -> u64 {
        self.sealed.front().map_or(self.current.extent, |piece| piece.extent)
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;
    use crate::format::record::RecordKind;
    use proptest::prelude::*;

    /// What workers and the log thread do.
    #[derive(Clone, Debug)]
    enum Step {
        Reserve(usize),
        Append { which: usize, short: bool },
        Drop(usize),
        Take { or_empty: bool },
        Ready(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => prop_oneof![0_usize..200, 3_000_usize..5_000, 0_usize..60_000].prop_map(Step::Reserve),
            4 => (0_usize..8, prop::bool::weighted(0.2)).prop_map(|(which, short)| Step::Append { which, short }),
            1 => (0_usize..8).prop_map(Step::Drop),
            3 => prop::bool::ANY.prop_map(|or_empty| Step::Take { or_empty }),
            2 => (1_u64..4).prop_map(Step::Ready),
        ]
    }

    proptest! {
        /// However records, empty frames and seals mix, what was granted fits into the extents that are ready
        /// (asserted in `write`), pieces follow one another without a gap, and none reaches beyond its extent.
        #[test]
        fn what_is_granted_fits(
            steps in prop::collection::vec(step(), 1..200),
            extent_blocks in 4_u64..12,
            write_blocks in 1_usize..6,
        ) {
            let geometry = Geometry {
                extent_bytes: extent_blocks * BLOCK_BYTES as u64,
                write_bytes_max: write_blocks * BLOCK_BYTES,
                buffer_bytes: 100_000,
            };
            let mut stream = Stream::new(geometry, 1);
            let mut reservations: Vec<(usize, Claim)> = Vec::new();
            let (mut ready, mut timestamp, mut end) = (0, 0, (1, BLOCK_BYTES as u64));
            let mut check = |piece: &Piece| {
                assert_eq!((piece.extent, piece.offset), end, "pieces follow one another");
                let bytes = whole_blocks(piece.used) as u64;
                assert!(piece.offset + bytes <= geometry.extent_bytes && piece.extent > 0);
                end = match piece.offset + bytes {
                    all if all == geometry.extent_bytes => (piece.extent + 1, BLOCK_BYTES as u64),
                    next => (piece.extent, next),
                };
                piece.extent
            };
            for step in steps {
                match step {
                    Step::Reserve(payload) => match stream.reserve(payload) {
                        Room::Granted(claim) => reservations.push((payload, claim)),
                        Room::NeedsExtents(count) => prop_assert!(count > 0),
                        Room::Later => prop_assert!(stream.unsettled + stream.reserved.memory > 0),
                    },
                    Step::Append { which, short } if !reservations.is_empty() => {
                        let (payload, claim) = reservations.swap_remove(which % reservations.len());
                        timestamp += 1;
                        let length = if short { payload / 2 } else { payload };
                        let header = RecordHeader { timestamp, kind: RecordKind::Commit, length: length as u32 };
                        stream.release(claim);
                        stream.append(&header, &[&vec![7; length]]);
                    }
                    Step::Drop(which) if !reservations.is_empty() => {
                        let (_, claim) = reservations.swap_remove(which % reservations.len());
                        stream.release(claim);
                    }
                    Step::Take { or_empty } => {
                        if let Some(piece) = stream.take(false, or_empty) {
                            prop_assert!(check(&piece) <= ready, "a frame goes where no extent is ready");
                            stream.settled(piece.payload_bytes() as u64, piece.buffer);
                            stream.marked(piece.timestamps);
                        }
                    }
                    Step::Ready(more) => {
                        ready += more;
                        stream.ready(ready);
                    }
                    Step::Append { .. } | Step::Drop(_) => {}
                }
                prop_assert!(stream.space() >= stream.reserved.disk, "what was granted has its room");
            }
        }
    }
}
