//! Memory on its way out.

use super::epochs::Epochs;

/// Memory that is unlinked and waits for the pins of its time to end. Not shared: each participant's worker has its
/// own.
///
/// Entries come in the order of their retirement, but for those taken over from another.
#[derive(Default)]
pub struct Garbage {
    entries: std::collections::VecDeque<Retired>,
}

/// What to do with `address` once nobody can see it.
struct Retired {
    at: u64,
    address: *mut u8,
    // SAFETY: sound once, for `address`, when nobody looks at it any more; `retire` was promised so.
    free: unsafe fn(*mut u8),
}

// SAFETY: what is retired is reachable through this entry alone, by the contract of `retire`.
unsafe impl Send for Garbage {}

impl Garbage {
    /// Frees `address` by `free` once no pin is as old as this call.
    ///
    /// # Safety
    /// `address` has been unlinked: whoever pins from now on cannot reach it. `free(address)` is sound once, from any
    /// thread, when nobody looks at it any more.
    pub unsafe fn retire(&mut self, epochs: &Epochs, address: *mut u8, free: unsafe fn(*mut u8)) {
        self.entries.push_back(Retired { at: epochs.retirement(), address, free });
    }

    /// Frees what was retired before `watermark`; how many there were.
    pub fn collect(&mut self, watermark: u64) -> usize {
        self.collect_some(watermark, usize::MAX)
    }

    /// The same of `limit` entries at most.
    pub fn collect_some(&mut self, watermark: u64, limit: usize) -> usize {
        let ripe = self.entries.iter().take(limit).take_while(|entry| entry.at < watermark).count();
        for entry in self.entries.drain(..ripe) {
            // SAFETY: every pin is later than `at`, so nobody sees the memory; `retire` was promised that `free` fits
            // it.
            unsafe { (entry.free)(entry.address) };
        }
        ripe
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes over what another left behind: an entry waits for those before it at most.
    pub fn append(&mut self, other: &mut Self) {
        self.entries.append(&mut other.entries);
    }
}

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    // SAFETY: whoever retires something with it gives the address of a counter that outlives the garbage.
    unsafe fn count(freed: *mut u8) {
        // SAFETY: as whoever retired it has promised.
        unsafe { &*freed.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn what_is_retired_goes_when_every_pin_is_later() {
        let epochs = Epochs::new(5, 1);
        let freed = AtomicUsize::new(0);
        let mut garbage = Garbage::default();
        for _ in 0..3 {
            // SAFETY: the counter is there until the end of the test.
            unsafe { garbage.retire(&epochs, std::ptr::from_ref(&freed).cast_mut().cast(), count) };
        }
        assert_eq!((garbage.len(), garbage.is_empty()), (3, false));
        assert_eq!(garbage.collect(5), 0, "a pin may be as old");
        assert_eq!((garbage.collect_some(6, 2), garbage.len()), (2, 1));
        let mut other = Garbage::default();
        other.append(&mut garbage);
        assert_eq!((garbage.is_empty(), other.collect(6), other.is_empty()), (true, 1, true));
        assert_eq!(freed.into_inner(), 3);
    }
}
