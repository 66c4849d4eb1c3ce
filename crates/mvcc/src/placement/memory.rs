//! Memory straight from the system, in large pieces.

use std::io;
use std::ptr::NonNull;

/// Bytes of a huge page: what mappings are aligned to and a multiple of.
pub const MAPPING_BYTES: usize = 2 << 20;

/// An anonymous mapping, aligned to [`MAPPING_BYTES`]; huge pages are asked for, not required.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory; who may touch which part is its owner's to say.
unsafe impl Send for Mapping {}
// SAFETY: as above; the mapping itself gives no access.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes`, rounded up to whole huge pages, on the NUMA node of the calling thread or wherever there is room.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(MAPPING_BYTES);
        let reserved = bytes + MAPPING_BYTES;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                reserved,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = address.cast::<u8>();
        let before = address.align_offset(MAPPING_BYTES);
        // SAFETY: both ends cut off lie in the mapping just made and are whole pages, as its start and the alignment are; what is
        // advised on is what remains. Failures are harmless.
        unsafe {
            if before > 0 {
                libc::munmap(address.cast(), before);
            }
            libc::munmap(address.add(before + bytes).cast(), MAPPING_BYTES - before);
            libc::madvise(address.add(before).cast(), bytes, libc::MADV_HUGEPAGE);
        }
        let start = NonNull::new(address.wrapping_add(before)).expect("the system does not map address 0");
        Ok(Self { start, bytes })
    }

    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the region that `new` left mapped.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
