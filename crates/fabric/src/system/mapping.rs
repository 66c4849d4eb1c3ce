//! Files in memory, mapped by two processes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A file in memory of zeroes whose length nobody can change any more.
pub fn file_in_memory(bytes: usize) -> io::Result<OwnedFd> {
    // SAFETY: the name is a string that ends with 0.
    let file = unsafe { libc::memfd_create(c"saki".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just opened, and has no other owner.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let length = libc::off_t::try_from(bytes).map_err(|_| io::Error::other("a file too long"))?;
    // SAFETY: takes no memory of ours.
    let cut = unsafe { libc::ftruncate(file.as_raw_fd(), length) };
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: takes no memory of ours.
    if cut != 0 || unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Whether it is a file in memory that can never get shorter. Any other could be cut below a reader, which would die of
/// it, or stop it by an answer that does not come.
fn is_sealed(file: BorrowedFd<'_>) -> bool {
    // SAFETY: takes no memory of ours.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

/// A file in memory as bytes that others may change at any time: they are copied and never referred to.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    writable: bool,
}

// SAFETY: the mapping is reached by copies and atomic operations only, and freed by its one owner.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of a sealed file that is at least so long.
    pub fn new(file: BorrowedFd<'_>, bytes: usize, writable: bool) -> io::Result<Self> {
        let length = std::fs::File::from(file.as_fd().try_clone_to_owned()?).metadata()?.len();
        if !is_sealed(file) || bytes == 0 || length < bytes as u64 {
            return Err(io::Error::other(format!("{bytes} bytes of a file of {length}, or one that may get shorter")));
        }
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: NonNull::new(start.cast()).expect("mmap returned null"), bytes, writable })
    }

    /// Memory that no other process knows.
    pub fn private(bytes: usize) -> io::Result<Self> {
        Self::new(file_in_memory(bytes)?.as_fd(), bytes, true)
    }

    /// Where it begins.
    pub fn pointer(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn check(&self, at: usize, length: usize) {
        assert!(at <= self.bytes && length <= self.bytes - at, "{length} bytes at {at} of a mapping of {}", self.bytes);
    }

    /// Copies from `at` on.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        self.check(at, into.len());
        // SAFETY: within the mapping by the check. The source may be changing: no reference to it is made, and
        // who reads finds torn bytes by a checksum, or reads only what an indicator has released.
        unsafe { std::ptr::copy_nonoverlapping(self.pointer().add(at), into.as_mut_ptr(), into.len()) };
    }

    /// Copies to `at` on.
    pub fn write(&self, at: usize, from: &[u8]) {
        self.check(at, from.len());
        assert!(self.writable, "a mapping for reading is written");
        // SAFETY: within the mapping, which is writable, by the check and the assertion; no reference to it exists.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.pointer().add(at), from.len()) };
    }

    /// The eight bytes at `at`, a multiple of 8, as one atomic number.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        self.check(at, 8);
        assert!(at.is_multiple_of(8), "a word at {at}");
        // SAFETY: within the mapping and aligned, by the check and the assertion; words of a ring are reached
        // atomically or, where bytes are copied over them, before an indicator releases or after it acquires them.
        unsafe { AtomicU64::from_ptr(self.pointer().add(at).cast()) }
    }

    /// The four bytes at `at`, a multiple of 4, likewise.
    pub fn half_word(&self, at: usize) -> &AtomicU32 {
        self.check(at, 4);
        assert!(at.is_multiple_of(4), "a half word at {at}");
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(self.pointer().add(at).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: maps exactly what was made in `new`; references to it do not outlive `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_may_get_shorter_is_not_mapped() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(Mapping::new(file.as_fd(), 4096, false).is_err());
        let sealed = file_in_memory(4096).unwrap();
        assert!(Mapping::new(sealed.as_fd(), 8192, false).is_err(), "and nothing beyond its end");
        let (one, two) = (Mapping::new(sealed.as_fd(), 4096, true), Mapping::new(sealed.as_fd(), 4096, false));
        one.unwrap().write(8, b"bytes");
        let mut read = [0; 5];
        two.unwrap().read(8, &mut read);
        assert_eq!(&read, b"bytes");
        assert!(std::fs::File::from(sealed).set_len(100).is_err(), "its length is sealed");
    }
}
