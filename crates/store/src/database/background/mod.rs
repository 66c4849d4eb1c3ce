//! Threads that end with the database they work for. A panic of one ends the process: nobody else would do its work,
//! and nobody would notice.

mod fetchers;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use saki_base::critical;
use saki_catalog::{Result, SqlError};

pub use fetchers::Fetchers;

/// A thread; dropping this stops it and waits for it.
pub struct Background {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts `work`, which is to end as soon as its receiver has nobody at the other end.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(name: &str, work: impl FnOnce(&Receiver<()>) + Send + 'static) -> Result<Self> {
        let (stop, stopped) = channel();
        let thread = critical::spawn(Builder::new().name(name.to_owned()), move || work(&stopped))
            .map_err(|error| SqlError::storage(format!("the thread {name:?}: {error}")))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The last handle of the database may be the thread's own.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}
