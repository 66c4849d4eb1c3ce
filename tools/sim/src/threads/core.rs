//! The core that a process stays on: one of its threads runs at a time, and the next is let go sooner where it need
//! not be woken on another core.

/// Cores that this process may use.
pub fn cores() -> Vec<usize> {
    // SAFETY: a set of bits, all of them 0.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: this thread's own, into a set of that size.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
        return Vec::new();
    }
    // SAFETY: within the set.
    (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
}

/// The calling thread stays on a core, and so does what it starts; if the system refuses that, all is slower.
pub fn stay_on(core: usize) {
    // SAFETY: a set of bits, all of them 0.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: within the set, as it comes from `cores`.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: this thread's own, from a set of that size.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
}

/// The calling thread stays on the core that it runs on.
pub fn stay() {
    // SAFETY: it takes nothing.
    if let Ok(core) = usize::try_from(unsafe { libc::sched_getcpu() }) {
        stay_on(core);
    }
}
