//! A memory barrier in all threads of the process at once.

use std::sync::OnceLock;

const QUERY: libc::c_long = 0;
const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_long = 1 << 4;

/// When it returns `true`, every other thread of this process has passed a full memory barrier since the call. `false`,
/// and nothing done, where the system has no such call (Linux has it since 4.14, unless a sandbox forbids it).
pub fn barrier_for_all_threads() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    if cfg!(any(miri, saki_loom)) {
        // One fence for all: the models have no such call, and take the light half for a whole one.
        crate::sync::fence(crate::sync::Ordering::SeqCst);
        return cfg!(saki_loom);
    }
    let is_registered = *REGISTERED.get_or_init(|| {
        let known = membarrier(QUERY);
        let is_known = known >= 0 && known & PRIVATE_EXPEDITED != 0;
        let is_registered = is_known && membarrier(REGISTER_PRIVATE_EXPEDITED) == 0;
        if !is_registered {
            tracing::warn!("this system has no membarrier: old snapshots hold all later versions of rows in memory");
        }
        is_registered
    });
    is_registered && membarrier(PRIVATE_EXPEDITED) == 0
}

fn membarrier(command: libc::c_long) -> libc::c_long {
    // SAFETY: a system call that takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    #[test]
    fn it_can_be_called_again_and_again() {
        let first = super::barrier_for_all_threads();
        assert!((0..10).all(|_| super::barrier_for_all_threads() == first));
    }
}
