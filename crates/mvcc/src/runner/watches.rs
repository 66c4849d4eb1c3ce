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

#[cfg(all(test, not(saki_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_is_over_is_told_nothing() {
        let watches = Watches::default();
        let [over, goes_on] = [(); 2].map(|()| watches.add());
        watches.note([Note { table: 1, row: 8 }].into_iter());
        watches.remove(&over);
        watches.note([Note { table: 1, row: 16 }].into_iter());
        let rows = |noted: &Noted| noted.lock().iter().map(|note| note.row).collect::<Vec<_>>();
        assert_eq!((rows(&over), rows(&goes_on)), (vec![8], vec![8, 16]));
    }
}
