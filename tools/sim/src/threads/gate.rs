//! Where threads wait for their turns, by the system's own futexes.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use super::library::real_syscall;

/// Where a thread waits for its turn.
pub struct Gate {
    is_open: AtomicU32,
    /// The system's number of the thread; 0 before it has begun.
    thread: AtomicI32,
}

impl Gate {
    /// Never freed: the thread it belongs to may wait for ever.
    pub fn new() -> &'static Self {
        Box::leak(Box::new(Self { is_open: AtomicU32::new(0), thread: AtomicI32::new(0) }))
    }

    pub fn open(&self) {
        self.is_open.store(1, Ordering::Release);
        real_syscall(
            libc::SYS_futex,
            [self.address(), (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize, 1, 0, 0, 0],
        );
    }

    /// Waits until it is open, and closes it behind.
    pub fn pass(&self) {
        while self.is_open.swap(0, Ordering::Acquire) == 0 {
            let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
            real_syscall(libc::SYS_futex, [self.address(), wait, 0, 0, 0, 0]);
        }
    }

    /// The system's number of its thread is this.
    pub fn belongs_to(&self, thread: i32) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The thread's name, for messages.
    pub fn name(&self) -> String {
        let file = format!("/proc/self/task/{}/comm", self.thread.load(Ordering::Relaxed));
        std::fs::read_to_string(file).unwrap_or_default().trim().to_owned()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.is_open).addr()
    }
}
