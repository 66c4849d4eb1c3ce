//! Ending a lane's wait from another thread, at the price of one atomic swap
//! when the lane is not waiting.
//!
//! ```text
//!                begin_wait                   wake: write the event counter
//!       Awake ───────────────► Waiting ──────────────────────────┐
//!         │ ▲ ◄──────────────── │                                ▼
//!    wake │ │     end_wait      └──────────────────────────► Notified
//!         ▼ │ begin_wait: no wait                                │
//!      Notified ◄──────────────────── end_wait: Awake, "woken" ──┘
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::device::Waker;
use crate::system;

const AWAKE: u8 = 0;
const WAITING: u8 = 1;
const NOTIFIED: u8 = 2;

/// Shared by a lane and those who wake it.
pub(super) struct EventWaker {
    state: AtomicU8,
    /// Polled by the ring. Never read back: the ring's poll reports every
    /// write anew, and the counter would take centuries to fill.
    event: File,
}

impl EventWaker {
    pub fn new() -> io::Result<Self> {
        Ok(Self { state: AtomicU8::new(AWAKE), event: system::event_counter()? })
    }

    pub fn event(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Announces that the lane is about to wait. `false`: it was woken before and shall not.
    #[must_use]
    pub fn begin_wait(&self) -> bool {
        // Acquire on failure: the lane goes on to look for what the waker left. Release is not
        // needed (nothing is published), but AcqRel keeps the exchange in the swap's modification order.
        let exchanged = self.state.compare_exchange(AWAKE, WAITING, Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_err() {
            self.state.swap(AWAKE, Ordering::Acquire);
        }
        exchanged.is_ok()
    }

    /// Ends the wait; `true` if a wake came meanwhile.
    #[must_use]
    pub fn end_wait(&self) -> bool {
        // Acquire: as above.
        self.state.swap(AWAKE, Ordering::Acquire) == NOTIFIED
    }
}

impl Waker for EventWaker {
    fn wake(&self) {
        // Release: what the caller did before is visible to the lane that sees `NOTIFIED`.
        // A plain load first would be cheaper, but would not publish.
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == WAITING {
            // Fails only when the counter is full, and then the poll has long fired.
            let _ = (&self.event).write(&1_u64.to_ne_bytes());
        }
    }
}
