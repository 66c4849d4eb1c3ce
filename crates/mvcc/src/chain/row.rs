//! A row: its key, and the chain of versions that hangs on it.

use std::io;
use std::ptr::{self, NonNull};

use super::version::{Begin, INLINE, NEVER, PENDING, PRUNED, VERSION_BYTES, Version, Writer};
use crate::epoch::{Epochs, Snapshots};
use crate::memory::arena::Arena;
use crate::memory::prefetch::prefetch;
use crate::sync::{AtomicPtr, AtomicU32, Backoff, Ordering};

/// In a row's `work`: the secondary keys of its versions are not all the same.
const REINDEXED: u32 = 1 << 31;
/// In `head`: the row's secondary keys are being cleaned up, and nobody may become its writer.
const LATCHED: usize = 1;

#[repr(C)]
pub struct Row {
    /// The newest version, and [`LATCHED`].
    pub(super) head: AtomicPtr<Version>,
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
    /// Another transaction writes the row, or wrote it after the snapshot; which one, if it still does.
    Conflict(Option<Writer>),
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
    /// A row whose first version is pending and has `body`, or is a delete. Nobody else can see it before it is in an
    /// index.
    pub fn allocate(arena: &mut Arena, writer: Writer, key: &[u8], body: Option<&[u8]>) -> io::Result<NonNull<Self>> {
        let inline_at = Self::inline_at(key.len());
        let room = body.map_or(0, <[u8]>::len);
        let row = arena.allocate(inline_at + VERSION_BYTES + room)?.cast::<Self>();
        // SAFETY: a block of at least that size, aligned, and nobody else's; the first version is within it, aligned by
        // 8.
        unsafe {
            let version = row.byte_add(inline_at).cast::<Version>();
            Version::write(version, writer, body, room as u32 | INLINE);
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

    /// Bytes of its block and of the newest version, where that lies apart.
    pub fn bytes_with(&self, newest: &Version) -> usize {
        self.block_bytes() + if newest.is_inline() { 0 } else { newest.block_bytes() }
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
        // SAFETY: a version that is the newest under the caller's pin is not superseded before it, so it is not freed
        // under it.
        unsafe { head.as_ref() }
    }

    /// The version that a snapshot sees: the newest of `me`'s own or committed at or before it. `None` if there is
    /// none.
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

    /// The version before `timestamp`, the caller's own commit timestamp: what a read has to have seen to be still
    /// right. `Err` if a transaction before `timestamp` writes the row and may yet succeed.
    pub fn before(&self, timestamp: u64, me: Writer, epochs: &Epochs) -> Result<Option<&Version>, Refused> {
        let mut next = self.head();
        while let Some(version) = next {
            match version.begin(me, epochs) {
                Begin::Committed(begin) if begin < timestamp => return Ok(Some(version)),
                Begin::Committing(earlier) if earlier < timestamp => return Err(Refused::Conflict(None)),
                Begin::Committed(_) | Begin::Committing(_) | Begin::Own | Begin::Running => next = version.older(),
            }
        }
        Ok(None)
    }

    /// The versions that were committed later than `since` and before `timestamp`, the newest first; all transactions
    /// of before `timestamp` have ended. For a caller whose pin is of `since` or earlier.
    pub fn committed_between<'a>(
        &'a self,
        since: u64,
        timestamp: u64,
        me: Writer,
        epochs: &'a Epochs,
    ) -> impl Iterator<Item = &'a Version> {
        let mut next = self.head();
        std::iter::from_fn(move || {
            while let Some(version) = next {
                let begin = version.begin(me, epochs);
                // No walk beyond the first that the caller's snapshot may see.
                next = if matches!(begin, Begin::Committed(begin) if begin <= since) { None } else { version.older() };
                if matches!(begin, Begin::Committed(begin) if begin > since && begin < timestamp) {
                    return Some(version);
                }
            }
            None
        })
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
            _ => Err(Refused::Conflict(version.pending_writer())),
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
                Err(_) => return Err(Refused::Conflict(self.head().and_then(Version::pending_writer))),
            }
        }
    }

    /// Takes out of the chain what lies behind the newest version, committed at `newest_begin`, and is seen by nobody.
    /// For the row's writer, before its own version is stamped: nobody else changes the chain then. The watermark is
    /// held at `watermark`, so what was superseded later is not freed meanwhile.
    #[cold]
    pub fn prune(&self, newest: &Version, newest_begin: u64, snapshots: &Snapshots, watermark: u64) {
        const HOPS_MAX: usize = 128;
        let (mut kept, mut end) = (newest, newest_begin);
        for _ in 0..HOPS_MAX {
            // Behind the first version that all see nothing is reachable, nor perhaps allocated.
            if end <= watermark {
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
                if begin <= watermark {
                    return;
                }
            } else {
                (kept, end) = (version, begin);
            }
        }
    }

    /// Takes the newest version away again: its writer's to call, with the version that was the newest before, or null,
    /// which makes the row dead.
    pub fn uninstall(&self, version: &Version, before: *mut Version) {
        // Nobody else changes the head, or latches it, while it is pending; so it goes first, and is stamped when it is
        // gone.
        self.head.store(before, Ordering::Release);
        version.stamp(NEVER);
    }

    /// Makes the row dead if its newest version is a delete that every snapshot sees. `true` for the one caller that
    /// did it, and has to take the row out of its indexes. For a pinned caller.
    pub fn kill(&self, watermark: u64) -> Option<NonNull<Version>> {
        let head = self.head()?;
        let begin = head.begin.load(Ordering::Acquire);
        if !head.is_tombstone() || begin & PENDING != 0 || begin > watermark {
            return None;
        }
        let expected = ptr::from_ref(head).cast_mut();
        let killed = self.head.compare_exchange(expected, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        killed.ok().and_then(NonNull::new)
    }

    /// Keeps writers off the row for the time of `change`, which gets the versions that some snapshot may see, the
    /// newest first. `None`, and nothing done, if the row is dead or being written. For a caller pinned since `pinned`.
    ///
    /// # Errors
    /// [`TooOld`] in place of a version that may be freed while it is looked at: the watermark can come as far as the
    /// pin meanwhile.
    pub fn latched<T>(
        &self,
        watermark: u64,
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
                    begin if begin <= watermark => None,
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

    /// Takes the row out of use if all see its newest version, begun at or before `through`, and no cleanup refers to
    /// the row: has `before_death` called while nobody can become its writer, and makes it dead. The caller takes it
    /// out of the primary index. For a pinned caller.
    pub fn release(&self, through: u64, before_death: impl FnOnce(&Version)) -> Option<NonNull<Version>> {
        let head = self.head.load(Ordering::Acquire);
        if head.is_null() || head.addr() & LATCHED != 0 {
            return None;
        }
        // SAFETY: as in `head`.
        let version = unsafe { &*head };
        let begin = version.begin.load(Ordering::Acquire);
        if begin & PENDING != 0 || begin > through {
            return None;
        }
        let latched = head.map_addr(|address| address | LATCHED);
        self.head.compare_exchange(head, latched, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // Who was the row's writer until now has announced its cleanups before it went.
        if self.work.load(Ordering::Acquire) & !REINDEXED != 0 {
            self.head.store(head, Ordering::Release);
            return None;
        }
        before_death(version);
        self.head.store(ptr::null_mut(), Ordering::Release);
        NonNull::new(head)
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
