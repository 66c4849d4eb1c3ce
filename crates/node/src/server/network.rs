//! The threads that talk to clients. Each runs its own connections and no others': what comes from a socket is answered
//! by the thread that it woke, and statements about single rows never pass from one thread to another.

use std::thread::JoinHandle;

use saki_base::critical;
use saki_base::stack::STACK_BYTES;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::failure::Result;

/// The threads. Dropping them ends their work wherever it is.
pub struct Network(Vec<Thread>);

struct Thread {
    handle: Handle,
    /// Dropped, it ends the thread.
    running: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Network {
    /// Starts `threads` of them, at least one.
    ///
    /// # Errors
    /// If the system has no more.
    pub fn start(threads: usize) -> Result<Self> {
        Ok(Self((0..threads.max(1)).map(Thread::start).collect::<Result<_>>()?))
    }

    /// The one that accepts clients.
    pub fn first(&self) -> &Handle {
        &self.0[0].handle
    }

    /// All of them, to be given connections in turn.
    pub fn handles(&self) -> Vec<Handle> {
        self.0.iter().map(|thread| thread.handle.clone()).collect()
    }
}

impl Thread {
    fn start(number: usize) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        let work = move || {
            // An error is the end of the sender, which is what is waited for.
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name(format!("saki-network-{number}")).stack_size(STACK_BYTES);
        let thread = critical::spawn(thread, work)?;
        Ok(Self { handle, running: Some(running), thread: Some(thread) })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            // What it panicked with has been said.
            let _ = thread.join();
        }
    }
}
