//! A version: its begin, its body, and what both say to those who look.

use std::io;
use std::ptr::{self, NonNull};

use crate::epoch::Epochs;
use crate::memory::arena::Arena;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Backoff, Ordering};

/// A begin that no snapshot reaches: of aborted versions, and of those replaced by their own transaction.
pub const NEVER: u64 = (1 << 63) - 1;
pub(super) const PENDING: u64 = 1 << 63;
const SEQUENCE_BITS: u32 = 48;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;
/// Participants that a pending begin can name.
pub const PARTICIPANTS_MAX: usize = 1 << (63 - SEQUENCE_BITS);
/// In `length`: a delete.
pub(super) const TOMBSTONE: u32 = u32::MAX;
/// In `capacity`: part of the row's block.
pub(super) const INLINE: u32 = 1 << 31;
/// In `capacity`: taken out of its chain although its successor is not seen by all yet.
pub(super) const PRUNED: u32 = 1 << 30;
/// In `capacity`: there has been a row here, without a break, since a commit that is durable.
const LASTING: u32 = 1 << 29;
const CAPACITY_MASK: u32 = LASTING - 1;

/// How a transaction marks what it has not committed yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Writer(pub(super) u64);

/// Where a participant's transaction stands, as others read it in its announcement: sequence and phase.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(u64);

impl Status {
    /// Its timestamp is being taken, or is taken, and its versions are about to be stamped.
    const COMMITTING: u64 = 1;

    pub const fn running(sequence: u64) -> Self {
        Self((sequence & SEQUENCE_MASK) << 1)
    }

    pub const fn committing(sequence: u64) -> Self {
        Self((sequence & SEQUENCE_MASK) << 1 | Self::COMMITTING)
    }

    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl Writer {
    pub const fn new(participant: u32, sequence: u64) -> Self {
        Self(PENDING | (participant as u64) << SEQUENCE_BITS | sequence & SEQUENCE_MASK)
    }

    pub const fn participant(self) -> u32 {
        (self.0 >> SEQUENCE_BITS) as u32 & (PARTICIPANTS_MAX as u32 - 1)
    }

    pub const fn sequence(self) -> u64 {
        self.0 & SEQUENCE_MASK
    }
}

impl Status {
    /// Whether it is that of a participant at its transaction of this sequence, which has not ended.
    pub const fn is_of(self, sequence: u64) -> bool {
        self.0 >> 1 == sequence
    }

    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// What a version's begin says to one who looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    Committed(u64),
    /// The onlooker's own.
    Own,
    /// Of a transaction that has taken no timestamp when it was looked at: whatever timestamp it takes is later than
    /// all taken by then.
    Running,
    /// Of a transaction that has this timestamp but may still fail.
    Committing(u64),
}

#[repr(C)]
pub struct Version {
    pub(super) begin: AtomicU64,
    pub(super) next: AtomicPtr<Version>,
    /// Bytes of the body, or [`TOMBSTONE`].
    pub(super) length: u32,
    /// Bytes of the body that there is room for, [`INLINE`], [`PRUNED`] and [`LASTING`].
    pub(super) capacity: AtomicU32,
}

pub(super) const VERSION_BYTES: usize = size_of::<Version>();
#[cfg(not(saki_loom))]
const _: () = assert!(VERSION_BYTES == 24);

impl Version {
    /// A pending version with that body, or a delete. Nobody else can see it before it is installed.
    pub fn allocate(arena: &mut Arena, writer: Writer, body: Option<&[u8]>) -> io::Result<NonNull<Self>> {
        let capacity = body.map_or(0, <[u8]>::len);
        let version = arena.allocate(VERSION_BYTES + capacity)?.cast::<Self>();
        // SAFETY: a block of at least that size, aligned, and nobody else's.
        unsafe { Self::write(version, writer, body, capacity as u32) };
        Ok(version)
    }

    /// # Safety
    /// `at` is aligned, and it and as many bytes as `body` has behind it are the caller's alone.
    pub(super) unsafe fn write(at: NonNull<Self>, writer: Writer, body: Option<&[u8]>, capacity: u32) {
        let version = Self {
            begin: AtomicU64::new(writer.0),
            next: AtomicPtr::new(ptr::null_mut()),
            length: body.map_or(TOMBSTONE, |body| body.len() as u32),
            capacity: AtomicU32::new(capacity),
        };
        let body = body.unwrap_or_default();
        // SAFETY: by the caller's promise.
        unsafe {
            at.write(version);
            ptr::copy_nonoverlapping(body.as_ptr(), at.add(1).cast().as_ptr(), body.len());
        }
    }

    /// The body of a version that nobody else can see yet.
    ///
    /// # Safety
    /// The version was made by this thread and is not linked to a row.
    pub unsafe fn body_mut<'a>(version: NonNull<Self>) -> &'a mut [u8] {
        // SAFETY: nobody else can reach it, and its body was written in full.
        unsafe {
            let length = (*version.as_ptr()).length as usize;
            std::slice::from_raw_parts_mut(version.add(1).cast().as_ptr(), length)
        }
    }

    /// The body; `None` for a delete.
    #[inline]
    pub fn body(&self) -> Option<&[u8]> {
        if self.length == TOMBSTONE {
            return None;
        }
        // SAFETY: the body lies behind the header, was written in full before the version was linked, and never
        // changes.
        Some(unsafe { std::slice::from_raw_parts(ptr::from_ref(self).add(1).cast(), self.length as usize) })
    }

    pub fn is_tombstone(&self) -> bool {
        self.length == TOMBSTONE
    }

    /// Whether it is part of its row's block, and so not freed by itself.
    pub fn is_inline(&self) -> bool {
        self.capacity.load(Ordering::Relaxed) & INLINE != 0
    }

    /// Whether the row has been there, without a break, since a commit that was durable when this version was made: so
    /// it is there whatever becomes of commits that are not durable yet.
    #[inline]
    pub fn is_lasting(&self) -> bool {
        self.capacity.load(Ordering::Relaxed) & LASTING != 0
    }

    /// States that it is. For its writer, before anybody else can see it.
    pub fn set_lasting(&self) {
        let capacity = self.capacity.load(Ordering::Relaxed);
        self.capacity.store(capacity | LASTING, Ordering::Relaxed);
    }

    /// Bytes of its block.
    pub fn block_bytes(&self) -> usize {
        VERSION_BYTES + self.room()
    }

    /// Bytes of the body that there is room for.
    pub(super) fn room(&self) -> usize {
        (self.capacity.load(Ordering::Relaxed) & CAPACITY_MASK) as usize
    }

    /// Whether it was taken out of its chain ahead of time. For its owner, in whose queue it is.
    pub fn is_pruned(&self) -> bool {
        // Acquire: it was unlinked before.
        self.capacity.load(Ordering::Acquire) & PRUNED != 0
    }

    /// The next older version.
    ///
    /// Only for a walk that has not yet met a version that its snapshot sees.
    #[inline]
    pub fn older(&self) -> Option<&Version> {
        // SAFETY: by the rule above, the older version is not superseded before the caller's pin, so it is not freed
        // under it.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// Gives a pending version its timestamp, or [`NEVER`]. Its writer's to call.
    #[inline]
    pub fn stamp(&self, timestamp: u64) {
        // Release: who sees the timestamp sees the body and all else its transaction wrote before.
        self.begin.store(timestamp, Ordering::Release);
    }

    /// Who is about to commit it, unless that has been decided.
    pub fn pending_writer(&self) -> Option<Writer> {
        let begin = self.begin.load(Ordering::Acquire);
        (begin & PENDING != 0).then_some(Writer(begin))
    }

    /// What its begin says to `me`.
    #[inline]
    pub fn begin(&self, me: Writer, epochs: &Epochs) -> Begin {
        let begin = self.begin.load(Ordering::Acquire);
        if begin & PENDING == 0 {
            Begin::Committed(begin)
        } else if begin == me.0 {
            Begin::Own
        } else {
            self.begin_of_other(begin, epochs)
        }
    }

    #[cold]
    fn begin_of_other(&self, mut begin: u64, epochs: &Epochs) -> Begin {
        let mut backoff = Backoff::default();
        loop {
            let writer = Writer(begin);
            let announcement = epochs.announcement(writer.participant());
            let status = announcement.status.load(Ordering::Acquire);
            if status == Status::running(writer.sequence()).bits() {
                // It marks itself as committing before it takes its timestamp. The mark was not there, so every
                // timestamp that this thread knows of was taken before.
                return Begin::Running;
            }
            if status == Status::committing(writer.sequence()).bits() {
                let timestamp = announcement.commit.load(Ordering::Acquire);
                // Its participant may have gone on to its next transaction since; then the timestamp may be of that
                // one.
                if timestamp != 0 && announcement.status.load(Ordering::Acquire) == status {
                    return Begin::Committing(timestamp);
                }
            }
            // Between timestamps, or done: then the version is stamped already.
            begin = self.begin.load(Ordering::Acquire);
            if begin & PENDING == 0 {
                return Begin::Committed(begin);
            }
            backoff.wait();
        }
    }

    /// Its begin once its writer is done.
    #[cold]
    pub fn wait_for_writer(&self, epochs: &Epochs, me: Writer) -> Begin {
        let mut backoff = Backoff::default();
        loop {
            match self.begin(me, epochs) {
                Begin::Committing(_) => backoff.wait(),
                begin => return begin,
            }
        }
    }
}
