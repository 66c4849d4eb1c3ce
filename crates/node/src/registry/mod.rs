//! The connections of a server: how many there are, and how one asks another's statement to stop.

mod activity;
mod doors;
mod views;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use saki_sql::{Backends, Role};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::auth::scram::random;
use crate::failure::{Failure, Result};

pub use activity::{Activity, Client};
pub use doors::{Door, Doors};
pub use views::views;

/// Secret bytes of a connection. Four, as protocol 3.0 has them.
pub const SECRET_BYTES: usize = 4;

/// Asks one connection's statement to stop.
#[derive(Debug, Default)]
pub struct Interrupt {
    /// Whether a statement runs: a request that comes too late must not meet the next one.
    running: AtomicBool,
    notify: Notify,
    /// Asks the connection to end. Kept until it is heard.
    end: Notify,
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

    /// Ends when the connection shall end.
    pub fn ended(&self) -> Notified<'_> {
        self.end.notified()
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

/// What is kept of one connection.
#[derive(Debug)]
struct Entry {
    secret: Vec<u8>,
    interrupt: Arc<Interrupt>,
    activity: Arc<Activity>,
}

#[derive(Debug, Default)]
struct Entries {
    by_process: HashMap<i32, Entry>,
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
    pub activity: Arc<Activity>,
}

impl Registry {
    /// What all connections that have logged in are doing, by process.
    pub fn activities(&self) -> Vec<(i32, Arc<Activity>)> {
        let entries = self.entries.lock();
        let mut all: Vec<_> =
            entries.by_process.iter().map(|(process, entry)| (*process, Arc::clone(&entry.activity))).collect();
        drop(entries);
        all.retain(|(_, activity)| activity.has_logged_in());
        all.sort_unstable_by_key(|(process, _)| *process);
        all
    }

    /// Takes a place, if one of `max` is free; the last `reserved` are for superusers.
    ///
    /// # Errors
    /// 53300 if there is none.
    pub fn enter(self: &Arc<Self>, max: usize, reserved: usize, is_superuser: bool) -> Result<Place> {
        let secret = random(SECRET_BYTES)?;
        let (interrupt, activity) = (Arc::new(Interrupt::default()), Arc::new(Activity::default()));
        let mut entries = self.entries.lock();
        if entries.by_process.len() >= max {
            return Err(Failure::fatal("53300", "sorry, too many clients already")
                .hint("close connections, or raise --max-connections"));
        }
        if !is_superuser && entries.by_process.len() >= max.saturating_sub(reserved) {
            let message = "remaining connection slots are reserved for non-replication superuser connections";
            return Err(Failure::fatal("53300", message));
        }
        loop {
            entries.last = entries.last.checked_add(1).unwrap_or(1);
            if !entries.by_process.contains_key(&entries.last) {
                break;
            }
        }
        let process = entries.last;
        let entry =
            Entry { secret: secret.clone(), interrupt: Arc::clone(&interrupt), activity: Arc::clone(&activity) };
        entries.by_process.insert(process, entry);
        Ok(Place { registry: Arc::clone(self), process, secret, interrupt, activity })
    }

    /// Refuses one connection more of a role than it may have.
    ///
    /// # Errors
    /// 53300.
    pub fn refuse_beyond(&self, role: &Role) -> Result<()> {
        let Ok(most) = usize::try_from(role.connection_limit) else { return Ok(()) };
        let others = self.activities().into_iter().filter(|(_, activity)| activity.is_of(&role.name)).count();
        match others >= most && !role.superuser {
            true => Err(Failure::fatal("53300", format!("too many connections for role {:?}", role.name))),
            false => Ok(()),
        }
    }

    /// Stops the statement of a connection, if the secret is its own.
    pub fn cancel(&self, process: i32, secret: &[u8]) {
        let entries = self.entries.lock();
        if let Some(entry) = entries.by_process.get(&process)
            && entry.secret == secret
        {
            entry.interrupt.request();
        }
    }
}

impl Backends for Registry {
    fn user_of(&self, process: i64) -> Option<String> {
        let entries = self.entries.lock();
        entries.by_process.get(&i32::try_from(process).ok()?)?.activity.user()
    }

    fn stop(&self, process: i64, for_good: bool) {
        let entries = self.entries.lock();
        let Some(entry) = i32::try_from(process).ok().and_then(|process| entries.by_process.get(&process)) else {
            return;
        };
        if for_good {
            entry.interrupt.end.notify_one();
        } else {
            entry.interrupt.request();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.entries.lock().by_process.remove(&self.process);
    }
}
