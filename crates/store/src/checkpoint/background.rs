//! Checkpoints that nobody asked for: when deltas or logs have grown, and at the end.

use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use saki_base::panics::{self, Place};

use crate::database::{Background, Database};
use crate::merge::Pace;
use saki_catalog::LogState;
use saki_catalog::Result;

/// Between two looks at how much has gathered.
const INTERVAL: Duration = Duration::from_millis(250);

/// Bytes of deltas that are merged already and stay for the sake of old readers: another merge would not release them.
#[derive(Default)]
struct Kept(u64);

impl Kept {
    /// Whether enough has come since the last merge, where deltas take `bytes` now.
    fn is_due(&mut self, bytes: u64, limit: u64) -> bool {
        // What has been released since was of the kept.
        self.0 = self.0.min(bytes);
        bytes - self.0 >= limit
    }

    /// Everything has been merged, and `bytes` are there still.
    fn merged(&mut self, bytes: u64) {
        self.0 = bytes;
    }
}

fn run(database: &Weak<Database>, stopped: &Receiver<()>) {
    let mut kept = Kept::default();
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let Some(database) = database.upgrade() else { return };
        panics::pass(Place::Checkpointer);
        if let Err(error) = database.tend(&mut kept) {
            tracing::error!("a checkpoint failed; changes stay in memory and in the logs: {error}");
        }
    }
}

impl Database {
    /// Begins to merge deltas in the background, if that has not begun.
    pub fn tend_in_background(&self) -> Result<()> {
        if self.background.get().is_none() {
            let database = Weak::clone(&self.me);
            let _ = self.background.set(Background::start("checkpointer", move |stopped| run(&database, stopped))?);
        }
        Ok(())
    }

    /// Does what has become due.
    fn tend(&self, kept: &mut Kept) -> Result<()> {
        self.release_merged()?;
        if !self.abandoned.lock().is_empty() && self.writable().is_ok() {
            self.write(|writer| {
                writer.of_logs = true;
                Ok(())
            })?;
        }
        let Some(engine) = self.engine.get() else { return Ok(()) };
        if !self.has_room() {
            // Those who would commit wait, and what has just been released waits for a later commit.
            engine.database.let_time_pass()?;
        }
        // What sessions keep that do nothing.
        if let Err(error) = engine.database.sweep() {
            tracing::debug!("what nobody sees any more is not freed yet: {error}");
        }
        let bytes = || self.generation().deltas.values().map(|delta| delta.rows.bytes()).sum::<u64>();
        let extents: u64 = engine.database.log_statistics().iter().map(|log| log.extents_live).sum();
        let logged = extents * engine.extent_bytes;
        self.count_resident();
        // Before writers have to wait for it.
        let due = self.options.delta_bytes.min(self.options.delta_limit_bytes / 4);
        let logs_are_due = logged >= self.options.log_bytes && !self.are_logs_followed();
        if kept.is_due(bytes(), due) || logs_are_due {
            let report = self.checkpoint(&Pace::beside_queries())?;
            kept.merged(bytes());
            tracing::info!(through = report.through, seconds = report.seconds, "checkpoint");
        }
        Ok(())
    }

    /// Merges everything and lets go of the logs, so that the database is one file again. For when nobody else has it
    /// open in this process; transactions that are open are lost.
    ///
    /// # Errors
    /// Of storage: then the logs stay, and the next to open the database reads them.
    pub fn close(&self) -> Result<()> {
        self.end_logs()?;
        self.tier.stop();
        self.keep_hints()
    }

    fn end_logs(&self) -> Result<()> {
        let Some(engine) = self.engine.get() else { return Ok(()) };
        let report = self.checkpoint(&Pace::full())?;
        let is_all = engine.database.now() == report.through;
        if !is_all {
            return Ok(());
        }
        self.write(|writer| {
            writer.catalog.logs = LogState { merged_through: report.through, ..LogState::default() };
            Ok(())
        })?;
        engine.database.clone().close()?;
        self.logs.remove()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_old_readers_keep_is_not_merged_again_and_again() {
        let mut kept = Kept::default();
        assert!(!kept.is_due(63, 64) && kept.is_due(64, 64));
        // Nothing can be released: as much again has to come.
        kept.merged(70);
        assert!(!kept.is_due(70, 64) && !kept.is_due(133, 64) && kept.is_due(134, 64));
        // The reader has ended.
        assert!(!kept.is_due(5, 64) && !kept.is_due(68, 64) && kept.is_due(69, 64));
    }
}
