//! A moment of the database, held so that it can be copied: a generation, and the logs over it up to a durable horizon.
//!
//! ```text
//!   no checkpoint ─► generation G ─► horizon T ─► G is the newest still ─► extents of the logs
//! ```
//!
//! It is what a crash at T could have left, and is opened in the same way. T is taken while G is the newest: no commit
//! up to T has to do with a table that G does not know, and G has no row that was not durable at T. Logs are cut by
//! checkpoints only, so as long as there is none they have all that G lacks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use saki_base::AlignedBuffer;
use saki_mvcc::LogExtent;
use saki_volume::HeldImage;

use crate::database::{Database, Release};
use crate::locks::Stop;
use saki_catalog::{LogState, Result, SqlError};

/// How long is waited for a moment in which nothing is being published.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// Which records of the logs belong to a generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRange {
    /// As the catalog of the generation has it.
    pub state: LogState,
    /// The last timestamp that counts.
    pub through: u64,
}

/// See the module's introduction. Keeps checkpoints from beginning.
pub struct Still<'a> {
    image: HeldImage,
    unlogged: u64,
    logs: Option<StillLogs<'a>>,
    _no_checkpoint: MutexGuard<'a, Vec<Release>>,
}

/// The logs of a [`Still`].
pub struct StillLogs<'a> {
    engine: &'a saki_mvcc::Database,
    range: LogRange,
    extents: Vec<LogExtent>,
}

impl Database {
    /// Holds the database as it is now: everything that has been acknowledged, and no transaction in part. Waits for a
    /// checkpoint that goes on; until this is dropped there is no other.
    ///
    /// # Errors
    /// 55006 if tables are being changed without end; if the database is open for reading only, and has logs; of
    /// storage.
    pub fn still(&self) -> Result<Still<'_>> {
        self.still_unless(&Stop::default())
    }

    /// The same, unless it is told to stop before.
    ///
    /// # Errors
    /// 57014 then, 55P03 if its patience is over before its turn; as [`Self::still`].
    pub fn still_unless(&self, stop: &Stop) -> Result<Still<'_>> {
        let no_checkpoint = stop.turn(&self.checkpoints)?;
        let until = Instant::now() + PATIENCE;
        loop {
            let generation = self.generation();
            let state = generation.catalog.logs;
            let engine = self.engine.get().map(|engine| &engine.database);
            let image = self.volume.hold_image();
            let through = engine.map_or(0, |engine| engine.durable());
            let is_newest = Arc::ptr_eq(&generation, &self.generation());
            if is_newest && image.image().root == generation.guard.root() {
                let logs = match (state.database, engine) {
                    (None, _) => None,
                    (Some(_), Some(engine)) => {
                        let extents = engine.log_extents()?;
                        Some(StillLogs { engine, range: LogRange { state, through }, extents })
                    }
                    (Some(_), None) => {
                        return Err(SqlError::invalid(
                            "the database is open for reading only, and has changes in its logs",
                        )
                        .code("25006")
                        .hint("open it without read-only"));
                    }
                };
                return Ok(Still { image, unlogged: generation.unlogged, logs, _no_checkpoint: no_checkpoint });
            }
            if Instant::now() > until {
                return Err(SqlError::invalid("the database's tables are being changed without end")
                    .code("55006")
                    .hint("do it again when fewer tables are made and dropped"));
            }
            stop.check()?;
            std::thread::sleep(PAUSE);
        }
    }
}

impl<'a> Still<'a> {
    pub fn image(&self) -> &HeldImage {
        &self.image
    }

    /// [`crate::Generation::unlogged`] of the generation.
    pub fn unlogged(&self) -> u64 {
        self.unlogged
    }

    /// `None`: there are none, the generation is all there is.
    pub fn logs(&self) -> Option<&StillLogs<'a>> {
        self.logs.as_ref()
    }

    /// Lets checkpoints go on: the logs have been copied.
    pub fn into_image(self) -> HeldImage {
        self.image
    }
}

impl StillLogs<'_> {
    pub fn range(&self) -> LogRange {
        self.range
    }

    /// In the order of logs, and of each log's extents.
    pub fn extents(&self) -> &[LogExtent] {
        &self.extents
    }

    /// `length` bytes of an extent from `offset` on, whole blocks of 4096; `None` if nobody needs it.
    ///
    /// # Errors
    /// Of storage.
    pub fn read(&self, extent: &LogExtent, offset: u64, length: usize) -> Result<Option<AlignedBuffer>> {
        Ok(self.engine.read_log_extent(extent, offset, length)?)
    }
}
