//! Deltas become base, and the logs go.
//!
//! ```text
//!   cut begins ─► M ─► view at T ≥ M ─► T durable ─► merge all tables ─► publish, "merged through M" ─► logs cut at M
//!                                                    (one publication)                                       │
//!      rows up to M leave memory, once nobody holds an older generation ◄────────────────────────────────────┘
//! ```
//!
//! A crash before the publication leaves the old base and whole logs; one after it leaves logs that are passed by up to M. What was
//! committed between M and T is in the base and in the logs as well: replaying it gives the same rows.

use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Weak};
use std::time::Instant;

use saki_base::TableId;
use saki_mvcc::{Direction, KeyRange, Reader, Receipt};
use tokio::sync::OwnedRwLockWriteGuard;

use super::gates::close;
use super::{Delta, Engine, mvcc_error};
use crate::catalog::Table;
use crate::database::Database;
use crate::error::{Result, SqlError};
use crate::merge::{ChangeSource, KeyChange, MergeReport, Pace, merge};
use crate::snapshot::Snapshot;
use crate::writer::Writer;

/// Changes taken out of a delta at a time.
const CHANGES: usize = 4096;
/// What a checkpoint did.
#[derive(Clone, Debug, Default)]
pub struct CheckpointReport {
    /// Each table that had changes, and what became of them.
    pub tables: Vec<(String, MergeReport)>,
    /// Logs were cut up to this timestamp.
    pub through: u64,
    pub seconds: f64,
}

/// Rows that may leave memory once nobody reads a generation that lacks them.
pub(crate) struct Release {
    through: u64,
    older: Vec<Weak<Snapshot>>,
}

impl Database {
    /// Merges all deltas into their bases and cuts the logs. Queries and transactions go on meanwhile.
    ///
    /// # Errors
    /// Of storage: then everything is as it was, and the deltas stay in memory and in the logs.
    pub fn checkpoint(&self, pace: &Pace) -> Result<CheckpointReport> {
        let Some(engine) = self.engine.get() else { return Ok(CheckpointReport::default()) };
        let mut releases = self.checkpoints.lock();
        let began = Instant::now();
        let through = engine.database.begin_cut();
        let moment = engine.database.view().map_err(mvcc_error)?;
        wait_durable(engine, moment.timestamp())?;
        let mut report = CheckpointReport { through, ..CheckpointReport::default() };
        let before = self.snapshot();
        self.write(|writer| {
            let tables: Vec<Arc<Table>> = writer.catalog.tables().map(Arc::clone).collect();
            for table in tables {
                let Some(delta) = before.delta(&table) else { continue };
                let reader = moment.reader().map_err(mvcc_error)?;
                let merged = merge_table(writer, &table, delta, reader, through, pace)?;
                if merged.rows > 0 {
                    report.tables.push((table.name.clone(), merged));
                }
            }
            writer.catalog.logs.merged_through = through;
            Ok(())
        })?;
        engine.database.finish_cut(through);
        releases.push(Release { through, older: self.older_snapshots() });
        report.seconds = began.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Gives back the memory of rows that are in the base for everybody.
    pub(crate) fn release_merged(&self) -> Result<()> {
        let Some(engine) = self.engine.get() else { return Ok(()) };
        let mut releases = self.checkpoints.lock();
        let is_held = |release: &Release| release.older.iter().any(|snapshot| snapshot.strong_count() > 0);
        while releases.first().is_some_and(|release| !is_held(release)) {
            let release = releases.remove(0);
            let snapshot = self.snapshot();
            for table in snapshot.catalog.tables().filter(|table| !table.resident) {
                if let Some(delta) = snapshot.delta(table) {
                    engine.database.release(&delta.rows, release.through).map_err(mvcc_error)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps transactions from writing to some tables, and merges what their deltas have: from here on what they are is their base.
    /// Waits, so it belongs on a thread that may.
    ///
    /// # Errors
    /// 55P03 if a transaction that has written there does not end; of storage.
    pub(crate) fn alone(&self, tables: &[String]) -> Result<Alone> {
        let alone = self.close_gates(tables)?;
        let Some(engine) = self.engine.get() else { return Ok(alone) };
        let current = self.snapshot();
        let moment = engine.database.view().map_err(mvcc_error)?;
        let mut changed = Vec::new();
        for table in tables.iter().filter_map(|name| current.catalog.get(name)) {
            let Some(delta) = current.delta(table) else { continue };
            let reader = moment.reader().map_err(mvcc_error)?;
            let is_changed = DeltaChanges::new(&reader, delta, 0).next()?.is_some();
            if is_changed {
                changed.push((Arc::clone(table), delta, reader));
            }
        }
        if changed.is_empty() {
            return Ok(alone);
        }
        wait_durable(engine, moment.timestamp())?;
        self.write(|writer| {
            for (table, delta, reader) in changed {
                merge_table(writer, &table, delta, reader, moment.timestamp(), &Pace::full())?;
                // What is in the delta still would hide what comes to be in the base.
                let mut table = Table::clone(writer.catalog.table(&table.name)?);
                table.delta = writer.catalog.new_table_id();
                writer.catalog.put(table);
            }
            Ok(())
        })?;
        Ok(alone)
    }

    fn close_gates(&self, tables: &[String]) -> Result<Alone> {
        let snapshot = self.snapshot();
        // In one order, so that two statements do not wait for each other.
        let mut ids: Vec<(TableId, &String)> =
            tables.iter().filter_map(|name| Some((snapshot.catalog.get(name)?.id, name))).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut closed = Vec::with_capacity(ids.len());
        for (id, name) in ids {
            closed.push(close(self.gates.of(id)).ok_or_else(|| {
                SqlError::invalid(format!("table {name:?} is being written by a transaction that does not end"))
                    .code("55P03")
                    .hint("end transactions that wrote to it, then repeat the statement")
            })?);
        }
        Ok(Alone(closed))
    }
}

/// Keeps transactions from writing to some tables for as long as it lives.
pub(crate) struct Alone(#[expect(dead_code, reason = "held")] Vec<OwnedRwLockWriteGuard<()>>);

fn wait_durable(engine: &Engine, timestamp: u64) -> Result<()> {
    engine.database.wait(Receipt { timestamp: None, through: timestamp }).map_err(mvcc_error)
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
    let mut changes = DeltaChanges::new(&reader, delta, table.merged_through);
    let report = merge(writer, &table.name, &mut changes, pace)?;
    let mut table = Table::clone(writer.catalog.table(&table.name)?);
    table.merged_through = through;
    table.next_row_id = table.next_row_id.max(delta.next_row_id());
    writer.catalog.put(table);
    Ok(report)
}

/// What a delta has that is later than some timestamp, by key.
struct DeltaChanges<'r> {
    reader: &'r Reader,
    rows: &'r saki_mvcc::Table,
    since: u64,
    taken: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    at: usize,
    is_over: bool,
}

impl<'r> DeltaChanges<'r> {
    fn new(reader: &'r Reader, delta: &'r Delta, since: u64) -> Self {
        Self { reader, rows: &delta.rows, since, taken: Vec::new(), at: 0, is_over: false }
    }

    fn take_more(&mut self) {
        let last = self.taken.last().map(|(key, _)| key.clone());
        let low = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = KeyRange::between(low, Bound::Unbounded);
        self.taken.clear();
        self.at = 0;
        self.reader.scan(self.rows, &range, Direction::Forward, |key, body, begin| {
            if begin.is_none_or(|begin| begin > self.since) {
                self.taken.push((key.to_vec(), body.map(<[u8]>::to_vec)));
            }
            if self.taken.len() < CHANGES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.is_over = self.taken.len() < CHANGES;
    }
}

impl ChangeSource for DeltaChanges<'_> {
    fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
        if self.at == self.taken.len() && !self.is_over {
            self.take_more();
        }
        let change = self.taken.get(self.at);
        self.at += 1;
        Ok(change.map(|(key, row)| (key.as_slice(), row.as_deref())))
    }
}
