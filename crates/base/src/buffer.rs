//! Memory that devices read into and write from.
//!
//! Two kinds, both aligned to [`BUFFER_ALIGNMENT`] so that O_DIRECT accepts
//! them, and both *moved* into an operation: whoever holds the value owns the
//! bytes, so memory in flight belongs to the lane and to nobody else.
//!
//! - [`AlignedBuffer`]: one allocation of any multiple of the alignment.
//! - [`ArenaFrame`]: one of the equal frames of an [`Arena`], a single mapping
//!   that a ring can register once. The page cache keeps its pages in them.
//!
//! This is one of the modules allowed to hold `unsafe`.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every buffer, in bytes: the strictest any O_DIRECT device asks for.
pub const BUFFER_ALIGNMENT: usize = 4096;
const _: () = assert!(BUFFER_ALIGNMENT.is_power_of_two());

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

    /// Makes it `length` bytes long: a positive multiple of 512, and no more than its capacity. Bytes that come into
    /// use are what they were before.
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

/// One mapping cut into equal frames: of memory that is this process's own, or of a file in memory that others may map
/// to read.
pub struct Arena {
    start: NonNull<u8>,
    frame_bytes: usize,
    frames: u32,
    /// What others map; `None` for memory of this process alone.
    file: Option<OwnedFd>,
}

// SAFETY: the mapping is only reached through frames, each of which is held by
// one owner at a time (see `Arena::hand_out`: every index is handed out once).
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `frames` frames of `frame_bytes` bytes (a multiple of
    /// [`BUFFER_ALIGNMENT`]) and hands out each of them exactly once.
    /// Huge pages are asked for, not required.
    pub fn new(frames: u32, frame_bytes: usize) -> io::Result<(Arc<Self>, Vec<ArenaFrame>)> {
        let bytes = Self::bytes_of(frames, frame_bytes);
        let start = Self::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, None)?;
        Ok(Self { start, frame_bytes, frames, file: None }.hand_out())
    }

    /// The same over a file in memory, so that other processes of the machine can map it ([`Arena::file`]). They can
    /// read it and nothing else: the file is sealed against writing by others, and against every change of its length.
    pub fn shared(frames: u32, frame_bytes: usize) -> io::Result<(Arc<Self>, Vec<ArenaFrame>)> {
        let bytes = Self::bytes_of(frames, frame_bytes);
        // SAFETY: the name is a string that ends with 0.
        let file = unsafe { libc::memfd_create(c"saki".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just opened, and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let length = libc::off_t::try_from(bytes).map_err(|_| io::Error::other("an arena longer than a file"))?;
        // SAFETY: takes no memory of ours.
        if unsafe { libc::ftruncate(file.as_raw_fd(), length) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let start = Self::map(bytes, libc::MAP_SHARED | libc::MAP_NORESERVE, Some(&file))?;
        let arena = Self { start, frame_bytes, frames, file: Some(file) };
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;
        let file = arena.file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: takes no memory of ours.
        if unsafe { libc::fcntl(file, libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(arena.hand_out())
    }

    fn bytes_of(frames: u32, frame_bytes: usize) -> usize {
        assert!(frames > 0, "an arena without frames");
        assert!(
            frame_bytes > 0 && frame_bytes.is_multiple_of(BUFFER_ALIGNMENT),
            "frames of {frame_bytes} bytes are not aligned"
        );
        (frames as usize).checked_mul(frame_bytes).expect("an arena larger than the address space")
    }

    fn map(bytes: usize, flags: libc::c_int, file: Option<&OwnedFd>) -> io::Result<NonNull<u8>> {
        let file = file.map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: advises on the mapping just made; failure is harmless.
        unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
        Ok(NonNull::new(start.cast::<u8>()).expect("mmap returned null"))
    }

    fn hand_out(self) -> (Arc<Self>, Vec<ArenaFrame>) {
        let arena = Arc::new(self);
        let handed_out = (0..arena.frames).map(|index| ArenaFrame { arena: Arc::clone(&arena), index }).collect();
        (arena, handed_out)
    }

    /// The file in memory that other processes may map to read; `None` if the arena was not made to be shared.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    pub fn frames(&self) -> u32 {
        self.frames
    }

    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Start and length of the whole mapping, for a ring to register.
    pub fn region(&self) -> (*mut u8, usize) {
        (self.start.as_ptr(), self.frames as usize * self.frame_bytes)
    }

    /// Start of a frame's bytes. Reading or writing through it is for the
    /// modules that prove for themselves that the frame is theirs to touch.
    #[inline]
    pub fn frame_pointer(&self, index: u32) -> *mut u8 {
        assert!(index < self.frames, "frame {index} of an arena of {}", self.frames);
        // SAFETY: in bounds of the mapping by the assertion.
        unsafe { self.start.as_ptr().add(index as usize * self.frame_bytes) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: maps exactly the region made in `new`; every frame holds an
        // `Arc` to the arena, so none outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.frames as usize * self.frame_bytes) };
    }
}

/// The exclusive right to one frame of an arena. Not clonable: moving it moves the right.
pub struct ArenaFrame {
    arena: Arc<Arena>,
    index: u32,
}

impl ArenaFrame {
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    #[inline]
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }
}

impl Deref for ArenaFrame {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frame's bytes are mapped and zero-initialised by the
        // kernel, and this value is the only right to them.
        unsafe { std::slice::from_raw_parts(self.arena.frame_pointer(self.index), self.arena.frame_bytes) }
    }
}

impl DerefMut for ArenaFrame {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.arena.frame_pointer(self.index), self.arena.frame_bytes) }
    }
}

/// What an operation carries: memory owned by the lane while in flight.
pub enum Buffer {
    Aligned(AlignedBuffer),
    Frame(ArenaFrame),
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Aligned(buffer) => buffer,
            Self::Frame(frame) => frame,
        }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Aligned(buffer) => buffer,
            Self::Frame(frame) => frame,
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Aligned(buffer) => write!(f, "AlignedBuffer({} bytes)", buffer.len()),
            Self::Frame(frame) => write!(f, "ArenaFrame({}, {} bytes)", frame.index, frame.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_shared_arena_is_read_and_not_changed_by_others() {
        let (arena, mut frames) = Arena::shared(2, 4096).unwrap();
        frames[1][..5].copy_from_slice(b"bytes");
        let file = std::fs::File::from(arena.file().unwrap().try_clone_to_owned().unwrap());
        let mut read = [0; 5];
        file.read_exact_at(&mut read, 4096).unwrap();
        assert_eq!(&read, b"bytes");
        assert!(file.write_at(b"other", 0).is_err(), "others cannot write");
        assert!(file.set_len(4096).is_err() && file.set_len(1 << 20).is_err(), "and its length stays");
        assert!(Arena::new(1, 4096).unwrap().0.file().is_none());
    }
}
