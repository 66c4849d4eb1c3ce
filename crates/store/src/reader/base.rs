//! Rows of the base by key, for one thread: out of memory if they are there, and only then from storage.
//!
//! Both kinds of reading are made ready when they are first needed: looking at pages in memory takes nothing but an
//! announcement, reading others takes a port with a ring of its own. A reader of memory alone has none.

use std::cell::OnceCell;
use std::ops::{Bound, ControlFlow};

use saki_tree::{CachedReader, TreeRange, TreeReader, TreeRoot};

use super::memory::{Entry, Missed};
use crate::database::Database;
use saki_catalog::{Result, SqlError};

/// Reads the trees of a base.
pub struct BaseReader<'d> {
    db: &'d Database,
    /// Goes back to the database with the reader.
    cached: OnceCell<CachedReader>,
    full: Option<TreeReader>,
    /// Where it notes what is not in memory; `None`: it waits for storage.
    missed: Option<&'d Missed>,
}

/// Entries of a range, one after the other.
#[expect(clippy::large_enum_variant, reason = "it stands on the stack of whoever reads it, and is not copied")]
pub enum BaseRange<'r> {
    Read(TreeRange<'r>),
    /// Those that were in memory, and how many of them have been given.
    InMemory(Vec<Entry>, usize),
}

impl Database {
    /// A reader of the base for one thread.
    pub fn base_reader(&self) -> BaseReader<'_> {
        BaseReader::new(self, None)
    }

    /// The same of memory alone: what would wait for storage fails, and is noted in `missed`.
    pub fn memory_reader<'d>(&'d self, missed: &'d Missed) -> BaseReader<'d> {
        BaseReader::new(self, Some(missed))
    }
}

impl<'d> BaseReader<'d> {
    fn new(db: &'d Database, missed: Option<&'d Missed>) -> Self {
        Self { db, cached: OnceCell::new(), full: None, missed }
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
        match (self.get_cached(tree, key, &mut row)?, self.missed) {
            (Some(is_there), _) => Ok(is_there.then_some(row)),
            (None, Some(missed)) => Err(missed.note_key(tree, key)),
            (None, None) => self.full()?.get(tree, key).map_err(SqlError::from),
        }
    }

    /// Entries of a range, in the order of their keys. Waits for storage.
    pub fn range(&mut self, tree: &TreeRoot, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<BaseRange<'_>> {
        let Some(missed) = self.missed else { return Ok(BaseRange::Read(self.full()?.range(tree, low, high))) };
        let entries = missed.all(tree, (low, high), |visit| {
            self.range_cached(tree, (low, high), false, |key, row| match visit(key, row) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        Ok(BaseRange::InMemory(entries, 0))
    }

    /// Where it notes what is not in memory, if it does not wait.
    pub(super) fn missed(&self) -> Option<&'d Missed> {
        self.missed
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

impl BaseRange<'_> {
    /// The next entry, borrowed until the next call.
    #[expect(clippy::should_implement_trait, reason = "lends from itself, which Iterator cannot say")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match self {
            Self::Read(range) => Ok(range.next()?),
            Self::InMemory(entries, given) => {
                *given += 1;
                Ok(entries.get(*given - 1).map(|(key, row)| (&key[..], &row[..])))
            }
        }
    }
}

impl Drop for BaseReader<'_> {
    fn drop(&mut self) {
        if let Some(cached) = self.cached.take() {
            self.db.rest(cached);
        }
    }
}
