//! A place in a queue, as the one that stands there sees it.

use std::task::Waker;

use parking_lot::Mutex;

/// Whether a waiter has got what it waits for, and how it is told.
#[derive(Default)]
pub(super) struct Grant(Mutex<State>);

#[derive(Default)]
struct State {
    is_granted: bool,
    waker: Option<Waker>,
}

impl Grant {
    /// Who is to be woken.
    pub fn give(&self) -> Option<Waker> {
        let mut state = self.0.lock();
        state.is_granted = true;
        state.waker.take()
    }

    pub fn is_given(&self) -> bool {
        self.0.lock().is_granted
    }

    /// Whether it is given; if not, `waker` is to be woken then.
    pub fn poll(&self, waker: &Waker) -> bool {
        let mut state = self.0.lock();
        if !state.is_granted {
            state.waker = Some(waker.clone());
        }
        state.is_granted
    }
}
