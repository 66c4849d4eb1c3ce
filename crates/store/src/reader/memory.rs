//! Reading from memory alone: what that does not tell is noted, and the reading fails.
//!
//! So whoever may not wait uses the same readers as those who may: a failed reading says what was missing, which is
//! fetched on a thread that may wait, and all of it is done again.

use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use saki_tree::TreeRoot;

use crate::database::Database;
use saki_catalog::{Result, SqlError};

/// Entries of ranges at most that a statement reads from memory alone.
const ENTRIES_MAX: usize = 4000;

/// An encoded row: its key, and the rest.
pub type Entry = (Vec<u8>, Vec<u8>);

/// What was missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Pages of a range of a tree.
    Pages { tree: TreeRoot, low: Bound<Vec<u8>>, high: Bound<Vec<u8>> },
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
        Self::Pages { tree: *tree, low: Bound::Included(key.to_vec()), high: Bound::Included(key.to_vec()) }
    }

    /// Brings it to memory. Waits for storage. The generation that has the tree must live meanwhile.
    ///
    /// # Errors
    /// Those of storage.
    pub fn fetch(&self, db: &Database) -> Result<()> {
        let Self::Pages { tree, low, high } = self else { return Ok(()) };
        let mut base = db.base_reader();
        let mut range = base.range(tree, low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))?;
        for _ in 0..ENTRIES_MAX {
            if range.next()?.is_none() {
                break;
            }
        }
        Ok(())
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
            let (low, high) = (low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec));
            return Err(self.note(Missing::Pages { tree: *tree, low, high }));
        }
        Ok(entries)
    }
}
