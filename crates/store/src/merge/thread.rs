//! What the threads of a merge come to.

use std::thread::ScopedJoinHandle;

use saki_catalog::{Result, SqlError};

/// Sums of one thread.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    pub rows: u64,
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    pub pages_read: u64,
    pub pages_written: u64,
}

/// What a thread of a merge came to.
pub fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().map_err(|_| SqlError::internal("a merging thread panicked")).flatten()
}
