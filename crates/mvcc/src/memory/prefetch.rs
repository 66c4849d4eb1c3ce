//! Asking for memory before it is needed.

/// Brings the cache line at `address` closer, if the processor likes. Any address will do: none is looked at.
#[inline]
pub fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect that a program can see, and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Asks for the memory of a row, by its address in an index: its key, its first version and the begin of the body.
#[inline]
pub fn prefetch_row(address: u64) {
    let row = std::ptr::with_exposed_provenance::<u8>(address as usize);
    prefetch(row);
    prefetch(row.wrapping_add(64));
    prefetch(row.wrapping_add(128));
}
