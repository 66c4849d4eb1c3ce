//! Waiting for many sockets and a waker at once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use saki_io::Waker;

const EVENTS_AT_ONCE: usize = 128;

/// Sockets by the names that their owner gave them.
pub struct Poller {
    epoll: OwnedFd,
    waker: Arc<EventWaker>,
    waker_name: u64,
}

/// Ends a wait: a counter that the wait sees. A wake stays until a wait has seen it.
pub struct EventWaker {
    event: File,
}

impl Waker for EventWaker {
    fn wake(&self) {
        // Fails only when the counter is full, and then the wait has long ended.
        let _ = (&self.event).write(&1_u64.to_ne_bytes());
    }
}

impl Poller {
    /// Without sockets; wakes are told by the name `waker_name`.
    pub fn new(waker_name: u64) -> io::Result<Self> {
        // SAFETY: takes no memory of ours.
        let (epoll, event) = unsafe {
            (libc::epoll_create1(libc::EPOLL_CLOEXEC), libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))
        };
        if epoll < 0 || event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: descriptors that were just opened, and have no other owner.
        let (epoll, event) = unsafe { (OwnedFd::from_raw_fd(epoll), OwnedFd::from_raw_fd(event)) };
        let poller = Self { epoll, waker: Arc::new(EventWaker { event: File::from(event) }), waker_name };
        let event = poller.waker.event.as_raw_fd();
        poller.control(libc::EPOLL_CTL_ADD, event, waker_name, libc::EPOLLIN as u32)?;
        Ok(poller)
    }

    pub fn waker(&self) -> Arc<dyn Waker> {
        Arc::clone(&self.waker) as Arc<dyn Waker>
    }

    /// Becomes readable when a wait would end: for whoever waits for other things as well.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub fn add(&self, socket: BorrowedFd<'_>, name: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket.as_raw_fd(), name, interest(writable))
    }

    /// Waits for room to write as well, or no longer does.
    pub fn change(&self, socket: BorrowedFd<'_>, name: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket.as_raw_fd(), name, interest(writable))
    }

    fn control(&self, action: i32, descriptor: i32, name: u64, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: name };
        // SAFETY: `event` is ours for the time of the call.
        let answer = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), action, descriptor, &raw mut event) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Appends the names of sockets that are ready; waits for the first, or a wake, for `time` (rounded up to a whole
    /// millisecond). A wake is used up only by a wait of some time.
    pub fn wait(&self, time: Duration, ready: &mut Vec<u64>) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_AT_ONCE];
        let milliseconds = i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: `events` has room for as many as are asked for.
        let count = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS_AT_ONCE as i32, milliseconds)
        };
        // An interrupted wait has found nothing.
        for event in &events[..usize::try_from(count).unwrap_or(0)] {
            let name = event.u64;
            if name == self.waker_name {
                if time.is_zero() {
                    continue;
                }
                let _ = (&self.waker.event).read(&mut [0; 8]);
            }
            ready.push(name);
        }
    }
}

fn interest(writable: bool) -> u32 {
    (libc::EPOLLIN | if writable { libc::EPOLLOUT } else { 0 }) as u32
}
