//! Rows of the base by key, for one thread: out of memory if they are there, and only then from storage.
//!
//! Both kinds of reading are made ready when they are first needed: looking at pages in memory takes nothing but an
//! announcement, reading others takes a port with a ring of its own.

use std::cell::OnceCell;
use std::ops::{Bound, ControlFlow};

use saki_tree::{CachedReader, TreeRange, TreeReader, TreeRoot};

use crate::database::Database;
use saki_catalog::{Result, SqlError};

/// Reads the trees of a base.
pub struct BaseReader<'d> {
    db: &'d Database,
    /// Goes back to the database with the reader.
    cached: OnceCell<CachedReader>,
    full: Option<TreeReader>,
}

impl Database {
    /// A reader of the base for one thread.
    pub fn base_reader(&self) -> BaseReader<'_> {
        BaseReader::new(self)
    }
}

impl<'d> BaseReader<'d> {
    pub fn new(db: &'d Database) -> Self {
        Self { db, cached: OnceCell::new(), full: None }
    }

    /// Replaces `row` by the value of a key: whether there is one. `None` if a page would have to be read.
    pub fn get_cached(&self, tree: &TreeRoot, key: &[u8], row: &mut Vec<u8>) -> Result<Option<bool>> {
        self.cached().get(tree, key, row).map_err(SqlError::from)
    }

    /// Visits the entries of a range until `visit` breaks off, in key order or against it. `false` if a page would have
    /// to be read.
    pub fn range_cached(
        &self,
        tree: &TreeRoot,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        is_reverse: bool,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.cached().range(tree, bounds, is_reverse, visit).map_err(SqlError::from)
    }

    /// The value of a key. Waits for storage.
    pub fn get(&mut self, tree: &TreeRoot, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut row = Vec::new();
        match self.get_cached(tree, key, &mut row)? {
            Some(is_there) => Ok(is_there.then_some(row)),
            None => self.full()?.get(tree, key).map_err(SqlError::from),
        }
    }

    /// Entries of a range, in the order of their keys. Waits for storage.
    pub fn range(&mut self, tree: &TreeRoot, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<TreeRange<'_>> {
        Ok(self.full()?.range(tree, low, high))
    }

    fn cached(&self) -> &CachedReader {
        self.cached.get_or_init(|| self.db.cached_reader())
    }

    fn full(&mut self) -> Result<&mut TreeReader> {
        if self.full.is_none() {
            self.full = Some(self.db.tree_reader()?);
        }
        self.full.as_mut().ok_or_else(|| SqlError::internal("a reader was lost"))
    }
}

impl Drop for BaseReader<'_> {
    fn drop(&mut self) {
        if let Some(cached) = self.cached.take() {
            self.db.rest(cached);
        }
    }
}
