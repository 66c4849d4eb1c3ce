//! Where commits note which rows they write, while there are watches.

use std::sync::Arc;

use parking_lot::Mutex;

/// A row that a commit writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// The number of its table.
    pub table: u32,
    /// The row's address. It is there for whoever was pinned before the commit.
    pub row: usize,
}

pub(super) type Noted = Arc<Mutex<Vec<Note>>>;

/// All watches that there are.
#[derive(Default)]
pub(crate) struct Watches(Mutex<Vec<Noted>>);

impl Watches {
    /// Notes the rows of a commit. To be called only while somebody [watches](crate::epoch::Epochs::is_watched).
    #[cold]
    pub fn note(&self, rows: impl Iterator<Item = Note> + Clone) {
        self.0.lock().iter().for_each(|noted| noted.lock().extend(rows.clone()));
    }

    /// Begins to note rows for a watch.
    pub(super) fn add(&self) -> Noted {
        let noted = Noted::default();
        self.0.lock().push(Arc::clone(&noted));
        noted
    }

    /// Notes nothing for it any more.
    pub(super) fn remove(&self, watch: &Noted) {
        self.0.lock().retain(|noted| !Arc::ptr_eq(noted, watch));
    }
}
