//! The page cache: fixed frames in one registered arena, and a map from page
//! address to frame that readers walk without a lock.
//!
//! ```text
//!            buckets (heads)            frames (one per frame of the arena)
//!  address ─► hash ─► ┌───┐   ┌──────────────────────────────┐   ┌─────
//!                     │ 7 ├──►│ 7: address checksum next=3   ├──►│ 3: …
//!                     ├───┤   └──────────────┬───────────────┘   └─────
//!                     │ ∅ │                  ▼
//!                     └───┘        arena frame 7: the page's bytes
//! ```
//!
//! # States of a frame, and who may change them
//!
//! | state | its `ArenaFrame` is held by | left by |
//! |---|---|---|
//! | free | `Pool::free` | `take_memory` |
//! | loading | the lane that reads into it | `admit` (good page) or `give_back` (failed read) |
//! | resident | `Pool::resident`, linked in a bucket | eviction, under the pool's lock |
//! | limbo | `Pool::limbo`, unlinked, perhaps still looked at | `take_memory`, once its epoch is quiet |
//!
//! A resident or limbo frame's bytes are only ever read; a free or loading one's are only ever
//! reached through its `ArenaFrame`. That is the invariant behind the one `unsafe` block of this module.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use saki_base::{Arena, ArenaFrame, PageAddress, PageRef, PageSize};

use crate::arrival::PageError;
use crate::epoch::{Announcement, Epochs};
use crate::loading::Loading;
use crate::replacement::{Replacement, S3Fifo, TOUCHES_MAX, Touches};

/// A cache smaller than this cannot hold the paths that a few ports walk at once.
pub const FRAMES_MIN: u32 = 32;

const NO_FRAME: u32 = u32::MAX;
const NO_PAGE: u64 = u64::MAX;

/// One frame's entry in the map. Written under the pool's lock, read by anybody.
struct Frame {
    address: AtomicU64,
    checksum: AtomicU64,
    /// Next frame of the same bucket.
    next: AtomicU32,
    touches: AtomicU8,
}

struct Frames(Box<[Frame]>);

impl Touches for Frames {
    fn touches(&self, frame: u32) -> u8 {
        self.0[frame as usize].touches.load(Ordering::Relaxed)
    }
    fn set_touches(&self, frame: u32, touches: u8) {
        self.0[frame as usize].touches.store(touches, Ordering::Relaxed);
    }
}

/// Everything that changes when a page comes or goes; one lock, taken once or twice per miss.
struct Pool {
    free: Vec<ArenaFrame>,
    /// By frame: the memory of a resident page.
    resident: Box<[Option<ArenaFrame>]>,
    /// The memory of unlinked frames with the epoch of their unlinking, oldest first.
    limbo: VecDeque<(u64, ArenaFrame)>,
    policy: Box<dyn Replacement>,
}

/// Pages that are in memory, shared by all threads.
pub struct PageCache {
    page_size: PageSize,
    arena: Arc<Arena>,
    frames: Frames,
    buckets: Box<[AtomicU32]>,
    epochs: Epochs,
    pool: Mutex<Pool>,
    pub(crate) loading: Loading,
}

impl PageCache {
    /// A cache of `frames` pages (at least [`FRAMES_MIN`]).
    pub fn new(page_size: PageSize, frames: u32) -> std::io::Result<Arc<Self>> {
        let frames = frames.max(FRAMES_MIN);
        let (arena, free) = Arena::new(frames, page_size.bytes())?;
        let bucket_count = (frames as usize * 2).next_power_of_two();
        let empty = || Frame {
            address: AtomicU64::new(NO_PAGE),
            checksum: AtomicU64::new(0),
            next: AtomicU32::new(NO_FRAME),
            touches: AtomicU8::new(0),
        };
        Ok(Arc::new(Self {
            page_size,
            arena,
            frames: Frames((0..frames).map(|_| empty()).collect()),
            buckets: (0..bucket_count).map(|_| AtomicU32::new(NO_FRAME)).collect(),
            epochs: Epochs::new(),
            pool: Mutex::new(Pool {
                free,
                resident: (0..frames).map(|_| None).collect(),
                limbo: VecDeque::with_capacity(frames as usize),
                policy: Box::new(S3Fifo::new(frames as usize)),
            }),
            loading: Loading::new(),
        }))
    }

    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    pub fn frames(&self) -> u32 {
        self.arena.frames()
    }

    /// The memory pages are read into.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Pages resident now.
    pub fn resident_pages(&self) -> usize {
        self.pool.lock().policy.resident()
    }

    /// A thread's right to look at pages.
    pub fn reader(self: &Arc<Self>) -> CacheReader {
        CacheReader { announcement: self.epochs.register(), cache: Arc::clone(self), guards: Cell::new(0) }
    }

    /// Forgets every page, as after a restart.
    pub fn clear(&self) {
        let mut pool = self.pool.lock();
        while self.evict_one(&mut pool) {}
    }

    /// Memory to read a page into; evicts when none is free. `None`: every frame is loading or being looked at.
    pub(crate) fn take_memory(&self) -> Option<ArenaFrame> {
        let mut pool = self.pool.lock();
        if let Some(memory) = pool.free.pop() {
            return Some(memory);
        }
        // Evict a little ahead, so that what is reused was unlinked a while ago
        // and nobody has to be waited for.
        let ahead = (self.frames() as usize / 64).clamp(4, 64);
        while pool.limbo.len() < ahead && self.evict_one(&mut pool) {}
        debug_assert!(pool.limbo.iter().is_sorted_by_key(|(unlinked, _)| *unlinked), "limbo is not in order");
        let quiet = self.epochs.quiet_before();
        match pool.limbo.front() {
            Some(&(unlinked, _)) if unlinked < quiet => pool.limbo.pop_front().map(|(_, memory)| memory),
            _ => None,
        }
    }

    /// Returns the memory of a read that failed or was not started.
    pub(crate) fn give_back(&self, memory: ArenaFrame) {
        self.assert_own(&memory);
        self.pool.lock().free.push(memory);
    }

    /// Makes a page that has been read and verified visible.
    pub(crate) fn admit(&self, page: PageRef, memory: ArenaFrame) {
        self.assert_own(&memory);
        assert_ne!(page.address.0, NO_PAGE, "the address of free frames was admitted");
        let index = memory.index();
        let frame = &self.frames.0[index as usize];
        let mut pool = self.pool.lock();
        // Under the lock no frame goes away, so the walk needs no announcement.
        debug_assert!(self.find(page.address).is_none(), "{} was admitted twice", page.address);
        frame.address.store(page.address.0, Ordering::Relaxed);
        frame.checksum.store(page.checksum, Ordering::Relaxed);
        frame.touches.store(0, Ordering::Relaxed);
        let head = self.bucket(page.address);
        frame.next.store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        let before = pool.resident[index as usize].replace(memory);
        assert!(before.is_none(), "frame {index} was admitted while it was resident");
        pool.policy.admit(index, page.address);
        // Publishes the frame's fields and the page's bytes to readers that acquire the head.
        head.store(index, Ordering::Release);
    }

    /// How often readers have looked at a page of late, saturated; 0 if it is not in memory.
    pub fn heat(&self, reader: &CacheReader, address: PageAddress) -> u8 {
        let _looking = reader.enter();
        self.find(address).map_or(0, |frame| self.frames.touches(frame))
    }

    /// Keeps a page that has just been written, as warm as the page in whose place it comes: whoever looked at that one
    /// would read this from the device. Nobody else knows of it yet. Does nothing if no frame can be had.
    pub fn keep(&self, page: PageRef, bytes: &[u8], heat: u8) {
        let Some(mut memory) = self.take_memory() else { return };
        memory.copy_from_slice(bytes);
        let frame = memory.index();
        self.admit(page, memory);
        self.frames.set_touches(frame, heat.min(TOUCHES_MAX));
    }

    fn assert_own(&self, memory: &ArenaFrame) {
        assert!(Arc::ptr_eq(memory.arena(), &self.arena), "frame {} is of another cache's arena", memory.index());
    }

    fn bucket(&self, address: PageAddress) -> &AtomicU32 {
        // Fibonacci hashing: consecutive addresses spread over the buckets.
        let hash = address.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shift = 64 - self.buckets.len().trailing_zeros();
        &self.buckets[(hash >> shift) as usize]
    }

    /// Unlinks a victim into limbo. `false` if nothing is resident.
    fn evict_one(&self, pool: &mut Pool) -> bool {
        let address_of = |frame: u32| PageAddress(self.frames.0[frame as usize].address.load(Ordering::Relaxed));
        let Some(victim) = pool.policy.evict(&self.frames, &address_of) else { return false };
        self.unlink(victim, address_of(victim));
        let memory = pool.resident[victim as usize].take().expect("the policy evicts resident frames");
        pool.limbo.push_back((self.epochs.advance(), memory));
        true
    }

    /// Takes a frame out of its bucket. Its own `next` stays, so that a reader standing on it finds on.
    fn unlink(&self, victim: u32, address: PageAddress) {
        let mut link = self.bucket(address);
        loop {
            let frame = link.load(Ordering::Relaxed);
            assert_ne!(frame, NO_FRAME, "a resident frame is linked in its bucket");
            let next = &self.frames.0[frame as usize].next;
            if frame == victim {
                link.store(next.load(Ordering::Relaxed), Ordering::Release);
                return;
            }
            link = next;
        }
    }

    /// The frame that holds `address`. The caller has announced itself.
    #[inline]
    fn find(&self, address: PageAddress) -> Option<u32> {
        let mut index = self.bucket(address).load(Ordering::Acquire);
        while index != NO_FRAME {
            let frame = &self.frames.0[index as usize];
            if frame.address.load(Ordering::Relaxed) == address.0 {
                return Some(index);
            }
            index = frame.next.load(Ordering::Acquire);
        }
        None
    }

    /// Counts a look for the replacement policy. Saturated, it writes nothing: a hot page's line stays shared.
    #[inline]
    fn touch(&self, frame: u32) {
        let touches = self.frames.touches(frame);
        if touches < TOUCHES_MAX {
            self.frames.set_touches(frame, touches + 1);
        }
    }

    /// Whether a page is resident, without looking at it.
    pub fn holds(&self, reader: &CacheReader, address: PageAddress) -> bool {
        let _looking = reader.enter();
        self.find(address).is_some()
    }
}

/// A thread's right to look at cached pages. Not shared between threads; make one each.
pub struct CacheReader {
    cache: Arc<PageCache>,
    announcement: Arc<Announcement>,
    /// Guards alive; the announcement stands while there are any.
    guards: Cell<u32>,
}

impl CacheReader {
    pub fn cache(&self) -> &Arc<PageCache> {
        &self.cache
    }

    /// The page, if it is in the cache. Hold the guard briefly: no frame evicted after it was made
    /// can be reused while it lives. `Err` if the cache holds other bytes than `page` promises.
    #[inline]
    pub fn find(&self, page: PageRef) -> Result<Option<PageGuard<'_>>, PageError> {
        let found = self.find_unnoticed(page)?;
        if let Some(guard) = &found {
            self.cache.touch(guard.index);
        }
        Ok(found)
    }

    /// The same for work in the background, which says nothing of what is worth keeping.
    #[inline]
    pub fn find_unnoticed(&self, page: PageRef) -> Result<Option<PageGuard<'_>>, PageError> {
        let looking = self.enter();
        let Some(index) = self.cache.find(page.address) else { return Ok(None) };
        let found = self.cache.frames.0[index as usize].checksum.load(Ordering::Relaxed);
        if found != page.checksum {
            return Err(PageError::Corrupt { page, device: "page cache".into(), found });
        }
        Ok(Some(PageGuard { looking, index }))
    }

    #[inline]
    fn enter(&self) -> Looking<'_> {
        if self.guards.get() == 0 {
            self.announcement.enter(&self.cache.epochs);
        }
        self.guards.set(self.guards.get() + 1);
        Looking(self)
    }
}

impl Drop for CacheReader {
    fn drop(&mut self) {
        assert_eq!(self.guards.get(), 0, "a reader goes while a page is looked at");
        self.cache.epochs.unregister(&self.announcement);
    }
}

/// While one lives, its reader's announcement stands.
struct Looking<'r>(&'r CacheReader);

impl Drop for Looking<'_> {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(self.0.guards.get() > 0, "a guard was dropped twice");
        let guards = self.0.guards.get() - 1;
        self.0.guards.set(guards);
        if guards == 0 {
            self.0.announcement.leave();
        }
    }
}

/// A page's bytes, unchanged for as long as the guard lives.
pub struct PageGuard<'r> {
    looking: Looking<'r>,
    index: u32,
}

impl Deref for PageGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let arena = &self.looking.0.cache.arena;
        // SAFETY: the frame was linked when this guard's reader had announced
        // itself, so its memory is resident or in limbo and stays so until the
        // announcement is withdrawn, which the guard prevents (`take_memory`
        // reuses memory only when its epoch is quiet). Memory in these states is never written.
        unsafe { std::slice::from_raw_parts(arena.frame_pointer(self.index), arena.frame_bytes()) }
    }
}
