//! What a session holds locks with, and how long it waits.
//!
//! Locks belong to the session's owner, and go when the transaction has ended: after its commit is visible, so that
//! whoever waited for them finds what it did. A statement by itself that changes tables holds them by a [`Locked`],
//! which lets go when the statement is dropped as well.

use std::sync::Arc;
use std::time::Duration;

use saki_parameters::Parameters;
use saki_store::locks::{LockMark, LockOwner, Locks, timed_out};

use saki_catalog::Result;

/// A session's owner of locks, and its patience.
pub struct SessionLocks {
    pub owner: Arc<LockOwner>,
    parameters: Arc<Parameters>,
}

/// Locks that a statement has taken. Those of a statement by itself go when this is dropped; of those in a transaction
/// its end lets go.
#[must_use = "dropped, it lets go of the locks of a statement by itself"]
pub struct Locked {
    locks: Arc<SessionLocks>,
    /// What was held before; `None` for those of a transaction.
    until: Option<LockMark>,
}

impl SessionLocks {
    pub fn new(locks: &Arc<Locks>, parameters: &Arc<Parameters>) -> Arc<Self> {
        Arc::new(Self { owner: LockOwner::new(locks), parameters: Arc::clone(parameters) })
    }

    /// What is taken from now on goes with the statement if `is_alone`, else with its transaction.
    pub fn begin_statement(self: &Arc<Self>, is_alone: bool) -> Locked {
        Locked { locks: Arc::clone(self), until: is_alone.then(|| self.owner.mark()) }
    }

    /// How long its statements wait for what others have: `lock_timeout`; `None`: as long as it takes.
    pub fn patience(&self) -> Option<Duration> {
        self.parameters.ask_state(|state| state.effective.lock_patience())
    }

    /// Waits for something that another transaction has, as long as `lock_timeout` lets it.
    ///
    /// # Errors
    /// 55P03 after that.
    pub async fn patiently<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let Some(timeout) = self.patience() else { return Ok(work.await) };
        let timed = tokio::time::timeout(timeout, work).await;
        timed.map_err(|_| timed_out())
    }
}

impl Locked {
    /// Leaves the locks to the transaction that has begun.
    pub fn keep(mut self) {
        self.until = None;
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(until) = self.until {
            self.locks.owner.release_to(until);
        }
    }
}
