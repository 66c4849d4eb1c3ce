//! A session's transactions as its statements share them, and what they wait for: other transactions, durable logs,
//! tables.

use std::sync::Arc;
use std::time::Duration;

use saki_mvcc::{Holder, Receipt};
use saki_parameters::Parameters;
use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard, TryLockError, oneshot};

use super::deferred::DeferredCheck;
use super::level::Level;
use super::locking::{Locked, SessionLocks};
use super::state::{TransactionStatus, Transactions};
use crate::database::{Behalf, Database, SessionDraft};
use saki_catalog::{KeyId, Result, SqlError, Table};
use saki_store::locks::{LockMode, LockOwner, Policy};
use saki_store::{Generation, Stop};

/// The transactions of one session. A statement holds them while it changes rows.
pub struct SessionTransactions {
    pub(super) db: Arc<Database>,
    state: Arc<Mutex<Transactions>>,
    pub(super) locks: Arc<SessionLocks>,
    draft: Arc<SessionDraft>,
}

impl SessionTransactions {
    /// `draft` and `parameters` are the session's.
    pub fn new(db: Arc<Database>, draft: Arc<SessionDraft>, parameters: &Arc<Parameters>) -> Self {
        let locks = SessionLocks::new(db.locks(), parameters);
        let state = Transactions::new(Arc::clone(&locks), Arc::clone(&draft), Arc::clone(parameters));
        Self { db, state: Arc::new(Mutex::new(state)), locks, draft }
    }

    pub(super) fn state(&self) -> Arc<Mutex<Transactions>> {
        Arc::clone(&self.state)
    }

    /// The newest generation, with what the open transaction has changed of the catalog.
    ///
    /// # Errors
    /// Of the engine.
    pub fn newest(&self) -> Result<Arc<Generation>> {
        self.draft.newest(&self.db)
    }

    /// Whether the open transaction has changed the catalog.
    pub fn has_draft(&self) -> bool {
        self.draft.is_there()
    }

    /// Ends the open transaction with its effects; what is to be waited for before anybody is told.
    pub(super) async fn commit(&self, mut transactions: MutexGuard<'_, Transactions>) -> Result<Option<Receipt>> {
        if transactions.is_waiting() {
            // Whoever commits makes them first.
            return Err(SqlError::internal("a transaction is to be committed with checks that wait"));
        }
        if !transactions.has_draft() {
            return transactions.commit();
        }
        drop(transactions);
        let mut transactions = self.lock_owned().await;
        let stop = Stop::current().below().patiently(self.patience());
        // Of a commit that is under way the session hears when it has its transactions back, and nobody else asks.
        let _stop_on_drop = stop.request_on_drop();
        let ended = tokio::task::spawn_blocking(move || transactions.commit_with_draft(&stop)).await;
        ended.map_err(|error| SqlError::internal(format!("the thread of a commit: {error}")))?
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

    /// Begins a statement that changes what some tables are: keeps everybody else from using them, and brings what
    /// their deltas have to their bases.
    ///
    /// # Errors
    /// As [`Self::settled`].
    pub async fn alone(&self, tables: Vec<String>) -> Result<Locked> {
        self.settled(tables, LockMode::AccessExclusive).await
    }

    /// The same in a mode that at least keeps changes of rows out.
    ///
    /// # Errors
    /// 40001 if the transaction's snapshot has other rows than there are now; as [`Self::lock_tables`]; of storage.
    pub async fn settled(&self, tables: Vec<String>, mode: LockMode) -> Result<Locked> {
        assert!(mode.conflicts_with(LockMode::RowExclusive), "{mode} does not keep changes out");
        let wanted: Vec<_> = tables.iter().map(|name| (name.clone(), mode)).collect();
        let locked = self.lock_tables(&wanted, Policy::Wait).await?;
        if !self.outlives_statement() {
            self.db.blocking_for(self.patient(), move |db| db.bring_to_base(&tables, None)).await?;
            return Ok(locked);
        }
        locked.keep();
        self.settle_own(tables).await?;
        Ok(self.locks.begin_statement(false))
    }

    /// The same within a transaction: tables that it has not written are brought to their bases for everybody, others
    /// are built anew for itself.
    async fn settle_own(&self, tables: Vec<String>) -> Result<()> {
        self.begin_change().await?;
        let mut transactions = self.lock().await;
        let snapshot = transactions.statement_snapshot(&self.db).await?;
        let published = self.db.generation();
        let (mut shared, mut own) = (Vec::new(), Vec::new());
        for name in tables {
            let Some(table) = snapshot.generation.catalog.get(&name) else { continue };
            let has_written = transactions.has_written(table);
            let is_shared = |published: &&Arc<Table>| table.is_stored_as(published) && !has_written;
            let found = published.catalog.table_of(table.id);
            if let Some(found) = found
                && transactions.level() != Level::ReadCommitted
                && !transactions.sees_all_of(table, found, &snapshot, &published)?
            {
                return Err(SqlError::invalid(format!(
                    "could not serialize access: table {name:?} has been changed since the snapshot"
                ))
                .code("40001")
                .hint("repeat the transaction"));
            }
            match found.filter(is_shared) {
                Some(found) => shared.push(found.name.clone()),
                None => own.push(name),
            }
        }
        let me = transactions.holder();
        drop(transactions);
        let draft = Arc::clone(&self.draft);
        let settled = self.db.blocking_for(self.patient(), move |db| {
            db.bring_to_base(&shared, me)?;
            if own.is_empty() { Ok(()) } else { draft.settle(db.store(), &snapshot, &own, db.stop()) }
        });
        settled.await
    }

    /// Makes ready for a change of the catalog within a transaction. `None` outside of one: it takes effect at once.
    ///
    /// # Errors
    /// 25006 if the transaction is read only; of storage.
    pub async fn begin_change(&self) -> Result<Option<Arc<SessionDraft>>> {
        self.lock().await.refuse_read_only("such a statement")?;
        if !self.outlives_statement() {
            return Ok(None);
        }
        // From here on the transaction has a snapshot, if it keeps one.
        self.lock().await.statement_snapshot(&self.db).await?;
        Ok(Some(Arc::clone(&self.draft)))
    }

    /// Has whoever else gives a relation this name wait until the transaction has ended; by itself, for as long as what
    /// this returns lives.
    ///
    /// # Errors
    /// As [`Self::lock_tables`].
    pub async fn lock_name(&self, name: &str) -> Result<Locked> {
        let mut transactions = self.lock().await;
        let locked = transactions.statement_locks();
        transactions.lock_name(name).await?;
        Ok(locked)
    }

    /// Starts the engine if there is none.
    ///
    /// # Errors
    /// 55P03 after `lock_timeout`; of storage.
    pub async fn start_engine(&self) -> Result<()> {
        self.db.start_engine_for(self.patience()).await
    }

    /// How long the session's statements wait for what others have.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.locks.patience()
    }

    /// For work that waits no longer than that.
    pub(crate) fn patient(&self) -> Behalf {
        Behalf { patience: self.patience(), ..Behalf::default() }
    }

    /// Who holds the session's locks.
    pub(crate) fn lock_owner(&self) -> Arc<LockOwner> {
        Arc::clone(&self.locks.owner)
    }

    /// States the number by which `pg_locks` knows the session.
    pub fn set_process(&self, process: i64) {
        self.locks.owner.set_process(process);
    }

    /// Waits until another transaction has ended.
    ///
    /// # Errors
    /// 40P01 if that one waits for this; 55P03 after `lock_timeout`.
    pub(super) async fn wait_for(&self, holder: Holder) -> Result<()> {
        let me = self.lock().await.holder();
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

// What the open transaction is told about checks that wait, and asked about them.
impl SessionTransactions {
    /// Says when the open transaction checks foreign keys: these, or all. Without one nothing comes of it.
    pub async fn say_when_checked(&self, keys: Option<&[KeyId]>, deferred: bool) {
        if let Some(open) = &mut self.lock().await.open {
            open.deferred.say(keys, deferred);
        }
    }

    /// Checks that wait in the open transaction: of these keys, or all.
    pub async fn due_checks(&self, keys: Option<&[KeyId]>) -> Vec<DeferredCheck> {
        let transactions = self.lock().await;
        transactions.open.as_ref().map_or_else(Vec::new, |open| open.deferred.due(keys))
    }

    /// They have been made.
    pub async fn made_checks(&self, keys: Option<&[KeyId]>) {
        if let Some(open) = &mut self.lock().await.open {
            let may_go_back = open.may_go_back();
            open.deferred.made(keys, may_go_back);
        }
    }

    /// Refuses a statement that lays a table out anew, or takes it away, while checks of its rows wait: they know rows
    /// by their keys, and values by the types of their columns.
    ///
    /// # Errors
    /// 55006.
    pub async fn refuse_waiting(&self, command: &str, table: &Table) -> Result<()> {
        let transactions = self.lock().await;
        if !transactions.open.as_ref().is_some_and(|open| open.deferred.waits_on(table.id)) {
            return Ok(());
        }
        let name = table.bare_name();
        Err(SqlError::invalid(format!("cannot {command} {name:?} because it has pending trigger events"))
            .code("55006")
            .detail("Checks of deferred constraints wait for the end of the transaction.")
            .hint("SET CONSTRAINTS ALL IMMEDIATE makes them now."))
    }

    /// COMMIT has failed by `error`: the transaction has come to nothing; the error, once it may be told.
    pub async fn undone(&self, error: SqlError) -> SqlError {
        self.lock().await.abort();
        self.failed(error).await
    }
}
