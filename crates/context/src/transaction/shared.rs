//! A session's transactions as its statements share them, and what they wait for: other transactions, durable logs,
//! tables.

use std::sync::Arc;
use std::time::Duration;

use saki_mvcc::Holder;
use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard, TryLockError, oneshot};

use super::locking::{Locked, SessionLocks};
use super::state::{TransactionStatus, Transactions};
use crate::database::Database;
use saki_catalog::{Result, SqlError};
use saki_store::locks::{LockMode, Policy};

/// The transactions of one session. A statement holds them while it changes rows.
pub struct SessionTransactions {
    pub(super) db: Arc<Database>,
    state: Arc<Mutex<Transactions>>,
    pub(super) locks: Arc<SessionLocks>,
}

impl SessionTransactions {
    pub fn new(db: Arc<Database>) -> Self {
        let locks = SessionLocks::new(db.locks());
        let state = Arc::new(Mutex::new(Transactions::new(Arc::clone(&locks))));
        Self { db, state, locks }
    }

    /// Waits until no statement of the session has them.
    pub async fn lock(&self) -> MutexGuard<'_, Transactions> {
        self.state.lock().await
    }

    /// The same, for another thread.
    pub async fn lock_owned(&self) -> OwnedMutexGuard<Transactions> {
        Arc::clone(&self.state).lock_owned().await
    }

    pub fn try_lock(&self) -> Result<MutexGuard<'_, Transactions>, TryLockError> {
        self.state.try_lock()
    }

    /// Where the session is between two statements.
    pub fn status(&self) -> TransactionStatus {
        // Held by a statement: the one that runs decides what comes after it.
        self.try_lock().map_or(TransactionStatus::Open, |transactions| transactions.status())
    }

    /// The isolation level of the open transaction, or of the next, as SQL names it. `None` while a statement runs.
    pub fn isolation(&self) -> Option<&'static str> {
        self.try_lock().ok().map(|transactions| transactions.level().name())
    }

    /// Whether what a statement changes now can still be undone after it.
    pub fn outlives_statement(&self) -> bool {
        self.try_lock().map_or(true, |transactions| transactions.outlives_statement())
    }

    /// Refuses what cannot be part of a transaction.
    ///
    /// # Errors
    /// 25001 inside of one.
    pub fn outside_of_block(&self, what: &str) -> Result<()> {
        match self.outlives_statement() {
            true => Err(SqlError::invalid(format!("{what} cannot run inside a transaction block")).code("25001")),
            false => Ok(()),
        }
    }

    /// Begins a statement that changes what some tables are, and takes effect at once: keeps everybody else from using
    /// them, and brings what their deltas have to their bases.
    ///
    /// # Errors
    /// As [`Self::settled`].
    pub async fn alone(&self, tables: Vec<String>) -> Result<Locked> {
        self.settled(tables, LockMode::AccessExclusive).await
    }

    /// The same in a mode that at least keeps changes of rows out.
    ///
    /// # Errors
    /// 55006 if the session's own transaction has written there; as [`Self::lock_tables`]; of storage.
    pub async fn settled(&self, tables: Vec<String>, mode: LockMode) -> Result<Locked> {
        assert!(mode.conflicts_with(LockMode::RowExclusive), "{mode} does not keep changes out");
        let snapshot = self.db.snapshot();
        self.part_message(&snapshot, &tables).await?;
        let transactions = self.lock().await;
        let is_own = |name: &&String| snapshot.catalog.get(name).is_some_and(|table| transactions.has_written(table));
        if let Some(own) = tables.iter().find(is_own) {
            return Err(SqlError::invalid(format!("table {own:?} has been written by this transaction"))
                .code("55006")
                .hint(
                    "COMMIT or ROLLBACK first: such a statement takes effect at once, and ROLLBACK does not undo it",
                ));
        }
        drop(transactions);
        let wanted: Vec<_> = tables.iter().map(|name| (name.clone(), mode)).collect();
        let locked = self.lock_tables(&wanted, Policy::Wait).await?;
        self.db.blocking(move |db| db.bring_to_base(&tables)).await?;
        Ok(locked)
    }

    /// How long locks, and rows that others change, are waited for: `lock_timeout`. Zero: as long as it takes.
    pub fn set_lock_timeout(&self, timeout: Duration) {
        self.locks.set_timeout(timeout);
    }

    /// States the number by which `pg_locks` knows the session.
    pub fn set_process(&self, process: i64) {
        self.locks.owner.set_process(process);
    }

    /// Waits until another transaction has ended.
    ///
    /// # Errors
    /// 40P01 if that one waits for this; 55P03 after `lock_timeout`. The transaction has failed then.
    pub async fn wait_for(&self, holder: Holder) -> Result<()> {
        let mut transactions = self.lock().await;
        let waited = self.wait_as(transactions.holder(), holder).await;
        if waited.is_err() {
            transactions.fail();
        }
        waited
    }

    async fn wait_as(&self, me: Option<Holder>, holder: Holder) -> Result<()> {
        let engine = self.db.engine()?;
        let _known = self.locks.owner.wait_for_row(me, holder)?;
        let (sender, receiver) = oneshot::channel();
        let ended = move || {
            // Nobody waits any more: the statement was dropped.
            let _ = sender.send(());
        };
        // Circles of waiting transactions are looked for above, where tables are known too.
        let _waiter = engine.database.when_ended(None, holder, ended)?;
        // An error is the end of the engine, which the next attempt will meet.
        let _ = self.locks.patiently(receiver).await?;
        Ok(())
    }
}
