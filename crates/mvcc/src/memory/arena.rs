//! Memory for rows and versions: size classes, free lists of each runner's own, and a depot behind them.
//!
//! ```text
//!   Arena (one runner)                         Depot (one NUMA node)
//!   class 0: free ─► free ─► free   ◄─ batch ─►   batches of class 0 …
//!   class 1: free ─► …              ◄─ batch ─►   batches of class 1 …
//!   fresh:   [ used │ piece … ]     ◄─ piece ──   mapping │ mapping │ …
//! ```
//!
//! Allocating and freeing touch nothing shared, except when a list runs empty or grows beyond two batches: then a whole
//! batch moves. So what one runner frees reaches others, and memory stays bounded wherever rows are made and dropped.
//! Memory of the size classes goes back to the system when the depot is dropped, larger blocks when they are freed.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::placement::Mapping;

/// Alignment of every block.
pub const BLOCK_ALIGNMENT: usize = 16;
/// Larger blocks come from the system's allocator one by one.
const CLASS_BYTES_MAX: usize = 64 << 10;
/// Up to here classes are [`BLOCK_ALIGNMENT`] apart, above there are four to a doubling.
const FINE_BYTES_MAX: usize = 512;
const FINE_CLASSES: usize = FINE_BYTES_MAX / BLOCK_ALIGNMENT;
const CLASSES: usize = FINE_CLASSES + 4 * (CLASS_BYTES_MAX / FINE_BYTES_MAX).ilog2() as usize;
/// Fresh memory that an arena takes from the depot at once.
const PIECE_BYTES: usize = 256 << 10;
/// What is left of a piece and shorter is kept by no one.
const LEFT_BYTES_MIN: usize = PIECE_BYTES / 16;
/// Memory that the depot takes from the system at once.
const REGION_BYTES: usize = if cfg!(miri) { 2 << 20 } else { 64 << 20 };
/// Bytes in a batch, roughly.
const BATCH_BYTES: usize = 32 << 10;
/// What an arena has given out or taken back is told to the depot when it comes to so much.
const TOLD_BYTES: isize = 32 << 10;

const _: () = assert!(PIECE_BYTES >= CLASS_BYTES_MAX && REGION_BYTES.is_multiple_of(PIECE_BYTES));

/// Which class holds blocks of `bytes`, at most [`CLASS_BYTES_MAX`].
#[inline]
const fn class_of(bytes: usize) -> usize {
    if bytes <= FINE_BYTES_MAX {
        return bytes.saturating_sub(1) / BLOCK_ALIGNMENT;
    }
    let doubling = (bytes - 1).ilog2() as usize;
    let quarter = (bytes - 1) >> (doubling - 2) & 3;
    FINE_CLASSES + 4 * (doubling - FINE_BYTES_MAX.ilog2() as usize) + quarter
}

/// Bytes of a block of that class.
const fn class_bytes(class: usize) -> usize {
    if class < FINE_CLASSES {
        return (class + 1) * BLOCK_ALIGNMENT;
    }
    let coarse = class - FINE_CLASSES;
    let doubling = FINE_BYTES_MAX << (coarse / 4);
    doubling + doubling / 4 * (coarse % 4 + 1)
}

/// Blocks in a batch of that class.
const fn batch_blocks(class: usize) -> u32 {
    let blocks = BATCH_BYTES / class_bytes(class);
    if blocks < 4 { 4 } else { blocks as u32 }
}

/// A block that is free: its first bytes point at the next one.
struct FreeBlock {
    next: *mut FreeBlock,
}

/// Free blocks of one class.
#[derive(Clone, Copy)]
struct List {
    head: *mut FreeBlock,
    count: u32,
}

impl List {
    const EMPTY: Self = Self { head: ptr::null_mut(), count: 0 };
}

/// What the arenas of one NUMA node share.
pub struct Depot {
    batches: Box<[Mutex<Vec<List>>]>,
    fresh: Mutex<Fresh>,
    large: Arc<LargeBlocks>,
    bytes: AtomicUsize,
    /// Bytes of blocks that are in use, as far as arenas have told. What was made here may be freed by an arena of
    /// another depot, so only the sum over all depots means something.
    used: AtomicIsize,
    map: Box<dyn Fn(usize) -> io::Result<Mapping> + Send + Sync>,
}

#[derive(Default)]
struct Fresh {
    mappings: Vec<Mapping>,
    /// Bytes of the last mapping that were given out.
    used: usize,
    /// What arenas left of their pieces, [`LEFT_BYTES_MIN`] or more.
    left: Vec<(NonNull<u8>, usize)>,
    /// Mappings written to ahead of their use.
    ready: Vec<Mapping>,
}

// SAFETY: lists in the depot are reachable from nowhere else, and each moves as a whole, under a lock.
unsafe impl Send for Depot {}
// SAFETY: as above.
unsafe impl Sync for Depot {}

impl Depot {
    /// A depot whose memory comes from `map`, which says on which node it lies.
    pub fn new(
        large: Arc<LargeBlocks>,
        map: impl Fn(usize) -> io::Result<Mapping> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            batches: (0..CLASSES).map(|_| Mutex::default()).collect(),
            fresh: Mutex::default(),
            large,
            bytes: AtomicUsize::new(0),
            used: AtomicIsize::new(0),
            map: Box::new(map),
        })
    }

    /// Bytes taken from the system.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of blocks in use, to some kilobytes for each arena; less than zero if others' blocks were freed here.
    pub fn used(&self) -> isize {
        self.used.load(Ordering::Relaxed)
    }

    /// Has `bytes` of memory ready, given by the system and written to, so that no transaction has to wait for that.
    pub fn prepare(&self, bytes: usize) -> io::Result<()> {
        for _ in 0..bytes.div_ceil(REGION_BYTES) {
            let mut mapping = (self.map)(REGION_BYTES)?;
            mapping.touch();
            self.fresh.lock().ready.push(mapping);
        }
        Ok(())
    }

    /// A piece of fresh memory, whole or what another arena left of it, of at least `bytes`; and how long it is.
    fn piece(&self, bytes: usize) -> io::Result<(NonNull<u8>, usize)> {
        let mut fresh = self.fresh.lock();
        if let Some(at) = fresh.left.iter().rposition(|(_, left)| *left >= bytes) {
            return Ok(fresh.left.swap_remove(at));
        }
        if fresh.mappings.is_empty() || fresh.used == REGION_BYTES {
            let mapping = fresh.ready.pop().map_or_else(|| (self.map)(REGION_BYTES), Ok)?;
            fresh.mappings.push(mapping);
            fresh.used = 0;
        }
        let start = fresh.mappings.last().expect("one was just pushed, or is not used up").start();
        // SAFETY: `used` is a piece or more short of the mapping's end.
        let piece = unsafe { start.add(fresh.used) };
        piece.as_ptr().expose_provenance();
        fresh.used += PIECE_BYTES;
        self.bytes.fetch_add(PIECE_BYTES, Ordering::Relaxed);
        Ok((piece, PIECE_BYTES))
    }

    fn allocate_large(&self, bytes: usize) -> io::Result<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, BLOCK_ALIGNMENT).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the size is above CLASS_BYTES_MAX, so not zero.
        let block = NonNull::new(unsafe { alloc(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        block.as_ptr().expose_provenance();
        self.large.0.lock().insert(block.as_ptr() as usize, layout);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(block)
    }

    fn free_large(&self, block: NonNull<u8>) {
        let layout = self.large.0.lock().remove(&(block.as_ptr() as usize)).expect("a large block is freed once");
        self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: allocated with this layout, and just removed from the blocks that are allocated.
        unsafe { dealloc(own(block).as_ptr(), layout) };
    }
}

/// Blocks above the classes, of all depots of a database: whoever frees one need not be on the node where it was made.
#[derive(Default)]
pub struct LargeBlocks(Mutex<HashMap<usize, Layout>>);

impl Drop for LargeBlocks {
    fn drop(&mut self) {
        for (address, layout) in self.0.get_mut().drain() {
            // SAFETY: allocated with this layout and not freed yet; the arenas, which hold the depots, which hold this,
            // are gone.
            unsafe { dealloc(ptr::with_exposed_provenance_mut(address), layout) };
        }
    }
}

/// The block as what it was allocated as: those who free it have come to it by shared references, through which nothing
/// is written.
#[inline]
fn own(block: NonNull<u8>) -> NonNull<u8> {
    NonNull::new(ptr::with_exposed_provenance_mut(block.as_ptr().addr())).expect("it is not null")
}

/// One runner's blocks.
pub struct Arena {
    depot: Arc<Depot>,
    lists: Box<[List; CLASSES]>,
    /// Fresh memory: from `fresh` on, `fresh_bytes` of it.
    fresh: *mut u8,
    fresh_bytes: usize,
    /// Bytes that it has given out, less those that it has taken back, since it last told the depot.
    untold: isize,
}

// SAFETY: an arena owns its free blocks.
unsafe impl Send for Arena {}

impl Arena {
    pub fn new(depot: Arc<Depot>) -> Self {
        Self { depot, lists: Box::new([List::EMPTY; CLASSES]), fresh: ptr::null_mut(), fresh_bytes: 0, untold: 0 }
    }

    /// A block of at least `bytes`, not initialised, aligned to [`BLOCK_ALIGNMENT`].
    #[inline]
    pub fn allocate(&mut self, bytes: usize) -> io::Result<NonNull<u8>> {
        let block = self.take(bytes)?;
        self.count(bytes.cast_signed());
        Ok(block)
    }

    /// Counts bytes that are given out, or, below zero, taken back.
    #[inline]
    fn count(&mut self, bytes: isize) {
        self.untold += bytes;
        if self.untold.abs() >= TOLD_BYTES {
            self.tell();
        }
    }

    #[cold]
    fn tell(&mut self) {
        self.depot.used.fetch_add(std::mem::take(&mut self.untold), Ordering::Relaxed);
    }

    #[inline]
    fn take(&mut self, bytes: usize) -> io::Result<NonNull<u8>> {
        if bytes > CLASS_BYTES_MAX {
            return self.depot.allocate_large(bytes);
        }
        let class = class_of(bytes);
        let list = &mut self.lists[class];
        match NonNull::new(list.head) {
            Some(block) => {
                // SAFETY: a block of a free list is ours alone, and `free` wrote its link.
                list.head = unsafe { block.as_ref().next };
                list.count -= 1;
                Ok(block.cast())
            }
            None => self.refill(class),
        }
    }

    #[cold]
    fn refill(&mut self, class: usize) -> io::Result<NonNull<u8>> {
        let batch = self.depot.batches[class].lock().pop();
        if let Some(batch) = batch {
            self.lists[class] = batch;
            return self.take(class_bytes(class));
        }
        let bytes = class_bytes(class);
        if self.fresh_bytes < bytes {
            // What is left of the old piece is lost: less than one block of this class.
            let (piece, piece_bytes) = self.depot.piece(bytes)?;
            (self.fresh, self.fresh_bytes) = (piece.as_ptr(), piece_bytes);
        }
        let block = NonNull::new(self.fresh).expect("there is a piece");
        // SAFETY: `bytes` are left of the piece.
        self.fresh = unsafe { self.fresh.add(bytes) };
        self.fresh_bytes -= bytes;
        Ok(block)
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// The block was allocated for `bytes` by an arena of this depot, is not freed yet, and nobody looks at it any
    /// more.
    #[inline]
    pub unsafe fn free(&mut self, block: NonNull<u8>, bytes: usize) {
        self.count(-bytes.cast_signed());
        if bytes > CLASS_BYTES_MAX {
            return self.depot.free_large(block);
        }
        let class = class_of(bytes);
        let list = &mut self.lists[class];
        let block = own(block).cast::<FreeBlock>();
        // SAFETY: the block is ours again, aligned, and larger than a link.
        unsafe { block.write(FreeBlock { next: list.head }) };
        *list = List { head: block.as_ptr(), count: list.count + 1 };
        if list.count >= 2 * batch_blocks(class) {
            self.give_back(class);
        }
    }

    /// Moves one batch to the depot.
    #[cold]
    fn give_back(&mut self, class: usize) {
        let list = &mut self.lists[class];
        let batch = List { head: list.head, count: batch_blocks(class).min(list.count) };
        let mut last = batch.head;
        for _ in 1..batch.count {
            // SAFETY: the list has `count` blocks, each linked to the next.
            last = unsafe { (*last).next };
        }
        if batch.count == 0 {
            return;
        }
        // SAFETY: `last` is a block of the list.
        list.head = unsafe { std::mem::replace(&mut (*last).next, ptr::null_mut()) };
        list.count -= batch.count;
        self.depot.batches[class].lock().push(batch);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.tell();
        for class in 0..CLASSES {
            while self.lists[class].count > 0 {
                self.give_back(class);
            }
        }
        if let Some(fresh) = NonNull::new(self.fresh).filter(|_| self.fresh_bytes >= LEFT_BYTES_MIN) {
            self.depot.fresh.lock().left.push((fresh, self.fresh_bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_for() {
        let mut last = 0;
        for bytes in 1..=CLASS_BYTES_MAX {
            let class = class_of(bytes);
            assert!(class_bytes(class) >= bytes && class < CLASSES, "{bytes}");
            assert!(class == 0 || class_bytes(class - 1) < bytes, "{bytes} fits a smaller class");
            assert!(class >= last);
            last = class;
        }
        assert_eq!(last, CLASSES - 1);
    }

    #[test]
    fn memory_freed_by_one_runner_serves_another() {
        let depot = Depot::new(Arc::default(), Mapping::new);
        let mut maker = Arena::new(Arc::clone(&depot));
        let mut dropper = Arena::new(Arc::clone(&depot));
        let mut settled = 0;
        for round in 0..50 {
            let blocks: Vec<_> = (0..2_000).map(|_| maker.allocate(100).unwrap()).collect();
            for block in blocks {
                // SAFETY: allocated above for 100 bytes, and used by nobody.
                unsafe { dropper.free(block, 100) };
            }
            if round == 5 {
                settled = depot.bytes();
            }
        }
        assert_eq!(depot.bytes(), settled, "memory grows although as much is freed as is made");
    }

    /// Blocks of all sizes, made by one and freed by another.
    #[test]
    fn what_is_in_use_is_known() {
        let depot = Depot::new(Arc::default(), Mapping::new);
        let mut maker = Arena::new(Arc::clone(&depot));
        let mut dropper = Arena::new(Arc::clone(&depot));
        let sizes = [1, 100, 600, 60_000, 1 << 20];
        let blocks: Vec<_> = sizes.iter().map(|bytes| (maker.allocate(*bytes).unwrap(), *bytes)).collect();
        let used = sizes.iter().sum::<usize>().cast_signed();
        assert!((depot.used() - used).abs() < TOLD_BYTES);
        drop(maker);
        assert_eq!(depot.used(), used);
        for (block, bytes) in blocks {
            // SAFETY: allocated above for so many bytes, and used by nobody.
            unsafe { dropper.free(block, bytes) };
        }
        drop(dropper);
        assert_eq!(depot.used(), 0);
    }

    /// From one mapping to the next.
    #[test]
    fn arenas_share_nothing() {
        const BLOCK_BYTES: usize = 60_000;
        let mapped = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&mapped);
        let depot = Depot::new(Arc::default(), move |bytes| {
            let mapping = Mapping::new(bytes)?;
            log.lock().push(mapping.start().addr().get()..mapping.start().addr().get() + bytes);
            Ok(mapping)
        });
        let mut arenas = [(); 2].map(|()| Arena::new(Arc::clone(&depot)));
        let mut blocks = Vec::new();
        // Four to a piece.
        for _ in 0..2 * (REGION_BYTES / PIECE_BYTES) + 8 {
            blocks.extend(arenas.each_mut().map(|arena| arena.allocate(BLOCK_BYTES).unwrap().addr().get()));
        }
        blocks.sort_unstable();
        assert!(blocks.array_windows().all(|[one, next]| next - one >= BLOCK_BYTES));
        assert_eq!(depot.bytes(), REGION_BYTES + 4 * PIECE_BYTES);
        let mapped = mapped.lock();
        assert_eq!(mapped.len(), 2, "a mapping is used up before the next");
        let is_mapped = |block: usize| mapped.iter().any(|it| it.start <= block && block + BLOCK_BYTES <= it.end);
        assert!(blocks.into_iter().all(is_mapped));
    }

    #[test]
    fn blocks_do_not_overlap() {
        let depot = Depot::new(Arc::default(), Mapping::new);
        let mut arena = Arena::new(Arc::clone(&depot));
        let mut blocks = Vec::new();
        for (index, bytes) in
            [1, 16, 17, 100, 512, 513, 4_096, 65_536, 65_537, 1 << 20].repeat(20).into_iter().enumerate()
        {
            let block = arena.allocate(bytes).unwrap();
            assert!(block.as_ptr().addr().is_multiple_of(BLOCK_ALIGNMENT));
            // SAFETY: a block of so many bytes that is ours.
            unsafe { block.write_bytes(index as u8, bytes) };
            blocks.push((block, bytes, index as u8));
        }
        for (block, bytes, mark) in blocks {
            // SAFETY: written in full above, and ours until freed.
            let content = unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) };
            assert!(content.iter().all(|byte| *byte == mark));
            // SAFETY: allocated for `bytes`, and not used any more.
            unsafe { arena.free(block, bytes) };
        }
        assert_eq!(depot.large.0.lock().len(), 0);
    }
}
