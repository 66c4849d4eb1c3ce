//! Deltas become base, and the logs go.
//!
//! ```text
//!   cut begins ─► M ─► read at T ≥ M ─► T durable ─► merge all tables ─► publish, "merged through M" ─► logs cut at M
//!                                                    (one publication)                                       │
//!      rows up to M leave memory, once nobody holds an older generation ◄────────────────────────────────────┘
//! ```
//!
//! A crash before the publication leaves the old base and whole logs; one after it leaves logs that are passed by up to
//! M. What was committed between M and T is in the base and in the logs as well: replaying it gives the same rows.

mod alone;
mod background;
mod follow;
mod room;
mod still;

#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use saki_base::planted::{self, Fault};
use saki_mvcc::{Reader, Receipt};

use crate::database::{Database, Release};
use crate::delta::{Delta, Engine};
use crate::locks::Stop;
use crate::merge::{ChangeSource, KeyChange, MergeReport, Pace, merge};
use crate::reader::{Eyes, NewerRows};
use crate::writer::Writer;
use saki_catalog::{Result, SqlError, Table};

pub use self::alone::Alone;
pub use self::follow::{Follower, Moment};
pub use self::still::{LogRange, Still, StillLogs};

/// All keys.
pub(crate) const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

/// What a checkpoint did.
#[derive(Clone, Debug, Default)]
pub struct CheckpointReport {
    /// Each table that had changes, and what became of them.
    pub tables: Vec<(String, MergeReport)>,
    /// Logs were cut up to this timestamp.
    pub through: u64,
    pub seconds: f64,
}

impl Database {
    /// Merges all deltas into their bases and cuts the logs. Queries and transactions go on meanwhile.
    ///
    /// # Errors
    /// Of storage: then everything is as it was, and the deltas stay in memory and in the logs.
    pub fn checkpoint(&self, pace: &Pace) -> Result<CheckpointReport> {
        self.checkpoint_unless(pace, &Stop::default())
    }

    /// The same, unless it is told to stop.
    ///
    /// # Errors
    /// 57014 then, 55P03 if its patience is over before its turn; of storage. Then everything is as it was.
    pub fn checkpoint_unless(&self, pace: &Pace, stop: &Stop) -> Result<CheckpointReport> {
        let Some(engine) = self.engine.get() else { return Ok(CheckpointReport::default()) };
        let mut releases = stop.turn(&self.checkpoints)?;
        let began = Instant::now();
        let through = engine.database.begin_cut();
        let moment = engine.database.moment()?;
        wait_durable(engine, moment.timestamp())?;
        let mut report = CheckpointReport { through, ..CheckpointReport::default() };
        if planted::is(Fault::LogsCutEarly) {
            engine.database.finish_cut(through);
        }
        self.write_unless(stop, |writer| {
            writer.of_logs = true;
            // Tables that came with rows, after the moment was taken or before, are in this one.
            let before = Arc::clone(writer.before());
            let tables: Vec<Arc<Table>> = writer.catalog.tables().map(Arc::clone).collect();
            for table in tables {
                let Some(delta) = before.delta(&table) else { continue };
                if table.merged_through > moment.timestamp() {
                    // Its statement alone has merged it since, and given it a delta that is newer than the moment.
                    continue;
                }
                let reader = moment.reader()?;
                let merged = merge_table(writer, &table, delta, reader, through, pace)?;
                if merged.rows > 0 {
                    report.tables.push((table.name.clone(), merged));
                }
            }
            writer.catalog.logs.merged_through = through;
            Ok(())
        })?;
        self.cut_logs(engine, through);
        releases.push(Release { through, older: self.older_generations() });
        report.seconds = began.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Gives back the memory of rows that are in the base for everybody.
    pub fn release_merged(&self) -> Result<()> {
        let Some(engine) = self.engine.get() else { return Ok(()) };
        let mut releases = self.checkpoints.lock();
        while releases.first().is_some_and(|release| !release.is_held()) {
            let release = releases.remove(0);
            engine.release_marks(release.through)?;
            let generation = self.generation();
            for table in generation.catalog.tables().filter(|table| !table.resident) {
                if let Some(delta) = generation.delta(table).filter(|delta| delta.rows() > 0) {
                    engine.database.release(&delta.rows, release.through)?;
                }
            }
        }
        Ok(())
    }
}

fn wait_durable(engine: &Engine, timestamp: u64) -> Result<()> {
    engine.database.wait(Receipt { timestamp: None, through: timestamp }).map_err(SqlError::from)
}

impl<E: Eyes> ChangeSource for NewerRows<'_, E> {
    fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
        Ok(self.take())
    }
}

/// Moves what a reader sees of a delta into the base; the base then has every transaction `through` that timestamp.
fn merge_table(
    writer: &mut Writer<'_>,
    table: &Table,
    delta: &Delta,
    reader: Reader,
    through: u64,
    pace: &Pace,
) -> Result<MergeReport> {
    let mut changes = NewerRows::new(&reader, delta.rows.newer_than(table.merged_through), ALL);
    // A table that nobody has changed stays as it is, document and all: that the base has every transaction on it is as
    // true of the earlier timestamp.
    if changes.peek().is_none() {
        return Ok(MergeReport::default());
    }
    let report = merge(writer, &table.name, &mut changes, pace)?;
    let mut table = Table::clone(writer.catalog.table(&table.name)?);
    table.merged_through = table.merged_through.max(through);
    writer.catalog.put(table);
    Ok(report)
}
