//! Memory that devices read into and write from.
//!
//! Two kinds, both aligned to [`BUFFER_ALIGNMENT`] so that O_DIRECT accepts
//! them, and both *moved* into an operation: whoever holds the value owns the
//! bytes, so memory in flight belongs to the lane and to nobody else.
//!
//! - [`AlignedBuffer`]: one allocation of any multiple of the alignment.
//! - [`ArenaSlot`]: one of the equal slots of an [`Arena`], a single mapping
//!   that a ring can register once. The page cache's frames are such slots.
//!
//! This is one of the modules allowed to hold `unsafe`.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every buffer, in bytes: the strictest any O_DIRECT device asks for.
pub const BUFFER_ALIGNMENT: usize = 4096;

/// An owned, zero-initialised, aligned run of bytes.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    /// Bytes in use, the first of those allocated.
    length: usize,
    capacity: usize,
}

// SAFETY: the buffer owns its allocation exclusively, as a Vec<u8> does.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access only ever reads (`Deref`).
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Allocates `length` zeroed bytes. `length` must be a positive multiple of 512.
    pub fn new(length: usize) -> Self {
        assert!(length > 0 && length.is_multiple_of(512), "buffer of {length} bytes");
        let layout = Self::layout(length);
        // SAFETY: the layout's size is positive, asserted above.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, length, capacity: length }
    }

    /// Bytes allocated, all of them initialised.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes it `length` bytes long: a positive multiple of 512, and no more than its capacity. Bytes that come into use are what
    /// they were before.
    pub fn set_length(&mut self, length: usize) {
        assert!(length > 0 && length.is_multiple_of(512) && length <= self.capacity, "buffer of {length} bytes");
        self.length = length;
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, BUFFER_ALIGNMENT).expect("buffer length overflows isize")
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout, freed only here.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points at `capacity` initialised bytes that we own, and `length` is no more.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

/// One anonymous mapping cut into equal slots.
pub struct Arena {
    start: NonNull<u8>,
    slot_bytes: usize,
    slots: u32,
}

// SAFETY: the mapping is only reached through slots, each of which is held by
// one owner at a time (see `Arena::new`: every index is handed out once).
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `slots` slots of `slot_bytes` bytes (a multiple of
    /// [`BUFFER_ALIGNMENT`]) and hands out each of them exactly once.
    /// Huge pages are asked for, not required.
    pub fn new(slots: u32, slot_bytes: usize) -> std::io::Result<(Arc<Self>, Vec<ArenaSlot>)> {
        assert!(slots > 0 && slot_bytes > 0 && slot_bytes.is_multiple_of(BUFFER_ALIGNMENT));
        let bytes = slots as usize * slot_bytes;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: advises on the mapping just made; failure is harmless.
        unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
        let start = NonNull::new(start.cast::<u8>()).expect("mmap returned null");
        let arena = Arc::new(Self { start, slot_bytes, slots });
        let handed_out = (0..slots).map(|index| ArenaSlot { arena: Arc::clone(&arena), index }).collect();
        Ok((arena, handed_out))
    }

    pub fn slots(&self) -> u32 {
        self.slots
    }

    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Start and length of the whole mapping, for a ring to register.
    pub fn region(&self) -> (*mut u8, usize) {
        (self.start.as_ptr(), self.slots as usize * self.slot_bytes)
    }

    /// Start of a slot's bytes. Reading or writing through it is for the
    /// modules that prove for themselves that the slot is theirs to touch.
    #[inline]
    pub fn slot_pointer(&self, index: u32) -> *mut u8 {
        assert!(index < self.slots);
        // SAFETY: in bounds of the mapping by the assertion.
        unsafe { self.start.as_ptr().add(index as usize * self.slot_bytes) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: maps exactly the region made in `new`; every slot holds an
        // `Arc` to the arena, so none outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.slots as usize * self.slot_bytes) };
    }
}

/// The exclusive right to one slot of an arena. Not clonable: moving it moves the right.
pub struct ArenaSlot {
    arena: Arc<Arena>,
    index: u32,
}

impl ArenaSlot {
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    #[inline]
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }
}

impl Deref for ArenaSlot {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the slot's bytes are mapped and zero-initialised by the
        // kernel, and this value is the only right to them.
        unsafe { std::slice::from_raw_parts(self.arena.slot_pointer(self.index), self.arena.slot_bytes) }
    }
}

impl DerefMut for ArenaSlot {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.arena.slot_pointer(self.index), self.arena.slot_bytes) }
    }
}

/// What an operation carries: memory owned by the lane while in flight.
pub enum Buffer {
    Aligned(AlignedBuffer),
    Slot(ArenaSlot),
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Aligned(buffer) => buffer,
            Self::Slot(slot) => slot,
        }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Aligned(buffer) => buffer,
            Self::Slot(slot) => slot,
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Aligned(buffer) => write!(f, "AlignedBuffer({} bytes)", buffer.len()),
            Self::Slot(slot) => write!(f, "ArenaSlot({}, {} bytes)", slot.index, slot.len()),
        }
    }
}
