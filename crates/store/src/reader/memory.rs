//! Reading from memory alone: what that does not tell is noted, and the reading fails.
//!
//! So whoever may not wait uses the same readers as those who may: a failed reading says what was missing, which is
//! fetched by threads that may wait ([`Fetchers::fetch`](crate::database::Fetchers::fetch)), and all of it is done
//! again.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use saki_tree::{TreeRoot, Wanted};

use crate::database::{Database, Generation};
use saki_catalog::{Result, SqlError};

/// Entries of ranges at most that a statement reads from memory alone.
const ENTRIES_MAX: usize = 4000;
/// Leaves of a range that are fetched at first; each attempt of a statement doubles it, since how many entries they
/// have, and how many of these it takes, is not known before.
const LEAVES_FIRST: usize = 8;
/// Leaves of a range that are fetched at most: as many as there may be entries.
const LEAVES_MAX: usize = ENTRIES_MAX;

/// An encoded row: its key, and the rest.
pub type Entry = (Vec<u8>, Vec<u8>);

/// What was missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    /// The first pages of ranges of trees.
    Pages(Vec<Wanted>),
    /// Nothing: the ranges have more entries than are read from memory alone.
    Long,
}

/// Where the readers of a statement note what was missing.
#[derive(Default, Debug)]
pub struct Missed {
    missing: Mutex<Option<Missing>>,
    /// Entries of ranges that they have read.
    read: AtomicUsize,
}

impl Missing {
    /// The way to a key.
    pub fn key(tree: &TreeRoot, key: &[u8]) -> Self {
        Self::Pages(vec![Wanted::key(tree, key)])
    }

    /// Has it brought to memory, the more of long ranges the more often the statement was `attempted` before. Does not
    /// wait: `told` is called once it is there. The trees are those of `generation`.
    ///
    /// # Errors
    /// As [`Fetchers::fetch`](crate::database::Fetchers::fetch).
    pub fn fetch(
        self,
        db: &Database,
        generation: Arc<Generation>,
        attempted: u32,
        told: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        let Self::Pages(ranges) = self else {
            told(Ok(()));
            return Ok(());
        };
        let leaves = LEAVES_FIRST.checked_shl(attempted).map_or(LEAVES_MAX, |leaves| leaves.min(LEAVES_MAX));
        db.fetchers.fetch(generation, (ranges, leaves), told)
    }
}

impl Missed {
    /// What was missing last, which is forgotten by this; `None`: nothing was.
    pub fn take(&self) -> Option<Missing> {
        self.missing.lock().take()
    }

    /// The error by which a reading fails. Nobody shows it: who reads from memory alone asks what was missing first.
    fn note(&self, missing: Missing) -> SqlError {
        *self.missing.lock() = Some(missing);
        SqlError::internal("a page that is not in memory was read without waiting")
    }

    /// Counts an entry that is read.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn count(&self) -> Result<()> {
        match self.read.fetch_add(1, Ordering::Relaxed) < ENTRIES_MAX {
            true => Ok(()),
            false => Err(self.note(Missing::Long)),
        }
    }

    pub(super) fn note_key(&self, tree: &TreeRoot, key: &[u8]) -> SqlError {
        self.note(Missing::key(tree, key))
    }

    /// The entries of a range, which `read` shows until it is told to stop: `false` if a page was missing.
    pub(super) fn all(
        &self,
        tree: &TreeRoot,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        read: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool>,
    ) -> Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut counted = Ok(());
        let is_there = read(&mut |key, row| {
            entries.push((key.to_vec(), row.to_vec()));
            counted = self.count();
            counted.is_ok()
        })?;
        counted?;
        if !is_there {
            return Err(self.note(Missing::Pages(vec![Wanted::range(tree, (low, high), false)])));
        }
        Ok(entries)
    }
}
