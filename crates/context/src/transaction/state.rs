//! Where a session's transaction is, and the steps from there.

use std::sync::Arc;

use saki_base::planted::{self, Fault};
use saki_mvcc::{Holder, Receipt, Savepoint, Transaction};
use saki_parameters::{Parameters, TransactionModes, read_only};

use super::level::Level;
use super::locking::SessionLocks;
use super::open::{Access, Begun, Health, Open, Scope, Work};
use crate::database::{Database, SessionDraft};
use saki_catalog::{Result, SqlError, Table};
use saki_plan::TrackReads;
use saki_store::locks::LockMode;
use saki_store::{Delta, Generation, Snapshot, Stop};

/// Where a session is between two statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransactionStatus {
    /// No transaction is open: each statement is one.
    #[default]
    Idle,
    /// Between BEGIN and COMMIT.
    Open,
    /// A statement has failed: only ROLLBACK, or going back to a savepoint, is heard.
    Failed,
}

/// A session's transaction, if one is open, and the memory that its transactions use one after the other.
pub struct Transactions {
    pub(super) engine: Option<saki_mvcc::Runner>,
    pub(super) open: Option<Open>,
    pub(super) parameters: Arc<Parameters>,
    /// What an error rests on that tells how the last transaction ended, if it ended in vain.
    pub(super) rests_on: Option<Receipt>,
    /// The last to go: what they protect has ended by then.
    pub(super) locks: Arc<SessionLocks>,
    /// The catalog of the open transaction, if it has changed it.
    pub(super) draft: Arc<SessionDraft>,
}

impl Transactions {
    pub fn new(locks: Arc<SessionLocks>, draft: Arc<SessionDraft>, parameters: Arc<Parameters>) -> Self {
        Self { engine: None, open: None, parameters, rests_on: None, locks, draft }
    }

    /// Whether the open transaction has changed the catalog.
    #[inline]
    pub fn has_draft(&self) -> bool {
        self.draft.is_there()
    }

    /// A transaction as parameters say that it is, unless it says otherwise.
    pub(super) fn opened(&self, scope: Scope) -> Open {
        // What was set outside of transactions stays.
        self.parameters.commit();
        self.parameters.clock().begin_transaction();
        self.parameters.ask_state(|state| {
            let access = if state.effective.read_only { Access::ReadOnly } else { Access::ReadWrite };
            Open::new(Level::named(&state.effective.isolation), access, scope)
        })
    }

    /// Tells the parameters what the open transaction is.
    pub(super) fn show_modes(&self) {
        let modes =
            |open: &Open| TransactionModes { isolation: open.level.name(), read_only: open.access == Access::ReadOnly };
        self.parameters.state_transaction(self.open.as_ref().map(modes));
    }

    pub fn status(&self) -> TransactionStatus {
        match self.open.as_ref().and_then(Open::block).map(|block| block.health) {
            Some(Health::Failed) => TransactionStatus::Failed,
            Some(Health::Sound) => TransactionStatus::Open,
            None => TransactionStatus::Idle,
        }
    }

    /// Whether there is a transaction, be it of one statement.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether what a statement changes can still be undone after it.
    pub fn outlives_statement(&self) -> bool {
        self.open.as_ref().is_some_and(Open::outlives_statement)
    }

    /// A statement has failed: nothing but the end of the transaction is heard from now on.
    pub fn fail(&mut self) {
        match self.open.as_mut().and_then(Open::block_mut) {
            Some(block) => block.health = Health::Failed,
            None => self.abort(),
        }
    }

    /// Takes back what a statement did that was dropped before its end.
    pub fn settle(&mut self) -> Result<()> {
        if self.open.is_none() {
            self.parameters.commit();
        }
        let Some(Work::UnderWay(savepoint)) = self.begun_mut().map(|begun| begun.work) else {
            if !self.outlives_statement() {
                // It was only for the statement.
                self.abort();
            }
            return Ok(());
        };
        self.end_work();
        // A panic has taken all of the engine's transaction with it.
        if self.engine.as_ref().is_some_and(saki_mvcc::Runner::is_open) {
            self.within(|transaction| transaction.rollback_to(savepoint))?;
        }
        self.fail();
        Ok(())
    }

    /// Makes way for a statement that is not about the transaction itself.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn make_ready(&mut self) -> Result<()> {
        self.settle()?;
        self.check()
    }

    /// Whether a statement that is not about the transaction itself may run.
    ///
    /// # Errors
    /// 25P02 after a failure.
    pub fn check(&self) -> Result<()> {
        match &self.open {
            Some(open) if open.has_failed() => Err(SqlError::invalid(
                "current transaction is aborted, commands ignored until end of transaction block",
            )
            .code("25P02")
            .hint("ROLLBACK, or ROLLBACK TO a savepoint")),
            _ => Ok(()),
        }
    }

    /// What a statement that only reads sees.
    pub async fn snapshot(&mut self, db: &Arc<Database>) -> Result<Arc<Snapshot>> {
        let holds_snapshot =
            self.open.as_ref().is_some_and(|open| open.outlives_statement() && open.level != Level::ReadCommitted);
        if holds_snapshot || self.begun().is_some() {
            return self.statement_snapshot(db).await;
        }
        db.next_snapshot().await
    }

    /// What the next statement of the open transaction sees, which begins one that ends with the statement if none is
    /// open.
    pub async fn statement_snapshot(&mut self, db: &Arc<Database>) -> Result<Arc<Snapshot>> {
        db.start_engine_for(self.locks.patience()).await?;
        let generation = self.begin_statement(db).await?;
        let moment = self.within(|transaction| transaction.moment())??;
        Ok(Snapshot::of_transaction(generation, moment))
    }

    /// Begins a statement of the open transaction, or of one that ends with it: the generation that goes with its
    /// timestamp.
    pub(super) async fn begin_statement(&mut self, db: &Database) -> Result<Arc<Generation>> {
        loop {
            if let Some(generation) = self.try_begin_statement(db)? {
                return Ok(generation);
            }
            db.instants.calm().await;
        }
    }

    /// The same at once; `None` while rows and catalog are being committed together: then nothing has come of it, and
    /// whoever waits until that is over does so without the thread.
    ///
    /// # Errors
    /// If there is no engine yet; of the engine.
    pub fn try_begin_statement(&mut self, db: &Database) -> Result<Option<Arc<Generation>>> {
        let engine = db.engine.get().ok_or_else(not_open)?;
        if self.open.is_none() {
            self.open = Some(self.opened(Scope::Statement));
        }
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let runner = match &mut self.engine {
            Some(runner) => runner,
            None => self.engine.insert(engine.runner()?),
        };
        let Some(begun) = &mut open.begun else {
            let Some(instant) = db.instants.begin() else { return Ok(None) };
            // The generation first: see `delta`.
            let generation = db.generation();
            let transaction = runner.begin(open.level.isolation());
            if !instant.is_now() {
                transaction.abort();
                return Ok(None);
            }
            let start = transaction.savepoint();
            transaction.suspend();
            let begun = Begun { generation: Arc::clone(&generation), start, work: Work::None };
            open.begun = Some(begun);
            self.locks.owner.set_seen(generation.number());
            self.rests_on = None;
            return Ok(Some(generation));
        };
        let mut transaction = runner.resume().ok_or_else(not_open)?;
        let generation = if open.level == Level::ReadCommitted {
            let taken = db.instants.try_take(|| {
                let generation = self.draft.newest(db)?;
                transaction.refresh();
                Ok::<_, SqlError>(generation)
            });
            if let Some(Ok(generation)) = &taken {
                begun.generation = Arc::clone(generation);
                self.locks.owner.set_seen(generation.number());
            }
            taken.transpose()
        } else {
            self.draft.over(&begun.generation, transaction.snapshot()).map(Some)
        };
        transaction.suspend();
        generation
    }

    /// Has an open transaction that sees what is newest at each statement see it now, so that it holds nothing that is
    /// older.
    pub async fn renew(&mut self, db: &Database) -> Result<()> {
        match self.begun().is_some() && self.level() == Level::ReadCommitted {
            true => self.begin_statement(db).await.map(drop),
            false => Ok(()),
        }
    }

    /// Ends a statement that has done nothing, and a transaction that was only for it.
    pub fn give_up_statement(&mut self) {
        if !self.outlives_statement() {
            self.abort();
        }
    }

    /// Whether a statement that was changing rows was dropped before its end.
    pub fn is_interrupted(&self) -> bool {
        self.begun().is_some_and(|begun| matches!(begun.work, Work::UnderWay(_)))
    }

    pub fn is_read_only(&self) -> bool {
        match &self.open {
            Some(open) => open.access == Access::ReadOnly,
            None => self.parameters.is_read_only(),
        }
    }

    /// Refuses a command that changes something.
    ///
    /// # Errors
    /// 25006 if the transaction is read only.
    pub fn refuse_read_only(&self, command: &str) -> Result<()> {
        match self.is_read_only() {
            true => Err(read_only(command)),
            false => Ok(()),
        }
    }

    /// Whether it may have written to a table.
    pub fn has_written(&self, table: &Table) -> bool {
        self.locks.owner.holds(table.id, LockMode::RowExclusive)
    }

    /// The isolation level of the open transaction, or of the next.
    pub fn level(&self) -> Level {
        let default = || self.parameters.ask_state(|state| Level::named(&state.effective.isolation));
        self.open.as_ref().map_or_else(default, |open| open.level)
    }

    pub(super) fn begun(&self) -> Option<&Begun> {
        self.open.as_ref()?.begun.as_ref()
    }

    fn begun_mut(&mut self) -> Option<&mut Begun> {
        self.open.as_mut()?.begun.as_mut()
    }

    /// Who others wait for.
    pub(super) fn holder(&mut self) -> Option<Holder> {
        self.begun()?;
        self.within(|transaction| transaction.holder()).ok()
    }

    /// From now on a statement changes rows: all that it changes goes if it does not come to [`Self::end_work`].
    pub fn begin_work(&mut self, savepoint: Savepoint) {
        if let Some(begun) = self.begun_mut() {
            begun.work = Work::UnderWay(savepoint);
        }
    }

    pub fn end_work(&mut self) {
        if let Some(begun) = self.begun_mut() {
            begun.work = Work::None;
        }
    }

    /// Works in the open transaction.
    pub fn within<T>(&mut self, work: impl FnOnce(&mut Transaction<'_>) -> T) -> Result<T> {
        let mut transaction = self.engine.as_mut().and_then(saki_mvcc::Runner::resume).ok_or_else(not_open)?;
        let outcome = work(&mut transaction);
        transaction.suspend();
        Ok(outcome)
    }

    /// Ends the transaction with its effects; what is to be waited for before anybody is told.
    pub fn commit(&mut self) -> Result<Option<Receipt>> {
        self.end().map_err(SqlError::from)
    }

    /// The same of a transaction that may have changed the catalog. Waits for its turn, unless it is told to stop, and
    /// for storage.
    pub(super) fn commit_with_draft(&mut self, stop: &Stop) -> Result<Option<Receipt>> {
        self.release_early();
        let draft = Arc::clone(&self.draft);
        let mut ending = Ending { transactions: self, is_committed: false };
        let committed = ending.transactions.take_over().map(|transaction| draft.commit(transaction, stop)).transpose();
        ending.is_committed = committed.is_ok();
        drop(ending);
        committed
    }

    /// The same, with the engine's own error.
    pub(super) fn end(&mut self) -> Result<Option<Receipt>, saki_mvcc::Error> {
        self.release_early();
        let mut ending = Ending { transactions: self, is_committed: false };
        let committed = ending.transactions.take_over().map(Transaction::commit_early).transpose();
        ending.is_committed = committed.is_ok();
        drop(ending);
        committed
    }

    /// Never, but for who tries whether that would be found.
    fn release_early(&self) {
        if planted::is(Fault::LocksEarly) {
            self.locks.owner.release_all();
        }
    }

    /// What was set in the transaction stays or goes with it.
    fn end_parameters(&self, is_committed: bool) {
        match is_committed {
            true => self.parameters.commit(),
            false => self.parameters.rollback(),
        }
        self.parameters.state_transaction(None);
    }

    /// The engine's transaction, which is to end now; `None` if it has not begun.
    fn take_over(&mut self) -> Option<Transaction<'_>> {
        self.open.take()?.begun?;
        self.engine.as_mut()?.resume()
    }

    /// Ends the transaction without effects.
    pub fn abort(&mut self) {
        if self.take_over().map(Transaction::abort).is_some() {
            self.ended_in_vain();
        }
        self.draft.discard();
        self.end_parameters(false);
        self.locks.owner.release_all();
    }
}

/// What comes after the end of the engine's transaction, be it a commit, a refusal or a panic.
struct Ending<'t> {
    transactions: &'t mut Transactions,
    is_committed: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Self { transactions, is_committed } = self;
        if !*is_committed {
            transactions.ended_in_vain();
        }
        if transactions.has_draft() {
            transactions.draft.discard();
        }
        transactions.end_parameters(*is_committed);
        // Only now: whoever waits for a lock is to see what was done while it was held.
        transactions.locks.owner.release_all();
    }
}

impl TrackReads for Transactions {
    /// Answers for what a snapshot is read of, if the transaction is serializable: all that lies in the deltas of the
    /// tables that a plan over the snapshot asked for. Bases need no watching: what changes is in deltas.
    fn track(&mut self, snapshot: &Snapshot) -> Result<()> {
        if self.begun().is_none() || self.level() != Level::Serializable {
            return Ok(());
        }
        let deltas: Vec<&Arc<Delta>> =
            snapshot.asked_for().iter().filter_map(|id| snapshot.generation.deltas.get(id)).collect();
        self.within(|transaction| {
            deltas.iter().for_each(|delta| delta.answer_for_all(transaction));
        })
    }
}

pub(super) fn not_open() -> SqlError {
    SqlError::internal("no transaction is open")
}
