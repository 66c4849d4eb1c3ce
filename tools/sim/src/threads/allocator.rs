//! The program's allocator: the system's, or memory that lies where the seed says ([`super::memory`]); and each
//! allocation is where a thread may be interrupted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use super::memory;
use super::scheduler::interruption::allocates;

/// See the module's introduction.
pub struct Interrupting;

// SAFETY: memory is the system allocator's or `memory`'s, and goes back to where it came from.
unsafe impl GlobalAlloc for Interrupting {
    // SAFETY: as the trait's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocates();
        if memory::is_laid_out() {
            return memory::allocate(layout, false);
        }
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the trait's.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocates();
        if memory::is_laid_out() {
            return memory::allocate(layout, true);
        }
        // SAFETY: as the caller says.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: as the trait's.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match memory::has(block) {
            // SAFETY: as the caller says.
            true => unsafe { memory::release(block, layout) },
            // SAFETY: as the caller says.
            false => unsafe { System.dealloc(block, layout) },
        }
    }

    // SAFETY: as the trait's.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if !memory::has(block) {
            // SAFETY: as the caller says.
            return unsafe { System.realloc(block, layout, bytes) };
        }
        // SAFETY: as the caller says: it does not overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        if memory::fits_as_well(layout, wanted) {
            return block;
        }
        let moved = memory::allocate(wanted, false);
        if !moved.is_null() {
            // SAFETY: both are that large, and lie apart.
            unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(bytes)) };
            // SAFETY: nobody has it any more.
            unsafe { memory::release(block, layout) };
        }
        moved
    }
}
