//! A run on its way, and who waits for it.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use saki_base::PageAddress;

use super::resident::Resident;
use crate::ColumnsError;

type Outcome = Result<Arc<Resident>, ColumnsError>;

/// A read under way. Once nobody holds it, it need not be carried out.
pub struct Load {
    page: PageAddress,
    state: Mutex<State>,
}

enum State {
    Waiting(Vec<Waker>),
    Ended(Outcome),
}

impl Load {
    pub(super) fn new(page: PageAddress) -> Self {
        Self { page, state: Mutex::new(State::Waiting(Vec::new())) }
    }

    /// The run's first page.
    pub fn page(&self) -> PageAddress {
        self.page
    }

    pub(super) fn finish(&self, outcome: Outcome) {
        let before = std::mem::replace(&mut *self.state.lock(), State::Ended(outcome));
        match before {
            State::Waiting(wakers) => wakers.into_iter().for_each(Waker::wake),
            State::Ended(_) => panic!("the load of {} has ended twice", self.page),
        }
    }

    /// The run, once it has come; until then, wakes `context` when it does.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<Outcome> {
        match &mut *self.state.lock() {
            State::Ended(outcome) => Poll::Ready(outcome.clone()),
            State::Waiting(wakers) => {
                if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// Whether it has come, or failed to.
    pub fn has_ended(&self) -> bool {
        matches!(&*self.state.lock(), State::Ended(_))
    }
}
