//! Threads that are interrupted between two calls of the system: where they allocate memory, and at the engine's seams.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::{DRIVER, ME, SCHEDULER, Scheduler, State, Thread, give_way, in_world, with};

/// How many of the interruptions are long, and how long they are: less than so many bits of nanoseconds.
const LONG: f64 = 0.15;
const LONGEST_BITS: u64 = 29;
/// The same of those at seams, at least.
const LONG_BITS: u64 = 20;

/// Allocations until the next interruption. Relaxed: of the one thread that runs.
static UNTIL_INTERRUPTION: AtomicU64 = AtomicU64::new(u64::MAX);

thread_local! {
    /// For how many reasons this thread is not to be interrupted.
    static HOLDS: Cell<usize> = const { Cell::new(0) };
}

impl Scheduler {
    pub(super) fn is_any_interrupted(&self) -> bool {
        self.threads.iter().any(|thread| thread.is_interrupted && thread.state == State::Ready)
    }

    /// Interrupts a thread; now and then for as long as it takes others to do much.
    fn interrupt(&mut self, thread: usize) {
        self.threads[thread].is_interrupted = true;
        if self.random.chance(LONG) {
            let longest = 1 << self.random.range(12..LONGEST_BITS);
            self.threads[thread].state = State::Sleeping(self.now + self.random.below(longest));
        }
    }

    /// Those that were interrupted for longer may go on.
    pub(super) fn wake_interrupted(&mut self) {
        let sleeps = |thread: &&mut Thread| thread.is_interrupted && matches!(thread.state, State::Sleeping(_));
        self.threads.iter_mut().filter(sleeps).for_each(|thread| thread.state = State::Ready);
    }

    /// How many allocations pass before the next interruption.
    pub(super) fn draw_interruption(&mut self) {
        let allocations = match self.interruptions.allocations {
            0 => u64::MAX,
            often => self.random.below(2 * often),
        };
        UNTIL_INTERRUPTION.store(allocations, Ordering::Relaxed);
    }
}

/// The calling thread allocates memory: now and then that is a point at which another one may go on instead, so that
/// threads also meet between two calls of the system.
#[inline]
pub fn allocates() {
    let left = UNTIL_INTERRUPTION.load(Ordering::Relaxed);
    if left > 0 || !in_world() || ME.get() == DRIVER || HOLDS.get() > 0 {
        UNTIL_INTERRUPTION.store(left.saturating_sub(1), Ordering::Relaxed);
        return;
    }
    // The scheduler's own allocations are no such points.
    let is_due = match SCHEDULER.try_lock() {
        Ok(mut guard) => guard.as_mut().is_some_and(|scheduler| {
            scheduler.draw_interruption();
            let is_due = scheduler.interruptions.allocations > 0 && !scheduler.settles;
            if is_due {
                scheduler.interrupt(ME.get());
            }
            is_due
        }),
        Err(_) => false,
    };
    if is_due {
        give_way();
        with(|scheduler| scheduler.threads[ME.get()].is_interrupted = false);
    }
}

/// The calling thread is at a seam of the engine (`saki_base::seam`): now and then others go on for long.
pub fn crosses() {
    if !in_world() || ME.get() == DRIVER || HOLDS.get() > 0 {
        return;
    }
    let is_due = with(|scheduler| {
        let often = scheduler.interruptions.seams;
        let is_due = often > 0 && !scheduler.settles && scheduler.random.below(often) == 0;
        if is_due {
            let longest = 1 << scheduler.random.range(LONG_BITS..LONGEST_BITS + 1);
            let until = scheduler.now + scheduler.random.below(longest);
            let thread = &mut scheduler.threads[ME.get()];
            (thread.is_interrupted, thread.state) = (true, State::Sleeping(until));
        }
        is_due
    });
    if is_due {
        give_way();
        with(|scheduler| scheduler.threads[ME.get()].is_interrupted = false);
    }
}

/// Does something during which the calling thread is not interrupted.
pub fn held<T>(work: impl FnOnce() -> T) -> T {
    let _hold = Hold::new();
    work()
}

/// While it is there, the thread that has made it is not interrupted.
struct Hold;

impl Hold {
    fn new() -> Self {
        HOLDS.set(HOLDS.get() + 1);
        Self
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        HOLDS.set(HOLDS.get() - 1);
    }
}

/// What threads of many worlds use, one after the other. Who has it is not interrupted, and asks nothing of the system
/// meanwhile: so nobody waits for it, and no thread has it whose world has ended.
#[derive(Debug, Default)]
pub struct Kept<T>(Mutex<T>);

impl<T> Kept<T> {
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub fn lock(&self) -> KeptGuard<'_, T> {
        let hold = Hold::new();
        KeptGuard { guard: self.0.lock(), _hold: hold }
    }
}

/// Has what is [`Kept`].
pub struct KeptGuard<'k, T> {
    // Given back first.
    guard: MutexGuard<'k, T>,
    _hold: Hold,
}

impl<T> Deref for KeptGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for KeptGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
