//! Threads that serve pages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use saki_io::{Wait, Waker};

use super::service::PageService;

/// How long a thread sleeps when there is nothing to do.
const SLEEP: Duration = Duration::from_millis(100);

/// Services, each in a thread of its own, until it is dropped.
pub struct PageServer {
    threads: Vec<JoinHandle<()>>,
    wakers: Vec<Arc<dyn Waker>>,
    stopped: Arc<AtomicBool>,
}

impl PageServer {
    /// Starts a thread for each service; what they serve is what they listen at by then.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(services: Vec<PageService>) -> io::Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let wakers = services.iter().map(PageService::waker).collect();
        let mut server = Self { threads: Vec::new(), wakers, stopped };
        for mut service in services {
            let stopped = Arc::clone(&server.stopped);
            let life = move || {
                while !stopped.load(Ordering::Acquire) {
                    service.poll(Wait::AtMost(SLEEP));
                }
            };
            server.threads.push(std::thread::Builder::new().name("saki-pages".into()).spawn(life)?);
        }
        Ok(server)
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.wakers.iter().for_each(|waker| waker.wake());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that serves pages panicked");
            }
        }
    }
}
