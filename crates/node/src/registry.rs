//! The connections of a server: how many there are, and how one asks another's statement to stop.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::failure::{Failure, Result};
use crate::scram::random;

/// Secret bytes of a connection. Four, as protocol 3.0 has them.
pub const SECRET_BYTES: usize = 4;

/// Asks one connection's statement to stop.
#[derive(Debug, Default)]
pub struct Interrupt {
    /// Whether a statement runs: a request that comes too late must not meet the next one.
    running: AtomicBool,
    notify: Notify,
}

impl Interrupt {
    /// From now on a statement runs, until what is returned is dropped.
    pub fn running(&self) -> Running<'_> {
        self.running.store(true, Ordering::Release);
        Running(self)
    }

    fn request(&self) {
        if self.running.load(Ordering::Acquire) {
            self.notify.notify_waiters();
        }
    }

    /// Ends when the statement shall stop. To be taken before [`Self::running`], or a request may be missed.
    pub fn requested(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

/// While this is there, a statement can be stopped.
pub struct Running<'a>(&'a Interrupt);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
    }
}

#[derive(Debug, Default)]
struct Entries {
    by_process: HashMap<i32, (Vec<u8>, Arc<Interrupt>)>,
    last: i32,
}

/// All connections that have logged in or are about to.
#[derive(Debug, Default)]
pub struct Registry {
    entries: Mutex<Entries>,
}

/// One connection's place; given back when dropped.
#[derive(Debug)]
pub struct Place {
    registry: Arc<Registry>,
    pub process: i32,
    pub secret: Vec<u8>,
    pub interrupt: Arc<Interrupt>,
}

impl Registry {
    /// Takes a place, if one of `max` is free.
    ///
    /// # Errors
    /// 53300 if there is none.
    pub fn enter(self: &Arc<Self>, max: usize) -> Result<Place> {
        let secret = random(SECRET_BYTES)?;
        let interrupt = Arc::new(Interrupt::default());
        let mut entries = self.entries.lock();
        if entries.by_process.len() >= max {
            return Err(Failure::fatal("53300", "sorry, too many clients already")
                .hint("close connections, or raise --max-connections"));
        }
        loop {
            entries.last = entries.last.checked_add(1).unwrap_or(1);
            if !entries.by_process.contains_key(&entries.last) {
                break;
            }
        }
        let process = entries.last;
        entries.by_process.insert(process, (secret.clone(), Arc::clone(&interrupt)));
        Ok(Place { registry: Arc::clone(self), process, secret, interrupt })
    }

    /// Stops the statement of a connection, if the secret is its own.
    pub fn cancel(&self, process: i32, secret: &[u8]) {
        let entries = self.entries.lock();
        if let Some((own, interrupt)) = entries.by_process.get(&process)
            && own == secret
        {
            interrupt.request();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.entries.lock().by_process.remove(&self.process);
    }
}
