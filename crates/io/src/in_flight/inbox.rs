//! Where other threads leave a lane's completions, and wake it.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::device::{Completion, Waker};

/// A lane's letter box. Owner: the lane takes, others put and wake.
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    completions: Vec<Completion>,
    /// A wake that no waiting poll has seen yet.
    woken: bool,
    /// The lane is waiting: only then is it worth notifying.
    waiting: bool,
}

impl Inbox {
    pub fn new() -> Arc<Self> {
        let state = State { completions: Vec::new(), woken: false, waiting: false };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    pub fn put(&self, completion: Completion) {
        let mut state = self.state.lock();
        state.completions.push(completion);
        if state.waiting {
            self.changed.notify_one();
        }
    }

    /// Moves all completions to the end of `out`; waits until `deadline` for
    /// the first one or a wake if there is a deadline.
    pub fn take(&self, deadline: Option<Instant>, out: &mut Vec<Completion>) -> usize {
        let mut state = self.state.lock();
        if let Some(deadline) = deadline {
            state.waiting = true;
            while state.completions.is_empty() && !state.woken {
                if self.changed.wait_until(&mut state, deadline).timed_out() {
                    break;
                }
            }
            state.waiting = false;
            state.woken = false;
        }
        let count = state.completions.len();
        out.append(&mut state.completions);
        count
    }
}

impl Waker for Inbox {
    fn wake(&self) {
        let mut state = self.state.lock();
        state.woken = true;
        if state.waiting {
            self.changed.notify_one();
        }
    }
}
