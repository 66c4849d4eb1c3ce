//! Hot runs in memory, shared by all queries.
//!
//! ```text
//!   fetch(run) ─► Resident ──────────────────────────────► column, or select on the encoded bytes
//!              ├► Begun: the caller has it read ─► finish ─┐    ▲
//!              └► Joined: somebody has ────────────────────┴────┘ everybody who waits is woken
//! ```
//!
//! A run is known by its first page: published pages never change and their addresses are never used twice, so nothing
//! is ever invalidated. It enters as the bytes that were read, from which its first user decodes what it wants for
//! itself; the second user's decode is kept, and the bytes go. Whoever comes meanwhile waits for that one decode.
//!
//! One lock guards the books. It is taken once for each column of a segment, that is, once in some
//! hundred thousand rows; nothing is decoded under it.

mod load;
mod replacement;
mod resident;

use std::sync::{Arc, Weak};

use arrow_array::BooleanArray;
use arrow_buffer::Buffer;
use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::PageAddress;
use saki_vector::Column;

pub use load::Load;
pub use resident::{Resident, RunContent};

use crate::{ColumnsError, Test};
use replacement::Replacement;

/// Runs in memory, bounded in bytes.
pub struct ColumnCache {
    books: Mutex<Books>,
}

struct Books {
    residents: Replacement<Arc<Resident>>,
    /// Reads under way that somebody waits for.
    loads: HashMap<PageAddress, Weak<Load>>,
}

/// Where a run is.
pub enum Fetch {
    /// In memory.
    Resident(Arc<Resident>),
    /// On its way for somebody else: the load tells when it has come.
    Joined(Arc<Load>),
    /// Nowhere: the caller has it read, and ends with [`ColumnCache::finish`] or [`ColumnCache::abandon`].
    Begun(Arc<Load>),
}

impl ColumnCache {
    /// Keeps at most `capacity` bytes of runs, encoded or decoded.
    pub fn new(capacity: usize) -> Arc<Self> {
        let books = Books { residents: Replacement::new(capacity), loads: HashMap::new() };
        Arc::new(Self { books: Mutex::new(books) })
    }

    /// Finds the run that begins at `page`, or joins or begins its load. Counts as a use.
    pub fn fetch(&self, page: PageAddress) -> Fetch {
        let mut books = self.books.lock();
        if let Some(resident) = books.residents.touch(page) {
            resident.note_use();
            return Fetch::Resident(Arc::clone(resident));
        }
        if let Some(load) = books.loads.get(&page).and_then(Weak::upgrade) {
            return Fetch::Joined(load);
        }
        let load = Arc::new(Load::new(page));
        books.loads.insert(page, Arc::downgrade(&load));
        Fetch::Begun(load)
    }

    /// Whether the run that begins at `page` is in memory. Not a use.
    pub fn contains(&self, page: PageAddress) -> bool {
        self.books.lock().residents.contains(page)
    }

    /// A load has ended: the pages of a run from `page` on have been read, or could not be. Those who wait are woken.
    pub fn finish(&self, page: PageAddress, read: Result<Buffer, ColumnsError>) {
        let mut books = self.books.lock();
        let load = books.loads.remove(&page).and_then(|load| load.upgrade());
        let outcome = read.map(|bytes| {
            let size = bytes.len();
            let resident = Arc::new(Resident::new(page, bytes));
            books.residents.admit(page, Arc::clone(&resident), size);
            resident
        });
        drop(books);
        if let Some(load) = load {
            load.finish(outcome);
        }
    }

    /// A load was not carried out, since nobody waits for it any more.
    pub fn abandon(&self, page: PageAddress) {
        let mut books = self.books.lock();
        // Unless somebody has begun it anew.
        if books.loads.get(&page).is_some_and(|load| load.strong_count() == 0) {
            books.loads.remove(&page);
        }
    }

    /// The values of a run, decoded now if nobody has before. Damaged bytes do not stay.
    pub fn column(&self, resident: &Resident, content: &RunContent<'_>) -> Result<Column, ColumnsError> {
        match resident.column(content) {
            Ok((column, None)) => Ok(column),
            Ok((column, Some(decoded_bytes))) => {
                self.books.lock().residents.resize(resident.page(), decoded_bytes);
                Ok(column)
            }
            Err(error) => {
                self.books.lock().residents.remove(resident.page());
                Err(error)
            }
        }
    }

    /// The rows of a run that pass a test, found on its encoded bytes; `None` if decoding is the better way: the
    /// encoding may have no other, or a query has tested the run before, so that it is worth having its values.
    pub fn select(
        &self,
        resident: &Resident,
        content: &RunContent<'_>,
        test: &Test,
    ) -> Result<Option<BooleanArray>, ColumnsError> {
        resident.select(content, test).inspect_err(|_| {
            self.books.lock().residents.remove(resident.page());
        })
    }

    /// Forgets all runs. Queries that hold some keep them.
    pub fn clear(&self) {
        self.books.lock().residents.clear();
    }

    /// Bytes of the runs kept.
    pub fn bytes(&self) -> usize {
        self.books.lock().residents.bytes()
    }

    /// Bytes of runs that are kept at most.
    pub fn capacity(&self) -> usize {
        self.books.lock().residents.capacity()
    }
}

#[cfg(test)]
mod tests;
