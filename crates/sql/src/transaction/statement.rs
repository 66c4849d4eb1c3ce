//! A statement that changes rows: gets its snapshot, works, and works again if another transaction was in the way.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use saki_base::TableId;
use saki_mvcc::{Holder, Receipt, Transaction};
use tokio::sync::{OwnedMutexGuard, OwnedRwLockReadGuard, RwLock, oneshot};

use super::{Level, Scope, Transactions};
use crate::database::Database;
use crate::delta::{ReadView, mvcc_error};
use crate::error::{Result, SqlError};
use crate::query_env::QueryEnv;
use crate::session::{Session, StatementResult};
use crate::snapshot::Snapshot;

/// Pause before a statement runs again when nobody can be waited for.
const PAUSE: Duration = Duration::from_micros(50);

/// Why changes were not made.
#[derive(Debug)]
pub enum Refusal {
    Error(SqlError),
    /// Another transaction changed a row since the snapshot, or is changing it: then that one is named.
    Conflict(Option<Holder>),
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

impl From<saki_mvcc::Error> for Refusal {
    fn from(error: saki_mvcc::Error) -> Self {
        match error {
            saki_mvcc::Error::Conflict { holder, .. } => Self::Conflict(holder),
            error => Self::Error(mvcc_error(error)),
        }
    }
}

/// What changes are made with, on a thread that may wait.
pub struct Change<'c, 't> {
    pub db: &'c Database,
    pub view: &'c Arc<ReadView>,
    pub transaction: &'c mut Transaction<'t>,
}

/// Makes the changes that were planned.
pub type Work = Box<dyn FnOnce(&mut Change<'_, '_>) -> Result<StatementResult, Refusal> + Send>;

/// A statement that changes rows, before it is known which.
pub trait ChangeStatement: Send + Sync {
    /// Reads what it needs as `env` says, and says what to change.
    fn plan<'a>(&'a self, session: &'a Session, env: &'a Arc<QueryEnv>) -> BoxFuture<'a, Result<Work>>;
}

/// What an attempt came to.
enum Attempt {
    Done(StatementResult, Option<Receipt>),
    Again(Option<Holder>),
}

impl Session {
    /// Runs a statement that changes rows of `tables`.
    pub(crate) async fn change(&self, tables: &[String], statement: &dyn ChangeStatement) -> Result<StatementResult> {
        self.db.writable()?;
        if self.db.engine.get().is_none() {
            self.blocking(|db| db.engine().map(drop)).await?;
        }
        loop {
            let mut transactions = Arc::clone(&self.transactions).lock_owned().await;
            transactions.make_ready()?;
            match self.attempt(transactions, tables, statement).await? {
                Attempt::Done(result, receipt) => {
                    self.acknowledge(receipt).await?;
                    return Ok(result);
                }
                Attempt::Again(Some(holder)) => self.wait_for(holder).await?,
                Attempt::Again(None) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn attempt(
        &self,
        mut transactions: OwnedMutexGuard<Transactions>,
        tables: &[String],
        statement: &dyn ChangeStatement,
    ) -> Result<Attempt> {
        transactions.refuse_read_only()?;
        let mut gates = Vec::new();
        let snapshot = self.db.snapshot();
        for table in tables {
            if let Some((delta, gate)) = transactions.gate(&snapshot, table)? {
                gates.push((delta, gate.read_owned().await));
            }
        }
        let view = transactions.statement_view(&self.db)?;
        if !transactions.keep(gates, &view.snapshot, tables) {
            return transactions.conflict(None).map(Attempt::Again);
        }
        let savepoint = transactions.within(|transaction| transaction.savepoint())?;
        let env = Arc::new(self.env_of(Arc::clone(&view)));
        let work = match statement.plan(self, &env).await {
            Ok(work) => work,
            Err(error) => {
                transactions.fail();
                return Err(error);
            }
        };
        transactions.track(&view)?;
        transactions.begin_work(savepoint);
        let db = Arc::clone(&self.db);
        let worked = tokio::task::spawn_blocking(move || {
            let worked = transactions.within(|transaction| work(&mut Change { db: &db, view: &view, transaction }));
            (worked, transactions)
        });
        let (worked, mut transactions) =
            worked.await.map_err(|error| SqlError::internal(format!("a statement's thread: {error}")))?;
        match worked? {
            Ok(result) => {
                transactions.end_work();
                match transactions.end_statement() {
                    Ok(receipt) => Ok(Attempt::Done(result, receipt)),
                    Err(refusal) => transactions.refused(refusal).map(Attempt::Again),
                }
            }
            Err(refusal) => {
                transactions.within(|transaction| transaction.rollback_to(savepoint))?;
                transactions.end_work();
                transactions.refused(refusal).map(Attempt::Again)
            }
        }
    }

    /// Waits until another transaction has ended.
    ///
    /// # Errors
    /// 40P01 if that one waits for this.
    pub(crate) async fn wait_for(&self, holder: Holder) -> Result<()> {
        let me = self.transactions.lock().await.holder();
        let (sender, receiver) = oneshot::channel();
        let engine = self.db.engine()?;
        let ended = move || {
            // Nobody waits any more: the statement was dropped.
            let _ = sender.send(());
        };
        let waiting = engine.database.when_ended(me, holder, ended);
        let _waiter = match waiting {
            Ok(waiter) => waiter,
            Err(error) => {
                self.transactions.lock().await.fail();
                return Err(mvcc_error(error));
            }
        };
        // An error is the end of the engine, which the next attempt will meet.
        let _ = receiver.await;
        Ok(())
    }

    /// Waits until a commit, and all that it is based on, is durable.
    pub(crate) async fn acknowledge(&self, receipt: Option<Receipt>) -> Result<()> {
        let Some(receipt) = receipt else { return Ok(()) };
        let engine = self.db.engine()?;
        if engine.database.is_durable(receipt) {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        engine.database.when_durable(receipt, move |outcome| drop(sender.send(outcome)));
        match receiver.await {
            Ok(outcome) => outcome.map_err(mvcc_error),
            Err(_) => Err(SqlError::storage("the logs were closed before the commit was durable")),
        }
    }
}

impl Transactions {
    /// The gate of a table, unless the transaction has passed it before.
    fn gate(&self, snapshot: &Snapshot, table: &str) -> Result<Option<(TableId, Arc<RwLock<()>>)>> {
        let table = snapshot.catalog.table(table)?;
        if self.open.as_ref().is_some_and(|open| open.gates.contains_key(&table.delta)) {
            return Ok(None);
        }
        Ok(snapshot.delta(table).map(|delta| (table.delta, Arc::clone(&delta.gate))))
    }

    /// Keeps gates passed; `false` if a table is another by now than the one whose gate was passed.
    fn keep(
        &mut self,
        gates: Vec<(TableId, OwnedRwLockReadGuard<()>)>,
        snapshot: &Snapshot,
        tables: &[String],
    ) -> bool {
        let Some(open) = &mut self.open else { return false };
        open.gates.extend(gates);
        let is_kept =
            |table: &String| snapshot.catalog.get(table).is_some_and(|table| open.gates.contains_key(&table.delta));
        tables.iter().all(is_kept)
    }

    fn refuse_read_only(&self) -> Result<()> {
        match &self.open {
            Some(open) if open.is_read_only => {
                Err(SqlError::invalid("a read-only transaction changes nothing").code("25006"))
            }
            _ => Ok(()),
        }
    }

    fn holder(&mut self) -> Option<Holder> {
        self.has_begun().then(|| self.within(|transaction| transaction.holder()).ok()).flatten()
    }

    fn begin_work(&mut self, savepoint: saki_mvcc::Savepoint) {
        if let Some(open) = &mut self.open {
            open.under_way = Some(savepoint);
        }
    }

    fn end_work(&mut self) {
        if let Some(open) = &mut self.open {
            open.under_way = None;
        }
    }

    /// Commits what is a transaction by itself.
    pub(crate) fn end_statement(&mut self) -> Result<Option<Receipt>, Refusal> {
        match &self.open {
            Some(open) if open.scope != Scope::Statement => Ok(None),
            _ => {
                let Some(transaction) = self.take_over() else { return Ok(None) };
                Ok(Some(transaction.commit_early()?))
            }
        }
    }

    /// What to do about a refusal: whom to wait for before the statement runs again.
    pub(crate) fn refused(&mut self, refusal: Refusal) -> Result<Option<Holder>> {
        match refusal {
            Refusal::Conflict(holder) => self.conflict(holder),
            Refusal::Error(error) if error.code == Some("40001") && !self.outlives_statement() => {
                self.abort();
                Ok(None)
            }
            Refusal::Error(error) => {
                self.fail();
                Err(error)
            }
        }
    }

    fn conflict(&mut self, holder: Option<Holder>) -> Result<Option<Holder>> {
        if !self.outlives_statement() {
            // Lets go of what it holds: it begins anew.
            self.abort();
            return Ok(holder);
        }
        if holder.is_some() || self.level() == Level::ReadCommitted {
            return Ok(holder);
        }
        self.fail();
        Err(SqlError::invalid("could not serialize access: another transaction changed a row since the snapshot")
            .code("40001")
            .hint("repeat the transaction"))
    }
}
