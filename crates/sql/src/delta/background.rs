//! Checkpoints that nobody asked for: when deltas or logs have grown, and at the end.

use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::LogState;
use crate::database::Database;
use crate::error::{Result, SqlError};
use crate::merge::Pace;

/// Between two looks at how much has gathered.
const INTERVAL: Duration = Duration::from_millis(250);

/// The thread that merges in the background; it ends with the database.
pub(crate) struct Checkpointer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub fn start(database: Weak<Database>) -> Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("checkpointer".into())
            .spawn(move || run(&database, &stopped))
            .map_err(|error| SqlError::storage(format!("a thread for checkpoints: {error}")))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The last handle of the database may be the thread's own.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

fn run(database: &Weak<Database>, stopped: &Receiver<()>) {
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let Some(database) = database.upgrade() else { return };
        if let Err(error) = database.tend() {
            tracing::error!("a checkpoint failed; changes stay in memory and in the logs: {error}");
        }
    }
}

impl Database {
    /// Does what has become due.
    fn tend(&self) -> Result<()> {
        self.release_merged()?;
        let Some(engine) = self.engine.get() else { return Ok(()) };
        let snapshot = self.snapshot();
        let bytes: u64 = snapshot.deltas.values().map(|delta| delta.rows.bytes()).sum();
        let segments: u64 = engine.database.log_statistics().iter().map(|log| log.segments_live).sum();
        let logged = segments * engine.segment_bytes;
        if bytes >= self.options.delta_bytes || logged >= self.options.log_bytes {
            let report = self.checkpoint(&Pace::beside_queries())?;
            tracing::info!(through = report.through, seconds = report.seconds, "checkpoint");
        }
        Ok(())
    }

    /// Merges everything and lets go of the logs, so that the database is one file again. For when nobody else has it open in this
    /// process; transactions that are open are lost.
    ///
    /// # Errors
    /// Of storage: then the logs stay, and the next to open the database reads them.
    pub fn close(&self) -> Result<()> {
        let Some(engine) = self.engine.get() else { return Ok(()) };
        let report = self.checkpoint(&Pace::full())?;
        let is_all = engine.database.now() == report.through;
        if !is_all {
            return Ok(());
        }
        self.write(|writer| {
            writer.catalog.logs = LogState { database: None, logs: 0, merged_through: report.through };
            Ok(())
        })?;
        engine.database.clone().close().map_err(super::mvcc_error)?;
        std::fs::remove_dir_all(&self.log_directory)
            .map_err(|error| SqlError::storage(format!("{}: {error}", self.log_directory.display())))
    }
}
