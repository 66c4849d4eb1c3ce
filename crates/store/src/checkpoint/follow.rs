//! Who keeps what is committed elsewhere as well: the records of the logs, as they become durable.
//!
//! ```text
//!   logs     ──┬───────────────┬──────────────────────────┬──────────►
//!              │ kept elsewhere│ followed                  │ durable now
//!    cut up to ┘               └─ Follower::records ───────┘
//! ```
//!
//! Of a generation and the records behind it a later moment can be made, as a recovery does, for as long as nothing is
//! published that is not in the logs ([`Generation::unlogged`]): definitions, loaded rows. Positions of sequences are
//! not in the logs, and told with the moment.
//!
//! [`Generation::unlogged`]: crate::Generation::unlogged

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::MutexGuard;
use saki_base::TableId;
use saki_mvcc::{LogRecord, LogTail};

use crate::database::{Database, Release};
use crate::delta::Engine;
use saki_catalog::{Result, SequencePosition, SqlError};

/// What a follower may say of now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Everything up to this timestamp is durable, and nothing later is meant.
    pub through: u64,
    /// [`crate::Generation::unlogged`]: nobody's rows up to `through` need anything that was published later.
    pub unlogged: u64,
    /// Up to where values may have been given out to whatever has been committed.
    pub sequences: Vec<(TableId, SequencePosition)>,
}

/// See the module's introduction. The logs are not cut beyond what it has been told to be kept, until it is dropped.
pub struct Follower {
    db: Arc<Database>,
    tail: LogTail,
    /// Through this timestamp they may be cut. Relaxed: a number that only grows; who reads it too early cuts less.
    kept: Arc<AtomicU64>,
}

impl Database {
    /// Follows the logs, from what has been merged by now. Waits for a checkpoint that goes on.
    ///
    /// # Errors
    /// 55000 if nothing has been merged since the database was opened: a checkpoint helps; of storage.
    pub fn follow(&self) -> Result<Follower> {
        let db = self.me.upgrade().ok_or_else(|| SqlError::internal("a database that is gone is followed"))?;
        let engine = self.engine()?;
        // Nothing is cut between the look at what has been merged and the moment from which that counts.
        let _no_checkpoint: MutexGuard<'_, Vec<Release>> = self.checkpoints.lock();
        let merged_through = self.generation().catalog.logs.merged_through;
        let tail = engine.database.follow_logs(merged_through).map_err(|error| {
            SqlError::storage(error.to_string()).code("55000").hint("make a checkpoint, then follow")
        })?;
        let kept = Arc::new(AtomicU64::new(merged_through));
        self.followers.lock().push(Arc::downgrade(&kept));
        Ok(Follower { db, tail, kept })
    }

    /// Cuts the logs, as far as those who follow them have them.
    pub(super) fn cut_logs(&self, engine: &Engine, merged_through: u64) {
        engine.database.finish_cut(self.followed_through().min(merged_through));
    }

    /// Through where all who follow the logs have them.
    fn followed_through(&self) -> u64 {
        let mut followers = self.followers.lock();
        followers.retain(|kept| kept.strong_count() > 0);
        let kept = followers.iter().filter_map(Weak::upgrade).map(|kept| kept.load(Ordering::Relaxed));
        kept.min().unwrap_or(u64::MAX)
    }

    /// Whether the logs have more than what is not merged, for the sake of those who follow them: another merge would
    /// make them no shorter.
    pub(super) fn are_logs_followed(&self) -> bool {
        self.followed_through() < self.generation().catalog.logs.merged_through
    }

    /// Cuts the logs after a follower has gone on; unless somebody keeps them just now, who will.
    fn cut_after(&self) {
        let (Some(engine), Some(_no_checkpoint)) = (self.engine.get(), self.checkpoints.try_lock()) else { return };
        self.cut_logs(engine, self.generation().catalog.logs.merged_through);
    }
}

impl Follower {
    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }

    /// The timestamp of the next record.
    pub fn next(&self) -> u64 {
        self.tail.next()
    }

    /// The next records, in the order of their timestamps: through that one, as far as it is durable now, or until they
    /// have so many bytes.
    ///
    /// # Errors
    /// Of storage; if the logs have failed or were closed.
    pub fn records(&mut self, through: u64, bytes_max: usize) -> Result<Vec<LogRecord>> {
        Ok(self.tail.take(through, bytes_max).map_err(saki_mvcc::Error::from)?)
    }

    /// How things stand now.
    ///
    /// # Errors
    /// If the logs are gone.
    pub fn moment(&self) -> Result<Moment> {
        // In this order: whatever the rows up to there have needed has been published by then.
        let through = self.db.engine()?.database.durable();
        let generation = self.db.generation();
        let sequences = generation.catalog.sequences().map(|sequence| (sequence.id, sequence.position)).collect();
        Ok(Moment { through, unlogged: generation.unlogged, sequences })
    }

    /// Everything through this timestamp is kept elsewhere, durable.
    pub fn kept(&self, through: u64) {
        self.kept.fetch_max(through, Ordering::Relaxed);
        self.db.cut_after();
    }

    /// Bytes that the logs have on their devices.
    pub fn log_bytes(&self) -> u64 {
        let Some(engine) = self.db.engine.get() else { return 0 };
        engine.database.log_statistics().iter().map(|log| log.extents_live).sum::<u64>() * engine.extent_bytes
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.kept.store(u64::MAX, Ordering::Relaxed);
        self.db.cut_after();
    }
}
