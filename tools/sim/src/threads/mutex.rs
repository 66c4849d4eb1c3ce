//! Locks of what outlives a world: the model, the devices, what was found.

use std::ops::{Deref, DerefMut};

use super::scheduler::interruption::{hold, release};

/// Whoever has it is not interrupted, so nobody ever waits for it: one who waited when the power was cut would stay in
/// the queue, be woken in the next world in place of another, and never go on.
#[derive(Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    /// # Panics
    /// If another thread has it: it has given way while it had.
    pub fn lock(&self) -> Guard<'_, T> {
        let before = hold();
        let guard = self.0.try_lock().expect("nobody gives way who has it");
        Guard { guard: Some(guard), before }
    }
}

pub struct Guard<'m, T> {
    /// There until it is dropped.
    guard: Option<parking_lot::MutexGuard<'m, T>>,
    /// Whether the thread was held already.
    before: bool,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("there until it is dropped")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("there until it is dropped")
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.guard = None;
        release(self.before);
    }
}
