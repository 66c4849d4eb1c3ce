//! A row and its versions: the layout in memory, and who may see which version.
//!
//! ```text
//! Row                                              first version (in the row's block)
//! +------+------+------------+-----------+-----+--+-------+------+--------+----------+------+
//! | head | work | key length | reindexed | key |  | begin | next | length | capacity | body |
//! | 8    | 4    | 2          | 1         | …   |  | 8     | 8    | 4      | 4        | …    |
//! +--|---+------+------------+-----------+-----+--+-------+---|--+--------+----------+------+
//!    └──► newest version ──next──► older ──next──► … ──next───► oldest           null ◄┘
//! ```
//!
//! The first version lies behind its row, so that a row that was written once costs one walk through memory. *head* leads to the
//! newest version; null means that the row is dead and about to leave its indexes. A body is a row of the row format without the
//! key's columns; a delete is a version without a body.
//!
//! # Begin
//! A version *begins* at the commit timestamp of its writer. Until that is known it is *pending* and names the writer:
//!
//! ```text
//!   committed   0 │ timestamp (63 bits)              NEVER: a timestamp that no snapshot reaches
//!   pending     1 │ slot (15) │ sequence (48)        the participant, and which of its transactions
//! ```
//!
//! Installing a pending version at the head takes one compare-and-swap and is the right to write the row: nobody waits for it,
//! whoever comes second is told of a conflict, so there is no deadlock. Readers pass pending versions by, with one exception:
//! a writer that took its timestamp at or before the reader's snapshot, and is about to stamp its versions, is waited for; it
//! does nothing else in between, in particular no I/O.
//!
//! # Who frees what when
//! A version superseded at `t` is seen by snapshots before `t` only, and no walk goes beyond the first version that its snapshot
//! sees; so it is freed once the horizon has reached `t`, and the pointer to it stays where it is, never followed again.

use std::io;
use std::ptr::{self, NonNull};

use crate::arena::Arena;
use crate::epoch::{Epochs, Snapshots};
use crate::prefetch::prefetch;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Backoff, Ordering};

/// A begin that no snapshot reaches: of aborted versions, and of those replaced by their own transaction.
pub const NEVER: u64 = (1 << 63) - 1;
const PENDING: u64 = 1 << 63;
const SEQUENCE_BITS: u32 = 48;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;
/// Participants that a pending begin can name.
pub const SLOTS_MAX: usize = 1 << (63 - SEQUENCE_BITS);
/// In `length`: a delete.
const TOMBSTONE: u32 = u32::MAX;
/// In `capacity`: part of the row's block.
const INLINE: u32 = 1 << 31;
/// In `capacity`: taken out of its chain although its successor is not seen by all yet.
const PRUNED: u32 = 1 << 30;
const CAPACITY_MASK: u32 = PRUNED - 1;
/// In a row's `work`: the secondary keys of its versions are not all the same.
const REINDEXED: u32 = 1 << 31;
/// In `head`: the row's secondary keys are being cleaned up, and nobody may become its writer.
const LATCHED: usize = 1;

/// How a transaction marks what it has not committed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Writer(u64);

/// Where a participant's transaction stands, as others read it in its slot: sequence and phase.
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
    pub const fn new(slot: u32, sequence: u64) -> Self {
        Self(PENDING | (slot as u64) << SEQUENCE_BITS | sequence & SEQUENCE_MASK)
    }

    const fn slot(self) -> u32 {
        (self.0 >> SEQUENCE_BITS) as u32 & (SLOTS_MAX as u32 - 1)
    }

    const fn sequence(self) -> u64 {
        self.0 & SEQUENCE_MASK
    }
}

/// What a version's begin says to one who looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    Committed(u64),
    /// The onlooker's own.
    Own,
    /// Of a transaction that has taken no timestamp when it was looked at: whatever timestamp it takes is later than all taken by then.
    Running,
    /// Of a transaction that has this timestamp but may still fail.
    Committing(u64),
}

#[repr(C)]
pub struct Version {
    begin: AtomicU64,
    next: AtomicPtr<Version>,
    /// Bytes of the body, or [`TOMBSTONE`].
    length: u32,
    /// Bytes of the body that there is room for, [`INLINE`] and [`PRUNED`].
    capacity: AtomicU32,
}

const VERSION_BYTES: usize = size_of::<Version>();
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
    unsafe fn write(at: NonNull<Self>, writer: Writer, body: Option<&[u8]>, capacity: u32) {
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
        // SAFETY: the body lies behind the header, was written in full before the version was linked, and never changes.
        Some(unsafe { std::slice::from_raw_parts(ptr::from_ref(self).add(1).cast(), self.length as usize) })
    }

    pub fn is_tombstone(&self) -> bool {
        self.length == TOMBSTONE
    }

    /// Whether it is part of its row's block, and so not freed by itself.
    pub fn is_inline(&self) -> bool {
        self.capacity.load(Ordering::Relaxed) & INLINE != 0
    }

    /// Bytes of its block.
    pub fn block_bytes(&self) -> usize {
        VERSION_BYTES + self.room()
    }

    /// Bytes of the body that there is room for.
    fn room(&self) -> usize {
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
        // SAFETY: by the rule above, the older version is not superseded before the caller's pin, so it is not freed under it.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// Gives a pending version its timestamp, or [`NEVER`]. Its writer's to call.
    #[inline]
    pub fn stamp(&self, timestamp: u64) {
        // Release: who sees the timestamp sees the body and all else its transaction wrote before.
        self.begin.store(timestamp, Ordering::Release);
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
            let slot = epochs.slot(writer.slot());
            let status = slot.status.load(Ordering::Acquire);
            if status == Status::running(writer.sequence()).bits() {
                // It marks itself as committing before it takes its timestamp. The mark was not there, so every timestamp
                // that this thread knows of was taken before.
                return Begin::Running;
            }
            if status == Status::committing(writer.sequence()).bits() {
                let timestamp = slot.commit.load(Ordering::Acquire);
                // The slot may have gone on to its next transaction since; then the timestamp may be of that one.
                if timestamp != 0 && slot.status.load(Ordering::Acquire) == status {
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

#[repr(C)]
pub struct Row {
    /// The newest version, and [`LATCHED`].
    head: AtomicPtr<Version>,
    /// How many cleanups refer to the row, and [`REINDEXED`].
    work: AtomicU32,
    key_length: u16,
}

const ROW_BYTES: usize = size_of::<Row>();
#[cfg(not(saki_loom))]
const _: () = assert!(ROW_BYTES == 16);

/// A version that is out of reach, though someone may see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooOld;

/// Why a version could not become the newest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Another transaction writes the row, or wrote it after the snapshot.
    Conflict,
    /// The row is dead: look its key up again.
    Dead,
}

/// What lies at the head of a row that may be written.
pub struct Newest<'a> {
    pub version: &'a Version,
    /// When it began; `None` if it is the writer's own.
    pub begin: Option<u64>,
}

impl Row {
    /// A row whose first version is pending and has `body`. Nobody else can see it before it is in an index.
    pub fn allocate(arena: &mut Arena, writer: Writer, key: &[u8], body: &[u8]) -> io::Result<NonNull<Self>> {
        let inline_at = Self::inline_at(key.len());
        let row = arena.allocate(inline_at + VERSION_BYTES + body.len())?.cast::<Self>();
        // SAFETY: a block of at least that size, aligned, and nobody else's; the first version is within it, aligned by 8.
        unsafe {
            let version = row.byte_add(inline_at).cast::<Version>();
            Version::write(version, writer, Some(body), body.len() as u32 | INLINE);
            row.write(Self {
                head: AtomicPtr::new(version.as_ptr()),
                work: AtomicU32::new(0),
                key_length: key.len() as u16,
            });
            ptr::copy_nonoverlapping(key.as_ptr(), row.add(1).cast().as_ptr(), key.len());
        }
        Ok(row)
    }

    const fn inline_at(key_length: usize) -> usize {
        (ROW_BYTES + key_length).next_multiple_of(align_of::<Version>())
    }

    /// The row at an address out of an index.
    ///
    /// # Safety
    /// The address came out of an index of rows under a pin that lasts for `'a`.
    #[inline]
    pub unsafe fn at<'a>(address: u64) -> &'a Self {
        // SAFETY: rows leave their indexes before they are retired, so a pinned reader that found it may look at it.
        unsafe { &*ptr::with_exposed_provenance::<Self>(address as usize) }
    }

    /// The address to put into an index.
    pub fn address(&self) -> u64 {
        ptr::from_ref(self).expose_provenance() as u64
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        // SAFETY: the key lies behind the header and never changes.
        unsafe { std::slice::from_raw_parts(ptr::from_ref(self).add(1).cast(), usize::from(self.key_length)) }
    }

    /// The first version, whether it is still seen or not.
    fn first(&self) -> &Version {
        // SAFETY: it is part of the row's block, and stays so.
        unsafe { &*ptr::from_ref(self).byte_add(Self::inline_at(usize::from(self.key_length))).cast() }
    }

    /// Bytes of its block.
    pub fn block_bytes(&self) -> usize {
        Self::inline_at(usize::from(self.key_length)) + self.first().block_bytes()
    }

    /// Asks for the memory of the newest version, where it lies apart from the row.
    #[inline]
    pub fn prefetch_newest(&self) {
        let head = self.head.load(Ordering::Relaxed).cast::<u8>();
        prefetch(head);
        prefetch(head.wrapping_add(64));
    }

    /// The newest version, `None` of a dead row. For a pinned caller.
    #[inline]
    pub fn head(&self) -> Option<&Version> {
        let head = self.head.load(Ordering::Acquire).map_addr(|address| address & !LATCHED);
        // SAFETY: a version that is the newest under the caller's pin is not superseded before it, so it is not freed under it.
        unsafe { head.as_ref() }
    }

    /// The version that a snapshot sees: the newest of `me`'s own or committed at or before it. `None` if there is none.
    #[inline]
    pub fn visible(&self, snapshot: u64, me: Writer, epochs: &Epochs) -> Option<(&Version, u64)> {
        let mut version = self.head()?;
        loop {
            match version.begin(me, epochs) {
                Begin::Committed(begin) if begin <= snapshot => return Some((version, begin)),
                Begin::Own => return Some((version, 0)),
                Begin::Committing(timestamp) if timestamp <= snapshot => {
                    version.wait_for_writer(epochs, me);
                    continue;
                }
                Begin::Committed(_) | Begin::Running | Begin::Committing(_) => {}
            }
            version = version.older()?;
        }
    }

    /// The version before `timestamp`, the caller's own commit timestamp: what a read has to have seen to be still right.
    /// `Err` if a transaction before `timestamp` writes the row and may yet succeed.
    pub fn before(&self, timestamp: u64, me: Writer, epochs: &Epochs) -> Result<Option<&Version>, Refused> {
        let mut next = self.head();
        while let Some(version) = next {
            match version.begin(me, epochs) {
                Begin::Committed(begin) if begin < timestamp => return Ok(Some(version)),
                Begin::Committing(earlier) if earlier < timestamp => return Err(Refused::Conflict),
                Begin::Committed(_) | Begin::Committing(_) | Begin::Own | Begin::Running => next = version.older(),
            }
        }
        Ok(None)
    }

    /// The newest version, if `me` may put another before it: it is `me`'s own, or committed at or before the snapshot.
    #[inline]
    pub fn writable(&self, snapshot: u64, me: Writer, epochs: &Epochs) -> Result<Newest<'_>, Refused> {
        let version = self.head().ok_or(Refused::Dead)?;
        match version.begin(me, epochs) {
            Begin::Own => Ok(Newest { version, begin: None }),
            Begin::Committed(begin) if begin <= snapshot => Ok(Newest { version, begin: Some(begin) }),
            Begin::Committing(timestamp) if timestamp <= snapshot => {
                version.wait_for_writer(epochs, me);
                self.writable(snapshot, me, epochs)
            }
            _ => Err(Refused::Conflict),
        }
    }

    /// Puts `version` before `newest`, if that still is the newest.
    #[inline]
    pub fn install(&self, newest: &Version, version: NonNull<Version>) -> Result<(), Refused> {
        let expected = ptr::from_ref(newest).cast_mut();
        // SAFETY: nobody else sees `version` yet.
        unsafe { version.as_ref() }.next.store(expected, Ordering::Relaxed);
        let mut backoff = Backoff::default();
        loop {
            // Release: who finds the version finds its body. Acquire is not needed: `newest` was read with it.
            match self.head.compare_exchange(expected, version.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(found) if found.addr() == expected.addr() | LATCHED => backoff.wait(),
                Err(found) if found.is_null() => return Err(Refused::Dead),
                Err(_) => return Err(Refused::Conflict),
            }
        }
    }

    /// Takes out of the chain what lies behind the newest version, committed at `newest_begin`, and is seen by nobody. For the row's
    /// writer, before its own version is stamped: nobody else changes the chain then. The horizon is held at `horizon`, so what was
    /// superseded later is not freed meanwhile.
    #[cold]
    pub fn prune(&self, newest: &Version, newest_begin: u64, snapshots: &Snapshots, horizon: u64) {
        const HOPS_MAX: usize = 128;
        let (mut kept, mut end) = (newest, newest_begin);
        for _ in 0..HOPS_MAX {
            // Behind the first version that all see nothing is reachable, nor perhaps allocated.
            if end <= horizon {
                return;
            }
            let Some(version) = kept.older() else { return };
            let begin = version.begin.load(Ordering::Acquire);
            // One that its own transaction replaced was never seen by anyone else, nor will be.
            if begin == NEVER || snapshots.none_sees(begin, end) {
                let after = version.next.load(Ordering::Acquire);
                kept.next.store(after, Ordering::Release);
                // Release: who sees the mark sees it unlinked.
                version.capacity.fetch_or(PRUNED, Ordering::Release);
                end = if begin == NEVER { end } else { begin.min(end) };
                if begin <= horizon {
                    return;
                }
            } else {
                (kept, end) = (version, begin);
            }
        }
    }

    /// Takes the newest version away again: its writer's to call, with the version that was the newest before, or null, which
    /// makes the row dead.
    pub fn uninstall(&self, version: &Version, before: *mut Version) {
        // Nobody else changes the head, or latches it, while it is pending; so it goes first, and is stamped when it is gone.
        self.head.store(before, Ordering::Release);
        version.stamp(NEVER);
    }

    /// Makes the row dead if its newest version is a delete that every snapshot sees. `true` for the one caller that did it, and
    /// has to take the row out of its indexes. For a pinned caller.
    pub fn kill(&self, horizon: u64) -> Option<NonNull<Version>> {
        let head = self.head()?;
        let begin = head.begin.load(Ordering::Acquire);
        if !head.is_tombstone() || begin & PENDING != 0 || begin > horizon {
            return None;
        }
        let expected = ptr::from_ref(head).cast_mut();
        let killed = self.head.compare_exchange(expected, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        killed.ok().and_then(NonNull::new)
    }

    /// Keeps writers off the row for the time of `change`, which gets the versions that some snapshot may see, the newest first.
    /// `None`, and nothing done, if the row is dead or being written. For a caller pinned since `pinned`.
    ///
    /// # Errors
    /// [`TooOld`] in place of a version that may be freed while it is looked at: the horizon can come as far as the pin meanwhile.
    pub fn latched<T>(
        &self,
        horizon: u64,
        pinned: u64,
        change: impl FnOnce(&mut dyn Iterator<Item = Result<&Version, TooOld>>) -> T,
    ) -> Option<T> {
        let head = self.head.load(Ordering::Acquire);
        if head.is_null() || head.addr() & LATCHED != 0 {
            return None;
        }
        // SAFETY: as in `head`.
        if unsafe { &*head }.begin.load(Ordering::Acquire) & PENDING != 0 {
            return None;
        }
        let latched = head.map_addr(|address| address | LATCHED);
        self.head.compare_exchange(head, latched, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // SAFETY: as in `head`.
        let mut next = unsafe { head.as_ref() }.map(Ok);
        let mut reachable = std::iter::from_fn(|| {
            let version = next.take()?;
            next = match version {
                Ok(version) => match version.begin.load(Ordering::Acquire) {
                    begin if begin <= horizon => None,
                    begin if begin <= pinned => Some(Err(TooOld)),
                    _ => version.older().map(Ok),
                },
                Err(TooOld) => None,
            };
            Some(version)
        });
        let outcome = change(&mut reachable);
        self.head.store(head, Ordering::Release);
        Some(outcome)
    }

    /// Whether its versions may have different secondary keys.
    #[inline]
    pub fn is_reindexed(&self) -> bool {
        self.work.load(Ordering::Acquire) & REINDEXED != 0
    }

    pub fn set_reindexed(&self) {
        self.work.fetch_or(REINDEXED, Ordering::AcqRel);
    }

    /// Announces a cleanup that will look at the row, which keeps it allocated.
    pub fn add_work(&self) {
        self.work.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends a cleanup; `true` if it was the last.
    pub fn end_work(&self) -> bool {
        (self.work.fetch_sub(1, Ordering::AcqRel) & !REINDEXED) == 1
    }
}

/// A row during recovery, when it has one version and one thread at a time.
#[derive(Clone, Copy)]
pub struct Replayed<'a> {
    pub begin: u64,
    pub body: Option<&'a [u8]>,
}

impl Row {
    /// The version that recovery has got for the row so far.
    pub fn replayed(&self) -> Option<Replayed<'_>> {
        let version = self.head()?;
        Some(Replayed { begin: version.begin.load(Ordering::Relaxed), body: version.body() })
    }

    /// A row with one version of that timestamp.
    pub fn allocate_replayed(
        arena: &mut Arena,
        timestamp: u64,
        key: &[u8],
        body: Option<&[u8]>,
    ) -> io::Result<NonNull<Self>> {
        let row = Self::allocate(arena, Writer(timestamp), key, body.unwrap_or_default())?;
        if body.is_none() {
            // SAFETY: just made, and nobody else's.
            unsafe { (*row.as_ref().head.load(Ordering::Relaxed)).length = TOMBSTONE };
        }
        Ok(row)
    }

    /// Gives the row a newer version in place of the one it has.
    ///
    /// # Safety
    /// Nobody else looks at the row, and `body` lies outside of it.
    pub unsafe fn replay(&self, arena: &mut Arena, timestamp: u64, body: Option<&[u8]>) -> io::Result<()> {
        let head = self.head.load(Ordering::Relaxed);
        let length = body.map_or(0, <[u8]>::len);
        // SAFETY: the row has a version, nobody else looks at it, and the new body fits its room.
        unsafe {
            if length <= (*head).room() {
                (*head).length = body.map_or(TOMBSTONE, |body| body.len() as u32);
                let body = body.unwrap_or_default();
                ptr::copy_nonoverlapping(body.as_ptr(), head.add(1).cast(), body.len());
                (*head).begin.store(timestamp, Ordering::Relaxed);
                return Ok(());
            }
        }
        let version = Version::allocate(arena, Writer(timestamp), body)?;
        self.head.store(version.as_ptr(), Ordering::Relaxed);
        // SAFETY: the version was the row's only one, and is unlinked.
        unsafe { Self::free_version(arena, head) };
        Ok(())
    }

    /// Makes the row's version a newer one by writing `middle` over its body from byte `at` on.
    ///
    /// # Safety
    /// Nobody else looks at the row, and `middle` lies outside of it.
    ///
    /// # Panics
    /// If the body does not reach so far.
    pub unsafe fn replay_in_place(&self, timestamp: u64, at: usize, middle: &[u8]) {
        let head = self.head.load(Ordering::Relaxed);
        // SAFETY: the row has a version, and nobody else looks at it; `middle` fits as asserted.
        unsafe {
            let length = (*head).length as usize;
            assert!(!(*head).is_tombstone() && at <= length && middle.len() <= length - at);
            ptr::copy_nonoverlapping(middle.as_ptr(), head.add(1).cast::<u8>().add(at), middle.len());
            (*head).begin.store(timestamp, Ordering::Relaxed);
        }
    }

    /// Frees the row and its version.
    ///
    /// # Safety
    /// The row is in no index, and nobody looks at it.
    pub unsafe fn free_replayed(&self, arena: &mut Arena) {
        let row = NonNull::from(self);
        // SAFETY: by the caller's promise.
        unsafe {
            Self::free_version(arena, self.head.load(Ordering::Relaxed));
            arena.free(row.cast(), self.block_bytes());
        }
    }

    /// # Safety
    /// The version is linked to nothing, and nobody looks at it.
    unsafe fn free_version(arena: &mut Arena, version: *mut Version) {
        // SAFETY: by the caller's promise.
        unsafe {
            if let Some(version) = NonNull::new(version)
                && !version.as_ref().is_inline()
            {
                arena.free(version.cast(), version.as_ref().block_bytes());
            }
        }
    }
}

#[cfg(all(test, saki_loom))]
#[path = "chain_loom.rs"]
mod loom_tests;
