//! The engine beside the volume: where its logs lie, and which of its tables is whose delta.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use saki_base::TableId;
use saki_mvcc::RecoveryReport;
use serde::{Deserialize, Serialize};

use super::{Delta, Gates, definition, mvcc_error};
use crate::catalog::{Catalog, Table};
use crate::error::{Result, SqlError};

/// What the catalog says of the logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogState {
    /// Which logs are this database's; `None`: it has none, its base is all there is.
    pub database: Option<u64>,
    pub logs: usize,
    /// The base has every transaction up to this timestamp.
    pub merged_through: u64,
}

/// Where the logs of the database at `path` lie unless told otherwise: `<path>.log`.
pub fn log_directory(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(".log");
    PathBuf::from(name)
}

/// The in-memory engine of one database.
pub struct Engine {
    pub database: saki_mvcc::Database,
    deltas: Mutex<HashMap<TableId, Weak<Delta>>>,
    /// How many have been made.
    sessions: AtomicUsize,
    /// Of a segment of a log.
    pub segment_bytes: u64,
    gates: Arc<Gates>,
}

impl Engine {
    /// Opens the logs that the catalog speaks of and brings back what the base does not have.
    pub fn recover(
        directory: &Path,
        state: LogState,
        catalog: &Catalog,
        gates: Arc<Gates>,
        progress: &(dyn Fn(saki_mvcc::Progress) + Sync),
    ) -> Result<Self> {
        let database = state.database.ok_or_else(|| SqlError::internal("logs without an identity"))?;
        if !directory.is_dir() {
            return Err(SqlError::storage(format!(
                "{}: the logs of the database are not there, and they have changes that its base has not",
                directory.display()
            ))
            .hint("a database is moved together with its directory of logs"));
        }
        Self::open(directory, database, state, catalog, gates, progress)
    }

    /// Makes new logs, which begin behind what has been merged.
    pub fn create(directory: &Path, state: LogState, catalog: &Catalog, gates: Arc<Gates>) -> Result<Self> {
        let failed = |error: std::io::Error| SqlError::storage(format!("{}: {error}", directory.display()));
        if directory.exists() {
            // Of a time before the base became all there is.
            std::fs::remove_dir_all(directory).map_err(failed)?;
        }
        std::fs::create_dir_all(directory).map_err(failed)?;
        let database = state.database.ok_or_else(|| SqlError::internal("logs without an identity"))?;
        Self::open(directory, database, state, catalog, gates, &|_| {})
    }

    fn open(
        directory: &Path,
        database: u64,
        state: LogState,
        catalog: &Catalog,
        gates: Arc<Gates>,
        progress: &(dyn Fn(saki_mvcc::Progress) + Sync),
    ) -> Result<Self> {
        let mut known = saki_mvcc::Catalog::in_memory(database, state.logs);
        for table in catalog.tables() {
            known.define(table.delta, definition(table), table.merged_through).map_err(mvcc_error)?;
        }
        let devices = saki_mvcc::open_log_devices(directory, state.logs).map_err(mvcc_error)?;
        let options = saki_mvcc::Options { after: Some(state.merged_through), ..saki_mvcc::Options::default() };
        let segment_bytes = options.log.segment_bytes;
        let database = saki_mvcc::Database::open_on(known, devices, options, progress).map_err(mvcc_error)?;
        Ok(Self { database, deltas: Mutex::default(), sessions: AtomicUsize::new(0), segment_bytes, gates })
    }

    /// Transactions of one SQL session. Sessions take turns with the logs.
    pub fn session(&self) -> Result<saki_mvcc::Session> {
        let log = self.sessions.fetch_add(1, Ordering::Relaxed) % self.database.logs();
        self.database.session_on(log).map_err(mvcc_error)
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
            None => self.database.define_table(table.delta, definition(table)).map_err(mvcc_error)?,
        };
        let delta = Arc::new(Delta::new(&self.database, rows, table, self.gates.of(table.id))?);
        deltas.retain(|_, delta| delta.strong_count() > 0);
        deltas.insert(table.delta, Arc::downgrade(&delta));
        Ok(delta)
    }
}

impl crate::database::Database {
    /// Makes ready for changes by transactions: logs are made if there are none. Waits.
    ///
    /// # Errors
    /// Of storage; if the database was opened for reading only.
    pub fn start_engine(&self) -> Result<()> {
        self.engine().map(drop)
    }

    /// What was brought back from the logs when the database was opened; `None` if there were none.
    pub fn recovery(&self) -> Option<RecoveryReport> {
        self.engine.get().map(|engine| engine.database.recovery().clone())
    }

    /// The engine; starts it if this is the first change that goes to a delta. Waits, so it belongs on a thread that may.
    pub(crate) fn engine(&self) -> Result<&Engine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        self.write(|writer| {
            if self.engine.get().is_some() {
                return Ok(());
            }
            writer.renew_deltas();
            let state = LogState {
                database: Some(random()),
                logs: saki_mvcc::Options::default().placement.logs(),
                merged_through: writer.catalog.logs.merged_through,
            };
            writer.starting =
                Some(Engine::create(&self.log_directory, state, &writer.catalog, Arc::clone(&self.gates))?);
            writer.catalog.logs = state;
            Ok(())
        })?;
        self.tend_in_background()?;
        self.engine.get().ok_or_else(|| SqlError::internal("the engine did not start"))
    }
}

/// A number that no other database has.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
