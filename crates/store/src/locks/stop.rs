//! Work that is told to stop, or loses its patience: what it has not published by then is not published.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use saki_catalog::{Result, SqlError};

/// Between two looks at whether work that waits is to stop.
pub const PAUSE: Duration = Duration::from_millis(5);

thread_local! {
    /// Of the statement that the thread works for just now.
    static CURRENT: RefCell<Stop> = RefCell::default();
}

/// Tells work on another thread to stop. Clones are told with it, and so is what is [below](Self::below).
#[derive(Clone, Debug, Default)]
pub struct Stop {
    state: Arc<State>,
    /// How long the work waits for its turn where one works at a time; `None`: as long as it takes.
    patience: Option<Duration>,
}

#[derive(Debug, Default)]
struct State {
    is_told: AtomicBool,
    /// Of the work that this is a part of.
    above: Option<Stop>,
    /// Held while the work makes what it did visible.
    committing: Mutex<()>,
}

impl Stop {
    /// Of work that waits for each of its turns for so long at most.
    pub fn with_patience(patience: Option<Duration>) -> Self {
        Self::default().patiently(patience)
    }

    /// The same for work that waits for each of its turns for so long at most.
    pub fn patiently(self, patience: Option<Duration>) -> Self {
        Self { patience, ..self }
    }

    /// How long the work waits for each of its turns; `None`: as long as it takes.
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Of a part of the work: told when the whole is, and by itself.
    pub fn below(&self) -> Self {
        let state = State { above: Some(self.clone()), ..State::default() };
        Self { state: Arc::new(state), patience: self.patience }
    }

    /// What tells the statement to stop that this thread works for; one that is never told, if that is none.
    pub fn current() -> Self {
        CURRENT.with_borrow(Self::clone)
    }

    /// From here on the thread works for a statement that this tells, until the guard is dropped.
    pub fn enter(&self) -> Working {
        Working(CURRENT.replace(self.clone()))
    }

    /// From here on the work publishes nothing more. A commit that is under way is waited for: it takes some writes to
    /// the device.
    pub fn tell(&self) {
        self.request();
        drop(self.state.committing.lock());
    }

    /// The same without waiting: whoever asks so learns from the work itself what has come of it. A commit that is
    /// under way comes to its end.
    pub fn request(&self) {
        self.state.is_told.store(true, Ordering::SeqCst);
    }

    fn is_told(&self) -> bool {
        self.state.is_told.load(Ordering::SeqCst) || self.state.above.as_ref().is_some_and(Self::is_told)
    }

    /// Whether the work goes on. Long work asks from time to time.
    ///
    /// # Errors
    /// 57014 once it was told to stop.
    pub fn check(&self) -> Result<()> {
        match self.is_told() {
            true => Err(SqlError::invalid("the statement was cancelled; nothing was changed").code("57014")),
            false => Ok(()),
        }
    }

    /// Whether one wait for a turn goes on, which begins now.
    pub(super) fn waiting(&self) -> impl Fn() -> Result<()> {
        let until = self.patience.map(|patience| Instant::now() + patience);
        move || {
            self.check()?;
            match until {
                Some(until) if Instant::now() >= until => Err(timed_out()
                    .detail("Another statement writes what it has built, and this one waits for its turn.")
                    .hint("try again later")),
                _ => Ok(()),
            }
        }
    }

    /// Waits for something that others do not have for ever.
    ///
    /// # Errors
    /// 57014 once it was told to stop, 55P03 when its patience is over.
    pub(crate) fn turn<'m, T>(&self, mutex: &'m Mutex<T>) -> Result<MutexGuard<'m, T>> {
        let goes_on = self.waiting();
        loop {
            if let Some(guard) = mutex.try_lock_for(PAUSE) {
                return Ok(guard);
            }
            goes_on()?;
        }
    }

    /// For as long as the guard lives, the work makes what it did visible, and whoever tells it to stop waits.
    ///
    /// # Errors
    /// 57014 once it was told to stop.
    pub(crate) fn commit(&self) -> Result<MutexGuard<'_, ()>> {
        let committing = self.state.committing.lock();
        self.check()?;
        Ok(committing)
    }

    /// Tells it when the guard is dropped.
    pub fn on_drop(&self) -> StopOnDrop {
        StopOnDrop { stop: self.clone(), waits: true }
    }

    /// Requests it when the guard is dropped.
    pub fn request_on_drop(&self) -> StopOnDrop {
        StopOnDrop { stop: self.clone(), waits: false }
    }
}

/// 55P03: `lock_timeout` is over.
pub fn timed_out() -> SqlError {
    SqlError::invalid("canceling statement due to lock timeout").code("55P03")
}

/// A thread works for a statement.
#[must_use = "dropped, the thread works for the one before"]
pub struct Working(Stop);

impl Drop for Working {
    fn drop(&mut self) {
        CURRENT.set(std::mem::take(&mut self.0));
    }
}

/// Tells work to stop when nobody waits for it any more.
#[must_use]
pub struct StopOnDrop {
    stop: Stop,
    /// For a commit that is under way.
    waits: bool,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if self.waits { self.stop.tell() } else { self.stop.request() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_told_to_stop_does_not_commit() {
        let stop = Stop::default();
        assert!(stop.check().is_ok());
        drop(stop.clone().on_drop());
        assert_eq!(stop.check().unwrap_err().sqlstate(), "57014");
        assert!(stop.commit().is_err());
    }

    #[test]
    fn a_part_stops_with_the_whole_and_the_whole_goes_on_without_it() {
        let whole = Stop::with_patience(Some(Duration::from_secs(7)));
        let (part, other) = (whole.below(), whole.below().patiently(None));
        assert_eq!((part.patience(), other.patience()), (whole.patience(), None));
        drop(part.request_on_drop());
        assert!(part.clone().check().is_err() && other.check().is_ok() && whole.check().is_ok());
        whole.request();
        assert!(other.check().is_err() && other.commit().is_err() && other.below().check().is_err());
    }

    #[test]
    fn whoever_only_requests_does_not_wait_for_a_commit_under_way() {
        let stop = Stop::default();
        let _committing = stop.commit().unwrap();
        drop(stop.request_on_drop());
        assert!(stop.check().is_err());
    }

    #[test]
    fn a_thread_works_for_the_statement_that_it_entered_last() {
        let (outer, inner) = (Stop::default(), Stop::default());
        outer.tell();
        let told = || Stop::current().check().is_err();
        let working = outer.enter();
        assert!(told());
        let within = inner.enter();
        assert!(!told());
        drop(within);
        assert!(told());
        drop(working);
        assert!(!told());
    }

    #[test]
    fn a_commit_under_way_ends_before_whoever_stops_it_goes_on() {
        let stop = Stop::default();
        let committing = stop.commit().unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                stop.tell();
                assert!(ended.load(Ordering::SeqCst), "told before the commit had ended");
            });
            std::thread::sleep(Duration::from_millis(20));
            ended.store(true, Ordering::SeqCst);
            drop(committing);
        });
    }
}
