//! Where memory lies: at addresses that follow from the seed and from what was asked for before, wherever the system
//! would have put it.
//!
//! Addresses decide something. Locks that many wait at are told apart by a hash of theirs, and hash tables are seeded
//! with what the stack, the heap and the program's own statics have for addresses, so that nobody can foresee the order
//! in which they are gone through. Here somebody has to. Memory that is allocated, the stacks of threads, and maps of
//! the system's are handed out of ranges that are nobody else's, one behind the other; the seed says where the first
//! block is. And what hash tables have been seeded with is the seed's ([`seed_hashes`]), since where a program's
//! statics lie depends on the folder that it was built in.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::hint::spin_loop;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ahash::random_state::{RandomSource, set_random_source};
use foldhash::SharedSeed;
use saki_base::Random;

/// Where blocks, stacks, and maps are. Neither system that this is for puts anything there by itself.
const BLOCKS: Range<usize> = 0x1000_0000_0000..0x1100_0000_0000;
const STACKS: Range<usize> = 0x2000_0000_0000..0x2100_0000_0000;
const MAPS: Range<usize> = 0x3000_0000_0000..0x3100_0000_0000;
/// Between two stacks: who goes beyond his is stopped.
pub const GUARD_BYTES: usize = 1 << 20;
/// By how much the first block of one seed may be behind that of another.
const SHIFT_MAX: u64 = 1 << 26;

/// What small blocks are multiples of, and up to where they are.
const STEP_BYTES: usize = 16;
const SMALL_BYTES: usize = 1024;
const SMALL_CLASSES: usize = SMALL_BYTES / STEP_BYTES;
/// Larger ones have a power of two for size, and begin at a multiple of it.
const CLASSES: usize = SMALL_CLASSES + usize::BITS as usize;
/// Blocks of so many bytes give their pages back to the system while nobody has them.
const LARGE_BYTES: usize = 1 << 20;
/// As the system's pages, or a multiple of them.
const PAGE_BYTES: usize = 64 << 10;
/// As the system's large pages, or a multiple of them.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Whether memory lies where the seed says. Relaxed: set before there are other threads.
static IS_LAID_OUT: AtomicBool = AtomicBool::new(false);
static BLOCKS_OF_ALL: Shared = Shared::new();
/// Where the next map and the next stack may begin.
static NEXT_MAP: AtomicUsize = AtomicUsize::new(MAPS.start);
static NEXT_STACK: AtomicUsize = AtomicUsize::new(STACKS.start);

/// A block that nobody has: where the next one of its size is.
struct Free {
    next: Option<NonNull<Free>>,
}

struct Blocks {
    /// What is behind all blocks that there have been.
    left: Range<usize>,
    free: [Option<NonNull<Free>>; CLASSES],
}

/// One thread runs at a time, but for those that end or begin at this moment.
struct Shared {
    is_taken: AtomicBool,
    blocks: UnsafeCell<Blocks>,
}

// SAFETY: the blocks are reached under `is_taken` only.
unsafe impl Sync for Shared {}

impl Shared {
    const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), blocks: UnsafeCell::new(Blocks::new(BLOCKS)) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Blocks) -> T) -> T {
        while self.is_taken.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        // SAFETY: nobody else has it before it is given back below.
        let done = work(unsafe { &mut *self.blocks.get() });
        self.is_taken.store(false, Ordering::Release);
        done
    }
}

/// Which blocks do for a layout, and their size.
fn class_of(layout: Layout) -> (usize, usize) {
    if layout.align() <= STEP_BYTES && layout.size() <= SMALL_BYTES {
        let steps = layout.size().max(1).div_ceil(STEP_BYTES);
        return (steps - 1, steps * STEP_BYTES);
    }
    let size = layout.size().max(layout.align()).next_power_of_two();
    (SMALL_CLASSES + size.trailing_zeros() as usize, size)
}

impl Blocks {
    const fn new(left: Range<usize>) -> Self {
        Self { left, free: [None; CLASSES] }
    }

    /// A block for a layout, and whether it is all zeros; `None` if there is no more room.
    fn take(&mut self, layout: Layout) -> Option<(NonNull<u8>, bool)> {
        let (class, size) = class_of(layout);
        if let Some(block) = self.free[class] {
            // SAFETY: who gave it back left this there.
            self.free[class] = unsafe { block.read() }.next;
            return Some((block.cast(), false));
        }
        let alignment = if class < SMALL_CLASSES { STEP_BYTES } else { size };
        let start = self.left.start.next_multiple_of(alignment);
        let end = start.checked_add(size).filter(|end| *end <= self.left.end)?;
        self.left.start = end;
        Some((NonNull::new(ptr::with_exposed_provenance_mut(start))?, true))
    }

    /// # Safety
    /// As of a deallocation.
    // SAFETY: as the caller says.
    unsafe fn give_back(&mut self, block: NonNull<u8>, layout: Layout) {
        let (class, size) = class_of(layout);
        let free = block.cast::<Free>();
        if size >= LARGE_BYTES {
            // SAFETY: whole pages of a block that nobody has any more; that they are zeros then is of no consequence.
            unsafe { libc::madvise(block.as_ptr().add(PAGE_BYTES).cast(), size - PAGE_BYTES, libc::MADV_DONTNEED) };
        }
        // SAFETY: every block has room for this, and is aligned for it.
        unsafe { free.write(Free { next: self.free[class].replace(free) }) };
    }
}

/// Whether what is allocated from now on lies where the seed says.
#[inline]
pub fn is_laid_out() -> bool {
    IS_LAID_OUT.load(Ordering::Relaxed)
}

/// Whether it was allocated here.
#[inline]
pub fn has(memory: *mut u8) -> bool {
    BLOCKS.contains(&memory.addr())
}

/// Memory for a layout, null if there is none.
pub fn allocate(layout: Layout, is_zeroed: bool) -> *mut u8 {
    let Some((block, has_zeros)) = BLOCKS_OF_ALL.with(|blocks| blocks.take(layout)) else { return ptr::null_mut() };
    if is_zeroed && !has_zeros {
        // SAFETY: the block is that large.
        unsafe { block.write_bytes(0, layout.size()) };
    }
    block.as_ptr()
}

/// Gives memory back.
///
/// # Safety
/// It was allocated here, for this layout, and nobody has it any more.
// SAFETY: as the caller says.
pub unsafe fn release(memory: *mut u8, layout: Layout) {
    let Some(block) = NonNull::new(memory) else { return };
    // SAFETY: as the caller says.
    BLOCKS_OF_ALL.with(|blocks| unsafe { blocks.give_back(block, layout) });
}

/// Whether a block does for one layout as for the other.
pub fn fits_as_well(one: Layout, other: Layout) -> bool {
    class_of(one) == class_of(other)
}

/// From now on memory lies where the seed says. To be said before there are other threads.
///
/// # Errors
/// If the system does not let it.
pub fn lay_out(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let start = reserve(BLOCKS.start, BLOCKS.len())?;
    start.expose_provenance();
    let shift = random.below(SHIFT_MAX) as usize / STEP_BYTES * STEP_BYTES;
    BLOCKS_OF_ALL.with(|blocks| blocks.left.start += shift);
    seed_hashes(random.next_u64());
    IS_LAID_OUT.store(true, Ordering::Relaxed);
    Ok(())
}

/// Memory for the stack of a thread. It is never given back: the system looks at it for as long as somebody may ask
/// what became of the thread.
pub fn stack(bytes: usize) -> Option<*mut c_void> {
    let bytes = bytes.next_multiple_of(PAGE_BYTES);
    let start = NEXT_STACK.fetch_add(bytes + GUARD_BYTES, Ordering::Relaxed) + GUARD_BYTES;
    if start + bytes > STACKS.end {
        return None;
    }
    reserve(start, bytes).ok()
}

/// Where a map of the system's is to lie that may lie anywhere.
pub fn place_of_map(bytes: usize) -> usize {
    NEXT_MAP.fetch_add(bytes.next_multiple_of(LARGE_PAGE_BYTES) + LARGE_PAGE_BYTES, Ordering::Relaxed)
}

/// Address space of ours, with pages of zeros once they are used.
fn reserve(start: usize, bytes: usize) -> Result<*mut c_void, String> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory where nothing else is: the system refuses it elsewise.
    let found = unsafe { libc::mmap(ptr::without_provenance_mut(start), bytes, access, flags, -1, 0) };
    if found.addr() != start {
        let error = std::io::Error::last_os_error();
        return Err(format!("memory cannot lie at {start:#x}, where the seed has it: {error}"));
    }
    // A page of it is used here and there; the system may refuse, then there is less left for others.
    // SAFETY: the memory is ours.
    unsafe { libc::madvise(found, bytes, libc::MADV_NOHUGEPAGE) };
    Ok(found)
}

/// Numbers that nobody else has.
struct Counter(AtomicUsize);

impl RandomSource for Counter {
    fn gen_hasher_seed(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Seeds hash tables, which elsewise do that by addresses.
fn seed_hashes(seed: u64) {
    // Refused if there is one already: then it is seeded by addresses, as ever.
    let _ = set_random_source(Counter(AtomicUsize::new(seed as usize)));
    let drawn = ptr::from_ref(SharedSeed::global_random()).expose_provenance();
    let drawn: *mut SharedSeed = ptr::with_exposed_provenance_mut(drawn);
    // SAFETY: it lies in a cell of a static, which is written by whoever asks for it first: that was the line above. No
    // other thread is there, and no hash table yet that was seeded with it.
    unsafe { drawn.write(SharedSeed::from_u64(seed)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a layout")
    }

    #[test]
    fn blocks_do_for_what_they_are_for() {
        for (size, align) in
            [(0, 1), (1, 1), (16, 16), (17, 8), (1024, 16), (1025, 1), (24, 64), (4096, 4096), (9, 512)]
        {
            let (class, block) = class_of(layout(size, align));
            assert!(class < CLASSES && block >= size && block >= size_of::<Free>(), "{size} {align}: {block}");
            assert!(class < SMALL_CLASSES && align <= STEP_BYTES || block.is_multiple_of(align), "{size} {align}");
        }
        assert!(fits_as_well(layout(17, 8), layout(32, 8)) && !fits_as_well(layout(17, 8), layout(33, 8)));
        assert!(!fits_as_well(layout(64, 16), layout(64, 64)), "not wherever small blocks are");
    }

    #[test]
    fn blocks_lie_behind_each_other_and_are_used_again() {
        let start = reserve(STACKS.end - (1 << 30), 1 << 24).expect("nobody is there").addr();
        let mut blocks = Blocks::new(start..start + (1 << 24));
        let mut take = |size, align| {
            let (block, is_zeroed) = blocks.take(layout(size, align)).expect("there is room");
            (block, block.addr().get() - start, is_zeroed)
        };
        let (first, ..) = take(20, 8);
        assert_eq!(first.addr().get(), start);
        assert_eq!((take(1, 1).1, take(100, 64).1), (32, 128));
        let (large, at, is_zeroed) = take(2 << 20, 4096);
        assert!((at, is_zeroed) == (2 << 20, true));
        // SAFETY: the block is ours, and that large.
        unsafe { large.write_bytes(7, 2 << 20) };
        for (block, layout) in [(first, layout(20, 8)), (large, layout(2 << 20, 4096))] {
            // SAFETY: they were taken above, and are not used any more.
            unsafe { blocks.give_back(block, layout) };
        }
        assert!(blocks.take(layout(32, 1)) == Some((first, false)));
        assert!(blocks.take(layout(2 << 20, 1)) == Some((large, false)));
        assert!(blocks.take(layout(32 << 20, 1)).is_none());
        // SAFETY: the block is ours, and that large.
        assert_eq!(unsafe { large.add(PAGE_BYTES).read() }, 0, "it had gone back to the system");
    }
}
