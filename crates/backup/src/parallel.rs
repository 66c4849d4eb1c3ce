//! The same work on many things, by several threads.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use saki_catalog::Result;
use saki_store::Stop;

use crate::{Progress, WORKERS};

/// Counts what is done, for whoever watches.
pub struct Watch<'a> {
    told: &'a (dyn Fn(Progress) + Sync),
    done: AtomicU64,
    bytes: AtomicU64,
    total: u64,
}

impl<'a> Watch<'a> {
    pub fn new(told: &'a (dyn Fn(Progress) + Sync), total: u64) -> Self {
        Self { told, done: AtomicU64::new(0), bytes: AtomicU64::new(0), total }
    }

    /// One piece more, for which so many bytes went over.
    pub fn count(&self, bytes: u64) {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (self.told)(Progress { done, total: self.total, bytes });
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Calls `work` with each number below `count`, from several threads, each with a `state` of its own. Ends with the
/// first error, or when it is told to stop.
pub fn each<S>(
    count: usize,
    stop: &Stop,
    state: impl Fn() -> Result<S> + Sync,
    work: impl Fn(&mut S, usize) -> Result<()> + Sync,
) -> Result<()> {
    let (next, has_failed, failure) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let worker = || -> Result<()> {
        let mut state = state()?;
        while !has_failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            stop.check()?;
            work(&mut state, at)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS.min(count) {
            scope.spawn(|| {
                if let Err(error) = worker() {
                    has_failed.store(true, Ordering::Relaxed);
                    failure.lock().get_or_insert(error);
                }
            });
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}
