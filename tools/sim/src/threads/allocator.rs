//! The program's allocator: the system's, and each allocation is where a thread may be interrupted.

use std::alloc::{GlobalAlloc, Layout, System};

use super::scheduler::interruption::allocates;

/// See the module's introduction.
pub struct Interrupting;

// SAFETY: memory is the system allocator's; nothing here looks at it.
unsafe impl GlobalAlloc for Interrupting {
    // SAFETY: as the trait's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocates();
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the trait's.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocates();
        // SAFETY: as the caller says.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: as the trait's.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(memory, layout) }
    }

    // SAFETY: as the trait's.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller says.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}
