//! Which cores a thread may run on.

use std::io;

use super::ids::CoreId;
use super::mask::Mask;

/// The most cores Linux can be built for.
type CoreMask = Mask<{ 8192 / usize::BITS as usize }>;

/// The cores that the calling thread may run on, ascending: what it will hand on to the threads it starts.
///
/// # Errors
/// The system's, where it refuses to tell (a filter of system calls).
pub fn allowed_cores() -> io::Result<Vec<CoreId>> {
    let mut mask = CoreMask::empty();
    // SAFETY: the kernel writes at most the bytes given, all of them in the mask.
    let result = unsafe { libc::sched_getaffinity(0, CoreMask::BYTES, mask.as_mut_ptr().cast()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(mask.numbers().map(CoreId).collect())
}

/// Binds the calling thread to `core` for the rest of its life.
///
/// # Errors
/// `InvalidInput` for a core that is not there, is offline or is not allowed to this process; the system's others.
pub fn pin_current_thread(core: CoreId) -> io::Result<()> {
    let mask = CoreMask::of([core.0]).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the kernel reads the bytes given, all of them in the mask.
    let result = unsafe { libc::sched_setaffinity(0, CoreMask::BYTES, mask.as_ptr().cast()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The core that the calling thread is running on; unless it is pinned, no longer true when read.
///
/// # Errors
/// The system's, where it does not tell.
pub fn current_core() -> io::Result<CoreId> {
    // SAFETY: takes and changes nothing.
    let core = unsafe { libc::sched_getcpu() };
    u32::try_from(core).map(CoreId).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_on_its_core_and_may_run_on_no_other() {
        for core in allowed_cores().expect("may be asked") {
            let pinned = move || {
                pin_current_thread(core).expect("an allowed core");
                (allowed_cores().expect("may be asked"), current_core().expect("runs somewhere"))
            };
            assert_eq!(std::thread::spawn(pinned).join().expect("no panic"), (vec![core], core));
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_refused() {
        let kind = |core| pin_current_thread(CoreId(core)).expect_err("no such core").kind();
        assert_eq!(kind(8191), io::ErrorKind::InvalidInput);
        assert_eq!(kind(u32::MAX), io::ErrorKind::InvalidInput);
    }
}
