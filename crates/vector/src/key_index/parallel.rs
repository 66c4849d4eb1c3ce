//! Work shared out among scoped threads.

use std::panic::resume_unwind;
use std::thread;

use crate::Result;

/// Rows of a share at least: a thread's start costs as much as some ten thousand rows.
const SHARE_ROWS: usize = 64 << 10;

/// Shares that work on `rows` rows is split into, for `threads` threads.
pub(crate) fn shares(rows: usize, threads: usize) -> usize {
    threads.min(rows / SHARE_ROWS).max(1)
}

/// Runs the tasks side by side, the last one on this thread; their results in the order of the tasks.
pub(crate) fn run<T: Send>(tasks: Vec<impl FnOnce() -> Result<T> + Send>) -> Result<Vec<T>> {
    let mut tasks = tasks;
    let Some(last) = tasks.pop() else { return Ok(Vec::new()) };
    thread::scope(|scope| {
        let started: Vec<_> = tasks.into_iter().map(|task| scope.spawn(task)).collect();
        let last = last();
        let mut results = Vec::with_capacity(started.len() + 1);
        for thread in started {
            results.push(thread.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        results.push(last?);
        Ok(results)
    })
}
