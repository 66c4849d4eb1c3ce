//! Being told when a transaction has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::Database;
use crate::chain::Holder;
use crate::error::Error;
use crate::runner::{Place, Shared};

/// A wait that goes on. Dropped, it is over: the callback is not called, unless that is just happening.
#[must_use = "dropped, it ends the wait"]
pub struct Wait {
    shared: Arc<Shared>,
    /// Where it stands in line, if it does.
    place: Option<Place>,
}

impl Database {
    /// Calls back once a transaction has committed (all see it then; it need not be durable) or aborted: on the thread
    /// that ends it, which must not be held up, or at once if it has ended already. `waiter` is the transaction that
    /// cannot go on before, if it is one. Versions that the holder takes back before it ends, to a savepoint, are
    /// nothing that it tells of.
    ///
    /// # Errors
    /// `Deadlock` if the holder waits for the waiter, itself or by way of others; or is the waiter.
    ///
    /// # Panics
    /// If the holder is another database's.
    pub fn when_ended(
        &self,
        waiter: Option<Holder>,
        holder: Holder,
        callback: impl FnOnce() + Send + 'static,
    ) -> Result<Wait, Error> {
        let shared = self.shared();
        assert!(holder.instance == shared.instance, "a transaction is waited for in its own database");
        let waiter = waiter.map(|waiter| waiter.writer);
        let place = shared.waiters.enter(&shared.epochs, waiter, holder.writer, Box::new(callback))?;
        Ok(Wait { shared: Arc::clone(shared), place })
    }

    /// Waits until a transaction has ended, at most for `patience`; whether it has.
    ///
    /// # Errors
    /// As [`when_ended`](Self::when_ended).
    pub fn wait_until_ended(
        &self,
        waiter: Option<Holder>,
        holder: Holder,
        patience: Option<Duration>,
    ) -> Result<bool, Error> {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&ended);
        let _wait = self.when_ended(waiter, holder, move || {
            *told.0.lock() = true;
            told.1.notify_one();
        })?;
        let until = patience.map(|patience| Instant::now() + patience);
        let mut has_ended = ended.0.lock();
        while !*has_ended {
            match until {
                None => ended.1.wait(&mut has_ended),
                Some(until) if ended.1.wait_until(&mut has_ended, until).timed_out() => break,
                Some(_) => {}
            }
        }
        Ok(*has_ended)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.shared.waiters.leave(place);
        }
    }
}
