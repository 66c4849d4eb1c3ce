//! The engine beside the base: started by the first change that goes to a delta.

use saki_mvcc::RecoveryReport;

use crate::database::Database;
use crate::delta::Engine;
use crate::locks::Stop;
use saki_catalog::{LogState, Result, SqlError};

impl Database {
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

    /// The engine; starts it if this is the first change that goes to a delta. Waits, so it belongs on a thread that
    /// may.
    pub fn engine(&self) -> Result<&Engine> {
        self.engine_unless(&Stop::default())
    }

    /// The same, unless it is told to stop before it has started it.
    ///
    /// # Errors
    /// 57014 then, 55P03 if its patience is over before its turn; of storage.
    pub fn engine_unless(&self, stop: &Stop) -> Result<&Engine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        self.write_unless(stop, |writer| {
            if self.engine.get().is_some() {
                return Ok(());
            }
            writer.renew_deltas();
            let state = LogState {
                database: Some(random()),
                logs: self.options.logs.unwrap_or_else(|| saki_mvcc::Options::default().placement.logs()),
                ..writer.catalog.logs
            };
            let of_table = self.of_table.clone();
            let log = self.options.of_logs();
            let made = Engine::create(&*self.logs, state, &writer.catalog, of_table, self.page_size(), log)?;
            writer.starting = Some(made);
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
