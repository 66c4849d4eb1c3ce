//! BEGIN, COMMIT, ROLLBACK, SAVEPOINT and SET TRANSACTION.

use datafusion::sql::sqlparser::ast::{self, TransactionAccessMode, TransactionIsolationLevel, TransactionMode};
use saki_mvcc::Isolation;

use super::{Open, Scope, Transactions};
use crate::catalog::Table;
use crate::delta::Alone;
use crate::error::{Result, SqlError};
use crate::session::{Session, StatementResult, TransactionStatus};
use crate::statement::name_of;

/// An isolation level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    #[default]
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    pub(super) fn isolation(self) -> Isolation {
        match self {
            Self::ReadCommitted | Self::RepeatableRead => Isolation::Snapshot,
            Self::Serializable => Isolation::Serializable,
        }
    }

    /// Its SQL name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }

    fn of(level: TransactionIsolationLevel) -> Self {
        match level {
            // Weaker than is asked for there is nothing.
            TransactionIsolationLevel::ReadUncommitted | TransactionIsolationLevel::ReadCommitted => {
                Self::ReadCommitted
            }
            TransactionIsolationLevel::RepeatableRead | TransactionIsolationLevel::Snapshot => Self::RepeatableRead,
            TransactionIsolationLevel::Serializable => Self::Serializable,
        }
    }
}

impl Transactions {
    /// Opens a transaction of several statements.
    fn begin(&mut self, modes: &[TransactionMode]) -> Result<()> {
        match &mut self.open {
            // The statements of one message that came before belong to it.
            Some(open) => open.scope = Scope::Block,
            None => self.open = Some(Open::new(self.default_level, Scope::Block)),
        }
        self.set_modes(modes)
    }

    /// What SET TRANSACTION says.
    pub fn set_modes(&mut self, modes: &[TransactionMode]) -> Result<()> {
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        for mode in modes {
            match mode {
                TransactionMode::AccessMode(mode) => open.is_read_only = *mode == TransactionAccessMode::ReadOnly,
                TransactionMode::IsolationLevel(level) => {
                    let level = Level::of(*level);
                    if open.snapshot.is_some() && level != open.level {
                        return Err(SqlError::invalid(
                            "the isolation level is set before the first statement of a transaction",
                        )
                        .code("25001"));
                    }
                    open.level = level;
                }
            }
        }
        Ok(())
    }

    pub(super) fn has_written(&self, table: &Table) -> bool {
        self.open.as_ref().is_some_and(|open| open.gates.contains_key(&table.delta))
    }

    /// The isolation level of the open transaction, or of the next.
    pub fn level(&self) -> Level {
        self.open.as_ref().map_or(self.default_level, |open| open.level)
    }

    fn savepoint(&mut self, name: String) -> Result<()> {
        self.in_block("SAVEPOINT")?;
        self.check()?;
        let place = match self.has_begun() {
            true => Some(self.within(|transaction| transaction.savepoint())?),
            false => None,
        };
        if let Some(open) = &mut self.open {
            open.savepoints.push((name, place));
        }
        Ok(())
    }

    fn rollback_to(&mut self, name: &str) -> Result<()> {
        self.in_block("ROLLBACK TO SAVEPOINT")?;
        let place = self.find(name)?;
        if self.has_begun() {
            // One made before the first change: everything goes.
            let savepoint = self.open.as_ref().and_then(|open| open.savepoints[place].1.or(open.start));
            if let Some(savepoint) = savepoint {
                self.within(|transaction| transaction.rollback_to(savepoint))?;
            }
        }
        if let Some(open) = &mut self.open {
            open.savepoints.truncate(place + 1);
            open.is_failed = false;
        }
        Ok(())
    }

    fn release(&mut self, name: &str) -> Result<()> {
        self.in_block("RELEASE SAVEPOINT")?;
        self.check()?;
        let place = self.find(name)?;
        if let Some(open) = &mut self.open {
            open.savepoints.truncate(place);
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<usize> {
        let savepoints = self.open.iter().flat_map(|open| &open.savepoints).map(|(name, _)| name);
        savepoints
            .collect::<Vec<_>>()
            .iter()
            .rposition(|savepoint| *savepoint == name)
            .ok_or_else(|| SqlError::invalid(format!("savepoint {name:?} does not exist")).code("3B001"))
    }

    fn in_block(&self, what: &str) -> Result<()> {
        match &self.open {
            Some(open) if open.scope == Scope::Block => Ok(()),
            _ => Err(SqlError::invalid(format!("{what} can only be used in transaction blocks"))
                .code("25P01")
                .hint("BEGIN first")),
        }
    }
}

impl Session {
    /// Begins a statement that changes some tables otherwise than by a transaction.
    ///
    /// # Errors
    /// 55006 if the session's own transaction has written there; as [`crate::database::Database::alone`].
    pub(crate) async fn alone(&self, tables: Vec<String>) -> Result<Alone> {
        let snapshot = self.db.snapshot();
        self.part_message(&snapshot, &tables).await?;
        let transactions = self.transactions.lock().await;
        let is_own = |name: &&String| snapshot.catalog.get(name).is_some_and(|table| transactions.has_written(table));
        if let Some(own) = tables.iter().find(is_own) {
            return Err(SqlError::invalid(format!("table {own:?} has been written by this transaction"))
                .code("55006")
                .hint(
                    "COMMIT or ROLLBACK first: such a statement takes effect at once, and ROLLBACK does not undo it",
                ));
        }
        drop(transactions);
        self.blocking(move |db| db.alone(&tables)).await
    }

    /// Where the session is between two statements.
    pub fn transaction_status(&self) -> TransactionStatus {
        // Held by a statement: the one that runs decides what comes after it.
        self.transactions.try_lock().map_or(TransactionStatus::Open, |transactions| transactions.status())
    }

    /// The isolation level of the open transaction, or of the next, as SQL names it. `None` while a statement runs.
    pub fn isolation(&self) -> Option<&'static str> {
        self.transactions.try_lock().ok().map(|transactions| transactions.level().name())
    }

    /// Carries out a statement about the transaction; `None` if it is about something else, and may run.
    ///
    /// # Errors
    /// 25P02 after a failure.
    pub(crate) async fn control(&self, statement: &ast::Statement) -> Result<Option<StatementResult>> {
        use ast::Statement as Sql;
        let mut transactions = self.transactions.lock().await;
        transactions.settle()?;
        let tag = match statement {
            Sql::StartTransaction { modes, .. } => {
                transactions.begin(modes)?;
                "BEGIN"
            }
            Sql::Commit { chain: true, .. } | Sql::Rollback { chain: true, .. } => {
                return Err(SqlError::unsupported("AND CHAIN is not supported").hint("BEGIN again"));
            }
            Sql::Commit { .. } if transactions.status() == TransactionStatus::Failed => {
                transactions.abort();
                "ROLLBACK"
            }
            Sql::Commit { .. } => {
                let receipt = transactions.commit()?;
                drop(transactions);
                self.acknowledge(receipt).await?;
                "COMMIT"
            }
            Sql::Rollback { savepoint: Some(name), .. } => {
                transactions.rollback_to(&name_of(name))?;
                "ROLLBACK"
            }
            Sql::Rollback { .. } => {
                transactions.abort();
                "ROLLBACK"
            }
            Sql::Savepoint { name } => {
                transactions.savepoint(name_of(name))?;
                "SAVEPOINT"
            }
            Sql::ReleaseSavepoint { name } => {
                transactions.release(&name_of(name))?;
                "RELEASE"
            }
            Sql::Set(ast::Set::SetTransaction { modes, session: true, .. }) => {
                for mode in modes {
                    if let TransactionMode::IsolationLevel(level) = mode {
                        transactions.default_level = Level::of(*level);
                    }
                }
                "SET"
            }
            Sql::Set(ast::Set::SetTransaction { modes, .. }) => {
                transactions.set_modes(modes)?;
                "SET"
            }
            _ => {
                transactions.check()?;
                return Ok(None);
            }
        };
        Ok(Some(StatementResult::done(tag, 0)))
    }
}
