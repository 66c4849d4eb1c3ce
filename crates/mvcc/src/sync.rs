//! Atomics by one path: the real ones, or `loom`'s under `--cfg saki_loom`, so that the lock-free parts are
//! model-checked as written.

#[cfg(not(saki_loom))]
pub use std::{
    hint::spin_loop,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(saki_loom)]
pub use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// The light half of a fence whose heavy half is a barrier for all threads: it binds the compiler only.
#[inline(always)]
pub fn light_fence() {
    #[cfg(not(saki_loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    // The model has no barrier for all threads, so both halves are whole.
    #[cfg(saki_loom)]
    fence(Ordering::SeqCst);
}

/// Waits a little for another thread to make a step that it is about to make: a few rounds of spinning, then the
/// processor is given away, since on a busy machine that thread may not be running.
#[derive(Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    const SPIN_ROUNDS: u32 = 6;

    #[inline]
    pub fn wait(&mut self) {
        #[cfg(saki_loom)]
        loom::thread::yield_now();
        #[cfg(not(saki_loom))]
        if self.rounds < Self::SPIN_ROUNDS {
            (0..1 << self.rounds).for_each(|_| spin_loop());
        } else {
            std::thread::yield_now();
        }
        self.rounds += 1;
    }
}
