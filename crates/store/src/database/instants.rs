//! Rows and catalog of one instant.
//!
//! Whoever begins to read asks twice: for the newest generation, and then for a timestamp. A transaction that has
//! changed rows and the catalog shows its rows first and its generation when that is published. Between the two, or
//! around both, a reader would have got half of it: rows as they were changed, of a table as it was before it was
//! emptied.
//!
//! ```text
//!   commit:  announce ─ rows are seen ─ mark durable ─ generation is seen ─ over
//!   reader:  instant ─ generation ─ timestamp ─ is it still this instant? else once more
//! ```
//!
//! A reader that comes while a commit is announced waits until it is over: a flush of a log and a publication. Such
//! commits are rare, and readers pay two looks at a word that seldom changes.
//!
//! After the sequence locks of Linux.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// Counts the commits of rows and catalog together.
#[derive(Default, Debug)]
pub struct Instants {
    /// Odd while there is one.
    count: AtomicU64,
    /// Held by whoever commits so.
    turn: Mutex<()>,
}

/// From its beginning to its end nobody sees half of a commit.
pub struct Announced<'i> {
    instants: &'i Instants,
    _turn: MutexGuard<'i, ()>,
}

/// A time at which no commit is announced, if it [is](Self::is_now) that when everything has been asked.
pub struct Instant<'i> {
    instants: &'i Instants,
    count: u64,
}

impl Instants {
    /// Announces a commit: its rows are not seen yet, nor its generation.
    pub fn announce(&self) -> Announced<'_> {
        let turn = self.turn.lock();
        self.count.fetch_add(1, Ordering::SeqCst);
        Announced { instants: self, _turn: turn }
    }

    /// Now, or when the commit that is announced is over.
    #[inline]
    pub fn begin(&self) -> Instant<'_> {
        loop {
            let count = self.count.load(Ordering::SeqCst);
            if count.is_multiple_of(2) {
                return Instant { instants: self, count };
            }
            drop(self.turn.lock());
        }
    }

    /// What `take` asks for at one instant; it is asked again if a commit has come in between.
    #[inline]
    pub fn take<T>(&self, mut take: impl FnMut() -> T) -> T {
        loop {
            let instant = self.begin();
            let taken = take();
            if instant.is_now() {
                return taken;
            }
        }
    }
}

impl Instant<'_> {
    /// Whether no commit has been announced since.
    #[inline]
    pub fn is_now(&self) -> bool {
        self.instants.count.load(Ordering::SeqCst) == self.count
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.instants.count.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn nobody_gets_half_of_what_is_announced() {
        let (instants, rows, catalog, is_over) =
            (Instants::default(), AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let reader = || {
                while !is_over.load(Ordering::SeqCst) {
                    // As readers do: the catalog first.
                    let load = |word: &AtomicU64| word.load(Ordering::SeqCst);
                    let (catalog, rows) = instants.take(|| (load(&catalog), load(&rows)));
                    assert_eq!(catalog, rows);
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            };
            let readers = [scope.spawn(reader), scope.spawn(reader)];
            // On a busy machine readers may not have begun when all has been committed.
            let goes_on = |commit: &u64| *commit <= 20_000 || taken.load(Ordering::SeqCst) < 1_000;
            for commit in (1..).take_while(goes_on) {
                let _announced = instants.announce();
                rows.store(commit, Ordering::SeqCst);
                std::hint::spin_loop();
                catalog.store(commit, Ordering::SeqCst);
            }
            is_over.store(true, Ordering::SeqCst);
            readers.into_iter().for_each(|reader| reader.join().expect("never half"));
        });
    }

    #[test]
    fn an_instant_is_over_when_a_commit_is_announced() {
        let instants = Instants::default();
        let before = instants.begin();
        assert!(before.is_now());
        drop(instants.announce());
        assert!(!before.is_now() && instants.begin().is_now());
    }
}
