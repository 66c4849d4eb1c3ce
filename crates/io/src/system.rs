//! The few system calls that the standard library does not offer, each with
//! a safe surface. Together with `uring`, the only place in this crate where
//! `unsafe` is allowed.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// Reserves storage for the bytes of `file` from `from` up to `end` and makes it at least so long, in whole extents
/// rather than write by write. What lies before stays as it is, holes too.
pub fn preallocate(file: &File, from: u64, end: u64) -> io::Result<()> {
    let offset = |bytes: u64| libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG));
    let (from, bytes) = (offset(from)?, offset(end.saturating_sub(from))?);
    loop {
        // SAFETY: a plain system call on a descriptor that `file` keeps open; touches no memory of ours.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, from, bytes) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Lets other threads go before the calling one where there are not enough processors: `niceness` from 0 (none) to 19.
/// What the kernel does on the thread's behalf from then on has the same priority.
pub fn give_way(niceness: u8) -> io::Result<()> {
    // SAFETY: takes no pointers; process 0 is the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness.into()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An event counter that another thread writes to in order to end a wait on it.
pub fn event_counter() -> io::Result<File> {
    // SAFETY: takes no pointers.
    let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, is open, and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Smallest offset and length that O_DIRECT accepts on `file`, where the kernel tells (Linux 6.1 and later).
pub fn direct_alignment(file: &File) -> Option<usize> {
    // SAFETY: `statx` is plain integers, for which zero is a value.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is an empty C string, which AT_EMPTY_PATH allows; `status` outlives the call and is writable.
    let answer = unsafe {
        libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &raw mut status)
    };
    let told = answer == 0 && status.stx_mask & libc::STATX_DIOALIGN != 0;
    (told && status.stx_dio_offset_align > 0).then_some(status.stx_dio_offset_align as usize)
}
