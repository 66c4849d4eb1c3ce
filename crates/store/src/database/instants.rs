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
//! commits are rare, and readers pay two looks at a word that seldom changes. Statements wait as futures
//! ([`Instants::calm`]), so that their threads serve others meanwhile; [`Instants::take`] is for threads that may wait.
//!
//! After the sequence locks of Linux.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

/// Counts the commits of rows and catalog together.
#[derive(Default, Debug)]
pub struct Instants {
    /// Odd while there is one.
    count: AtomicU64,
    /// Held by whoever commits so.
    turn: Mutex<()>,
    /// Futures that wait for its end.
    waiting: Mutex<Vec<Waker>>,
}

/// Ready when no commit is announced; another may be by the time it is asked.
#[must_use = "it waits when it is polled"]
pub struct Calm<'i>(&'i Instants);

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

    /// Now, unless a commit is announced.
    #[inline]
    pub fn begin(&self) -> Option<Instant<'_>> {
        let count = self.count.load(Ordering::SeqCst);
        count.is_multiple_of(2).then_some(Instant { instants: self, count })
    }

    /// Waits until no commit is announced.
    pub fn calm(&self) -> Calm<'_> {
        Calm(self)
    }

    /// What `take` asks for at one instant; `None` if that was not one.
    #[inline]
    pub fn try_take<T>(&self, take: impl FnOnce() -> T) -> Option<T> {
        let instant = self.begin()?;
        let taken = take();
        instant.is_now().then_some(taken)
    }

    /// What `take` asks for at one instant; it is asked again if a commit has come in between. Waits.
    pub fn take<T>(&self, mut take: impl FnMut() -> T) -> T {
        loop {
            if let Some(taken) = self.try_take(&mut take) {
                return taken;
            }
            drop(self.turn.lock());
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
        // Only now: whoever enters itself later looks at the count once more.
        let waiting = std::mem::take(&mut *self.instants.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Future for Calm<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.begin().is_some() {
            return Poll::Ready(());
        }
        self.0.waiting.lock().push(cx.waker().clone());
        // The commit may have ended before it would have found the waker.
        if self.0.begin().is_some() { Poll::Ready(()) } else { Poll::Pending }
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
        let before = instants.begin().expect("none is announced");
        assert!(before.is_now());
        drop(instants.announce());
        assert!(!before.is_now() && instants.begin().is_some_and(|now| now.is_now()));
    }

    #[test]
    fn futures_that_wait_for_a_commit_are_woken_by_its_end() {
        struct Counted(AtomicU64);
        impl std::task::Wake for Counted {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let (instants, woken) = (Instants::default(), std::sync::Arc::new(Counted(AtomicU64::new(0))));
        let waker = Waker::from(std::sync::Arc::clone(&woken));
        let poll = |calm: &mut Calm<'_>| Pin::new(calm).poll(&mut Context::from_waker(&waker));
        assert!(poll(&mut instants.calm()).is_ready());
        let announced = instants.announce();
        let (mut one, mut other) = (instants.calm(), instants.calm());
        assert!(poll(&mut one).is_pending() && poll(&mut other).is_pending());
        assert!(instants.begin().is_none() && instants.try_take(|| ()).is_none());
        drop(announced);
        assert_eq!(woken.0.load(Ordering::SeqCst), 2);
        assert!(poll(&mut one).is_ready() && instants.waiting.lock().is_empty());
        assert!(instants.try_take(|| drop(instants.announce())).is_none(), "one has come in between");
    }
}
