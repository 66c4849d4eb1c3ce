//! Work that is told to stop: what it has not published by then is not published.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use saki_catalog::{Result, SqlError};

/// Tells work on another thread to stop. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_told: AtomicBool,
    /// Held while the work makes what it did visible.
    committing: Mutex<()>,
}

impl Stop {
    /// From here on the work publishes nothing more. A commit that is under way is waited for: it takes some writes to
    /// the device.
    pub fn tell(&self) {
        self.0.is_told.store(true, Ordering::SeqCst);
        drop(self.0.committing.lock());
    }

    /// Whether the work goes on. Long work asks from time to time.
    ///
    /// # Errors
    /// 57014 once it was told to stop.
    pub fn check(&self) -> Result<()> {
        match self.0.is_told.load(Ordering::SeqCst) {
            true => Err(SqlError::invalid("the statement was cancelled; nothing was changed").code("57014")),
            false => Ok(()),
        }
    }

    /// For as long as the guard lives, the work makes what it did visible, and whoever tells it to stop waits.
    ///
    /// # Errors
    /// 57014 once it was told to stop.
    pub(crate) fn commit(&self) -> Result<MutexGuard<'_, ()>> {
        let committing = self.0.committing.lock();
        self.check()?;
        Ok(committing)
    }

    /// Tells it when the guard is dropped.
    pub fn on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.clone())
    }
}

/// Tells work to stop when nobody waits for it any more.
#[must_use]
pub struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.tell();
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
