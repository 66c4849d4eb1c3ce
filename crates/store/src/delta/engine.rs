//! The engine beside the volume: where its logs lie, and which of its tables is whose delta.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use saki_base::{PageSize, TableId};
use saki_mvcc::Range;

use super::logs::LogStore;
use super::table::{Delta, PerTable, definition};
use saki_catalog::{Catalog, LogState, Result, SqlError, Table};

/// What the logs are to bring back, and what they must know of.
pub fn range_of(state: LogState) -> Range {
    let known = state.known_through.max(state.merged_through);
    Range { after: Some(state.merged_through), known: Some(known), ..Range::default() }
}

/// The in-memory engine of one database.
pub struct Engine {
    pub database: saki_mvcc::Database,
    deltas: Mutex<HashMap<TableId, Weak<Delta>>>,
    /// How many have been made.
    runners: AtomicUsize,
    /// Of an extent of a log.
    pub extent_bytes: u64,
    of_table: PerTable,
    page_size: PageSize,
}

impl Engine {
    /// Opens the logs that the catalog speaks of and brings back what the base does not have. If they
    /// accept a loss, what of it can be read.
    ///
    /// # Errors
    /// If the logs are not there, are damaged or do not belong to the base; of storage.
    pub fn recover(
        logs: &dyn LogStore,
        state: LogState,
        catalog: &Catalog,
        of_table: PerTable,
        page_size: PageSize,
        log: saki_mvcc::LogOptions,
    ) -> Result<Self> {
        if !logs.exists() && log.accept_loss {
            logs.clear()?;
        }
        if !logs.exists() {
            return Err(SqlError::storage(format!(
                "{}: the logs of the database are not there, and they have changes that its base has not",
                logs.name()
            ))
            .hint("a database is moved together with its directory of logs"));
        }
        let Range { after, known, .. } = range_of(state);
        let options = saki_mvcc::Options { log, after, known, ..saki_mvcc::Options::default() };
        Self::open(logs, state, catalog, of_table, page_size, options)
    }

    /// Makes new logs, which begin behind what has been merged.
    pub fn create(
        logs: &dyn LogStore,
        state: LogState,
        catalog: &Catalog,
        of_table: PerTable,
        page_size: PageSize,
        log: saki_mvcc::LogOptions,
    ) -> Result<Self> {
        logs.clear()?;
        let options = saki_mvcc::Options { log, after: Some(state.merged_through), ..saki_mvcc::Options::default() };
        Self::open(logs, state, catalog, of_table, page_size, options)
    }

    fn open(
        logs: &dyn LogStore,
        state: LogState,
        catalog: &Catalog,
        of_table: PerTable,
        page_size: PageSize,
        options: saki_mvcc::Options,
    ) -> Result<Self> {
        let database = state.database.ok_or_else(|| SqlError::internal("logs without an identity"))?;
        let mut known = saki_mvcc::Catalog::in_memory(database, state.logs);
        for table in catalog.tables() {
            known.define(table.delta, definition(table, page_size), table.merged_through)?;
        }
        let devices = logs.open(state.logs)?;
        let extent_bytes = options.log.extent_bytes;
        let database = saki_mvcc::Database::open_on(known, devices, options, &|_| {})?;
        let deltas = Mutex::default();
        Ok(Self { database, deltas, runners: AtomicUsize::new(0), extent_bytes, of_table, page_size })
    }

    /// What runs the transactions of one session. Sessions take turns with the logs.
    pub fn runner(&self) -> Result<saki_mvcc::Runner> {
        let log = self.runners.fetch_add(1, Ordering::Relaxed) % self.database.logs();
        self.database.runner_on(log).map_err(SqlError::from)
    }

    /// The deltas of all tables of a catalog; those that are new begin empty.
    pub fn deltas(&self, catalog: &Catalog) -> Result<HashMap<TableId, Arc<Delta>>> {
        catalog.tables().map(|table| Ok((table.delta, self.delta(table)?))).collect()
    }

    fn delta(&self, table: &Table) -> Result<Arc<Delta>> {
        let mut deltas = self.deltas.lock();
        if let Some(delta) = deltas.get(&table.delta).and_then(Weak::upgrade) {
            return Ok(delta);
        }
        let rows = match self.database.table_of(table.delta) {
            Some(rows) => rows,
            None => self.database.define_table(table.delta, definition(table, self.page_size))?,
        };
        let delta = Arc::new(Delta::new(&self.database, rows, table, &self.of_table)?);
        deltas.retain(|_, delta| delta.strong_count() > 0);
        deltas.insert(table.delta, Arc::downgrade(&delta));
        Ok(delta)
    }
}
