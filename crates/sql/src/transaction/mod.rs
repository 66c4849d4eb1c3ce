//! Transactions of a session, over many statements or for one.
//!
//! | level | what a statement reads | a row that another has just changed |
//! |---|---|---|
//! | READ COMMITTED | the newest snapshot when the statement began | the statement is run again on a newer snapshot |
//! | REPEATABLE READ | the snapshot of the first statement | 40001 |
//! | SERIALIZABLE | that, and what was read must not have changed at COMMIT | 40001 |
//!
//! A row that another transaction is changing is waited for; the one that would close a circle of waiting transactions gets 40P01.
//! A statement outside of BEGIN and COMMIT is a transaction by itself, and runs again whenever another got in its way. Statements that
//! a client sends together are one transaction ([`Scope::Message`]): begun by [`Session::begin_message`], ended by [`Session::end_message`].
//!
//! COMMIT makes changes visible at once, and is answered when they are durable along with everything that they are based on
//! (`saki_mvcc`: speculative commit). What a statement inside of a transaction shows is provisional until then.

mod control;
mod message;
mod statement;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use saki_base::TableId;
use saki_mvcc::{Direction, KeyRange, Receipt, Transaction};
use tokio::sync::OwnedRwLockReadGuard;

use crate::catalog::Table;
use crate::database::Database;
use crate::delta::{Delta, ReadView, mvcc_error};
use crate::error::{Result, SqlError};
use crate::session::TransactionStatus;
use crate::snapshot::Snapshot;

pub use control::Level;
pub(crate) use statement::{Change, ChangeStatement, Refusal, Work};

/// A session's transaction, if one is open, and the memory that its transactions use one after the other.
#[derive(Default)]
pub struct Transactions {
    session: Option<saki_mvcc::Session>,
    open: Option<Open>,
    /// Of transactions that say nothing else.
    pub default_level: Level,
}

/// What a transaction ends with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    /// The statement that began it.
    Statement,
    /// The message that its statements came in; or a statement that cannot be undone, which parts it in two.
    Message,
    /// COMMIT or ROLLBACK.
    Block,
}

/// An open transaction.
struct Open {
    level: Level,
    scope: Scope,
    is_failed: bool,
    is_read_only: bool,
    /// The generation that its timestamp goes with; `None` before it has one.
    snapshot: Option<Arc<Snapshot>>,
    /// Of the tables it has written: nobody changes their layout meanwhile.
    gates: HashMap<TableId, OwnedRwLockReadGuard<()>>,
    /// Nothing was written yet.
    start: Option<saki_mvcc::Savepoint>,
    savepoints: Vec<(String, Option<saki_mvcc::Savepoint>)>,
    /// Where the statement began that is changing rows: its changes go if it does not come to its end.
    under_way: Option<saki_mvcc::Savepoint>,
}

impl Open {
    fn new(level: Level, scope: Scope) -> Self {
        Self {
            level,
            scope,
            is_failed: false,
            is_read_only: false,
            snapshot: None,
            gates: HashMap::new(),
            start: None,
            savepoints: Vec::new(),
            under_way: None,
        }
    }
}

impl Transactions {
    pub fn status(&self) -> TransactionStatus {
        match &self.open {
            Some(open) if open.is_failed => TransactionStatus::Failed,
            Some(open) if open.scope == Scope::Block => TransactionStatus::Open,
            _ => TransactionStatus::Idle,
        }
    }

    /// Whether what a statement changes can still be undone after it.
    pub fn outlives_statement(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.scope != Scope::Statement)
    }

    /// A statement has failed: nothing but the end of the transaction is heard from now on.
    pub fn fail(&mut self) {
        match &mut self.open {
            Some(open) if open.scope == Scope::Block => open.is_failed = true,
            _ => self.abort(),
        }
    }

    /// Takes back what a statement did that was dropped before its end.
    pub fn settle(&mut self) -> Result<()> {
        let Some(savepoint) = self.open.as_mut().and_then(|open| open.under_way.take()) else { return Ok(()) };
        self.within(|transaction| transaction.rollback_to(savepoint))?;
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
            Some(open) if open.is_failed => Err(SqlError::invalid(
                "current transaction is aborted, commands ignored until end of transaction block",
            )
            .code("25P02")
            .hint("ROLLBACK, or ROLLBACK TO a savepoint")),
            _ => Ok(()),
        }
    }

    /// What a statement that only reads sees.
    pub fn read_view(&mut self, db: &Database) -> Result<Arc<ReadView>> {
        let holds_snapshot =
            self.open.as_ref().is_some_and(|open| open.scope != Scope::Statement && open.level != Level::ReadCommitted);
        if holds_snapshot || self.has_begun() {
            return self.statement_view(db);
        }
        // The generation first: see `delta`.
        let snapshot = db.snapshot();
        let moment = db.engine.get().map(|engine| engine.database.view()).transpose().map_err(mvcc_error)?;
        Ok(ReadView::new(snapshot, moment))
    }

    /// What the next statement of the open transaction sees, which begins one that ends with the statement if none is open.
    pub fn statement_view(&mut self, db: &Database) -> Result<Arc<ReadView>> {
        db.engine()?;
        let snapshot = self.begin_statement(db)?.ok_or_else(not_open)?;
        let moment = self.within(|transaction| transaction.view())?.map_err(mvcc_error)?;
        Ok(ReadView::of_transaction(snapshot, moment))
    }

    /// Begins a statement of the open transaction, or of one that ends with it: the generation that goes with its timestamp. `None`
    /// if there is no engine yet.
    pub fn begin_statement(&mut self, db: &Database) -> Result<Option<Arc<Snapshot>>> {
        let Some(engine) = db.engine.get() else { return Ok(None) };
        let open = self.open.get_or_insert_with(|| Open::new(self.default_level, Scope::Statement));
        let session = match &mut self.session {
            Some(session) => session,
            None => self.session.insert(engine.session()?),
        };
        let is_fresh = open.snapshot.is_none();
        if is_fresh || open.level == Level::ReadCommitted {
            // The generation first: see `delta`.
            open.snapshot = Some(db.snapshot());
        }
        let mut transaction = match is_fresh {
            true => session.begin(open.level.isolation()),
            false => session.resume().ok_or_else(not_open)?,
        };
        if !is_fresh && open.level == Level::ReadCommitted {
            transaction.refresh();
        }
        open.start.get_or_insert_with(|| transaction.savepoint());
        transaction.suspend();
        Ok(open.snapshot.clone())
    }

    /// Ends a statement that has done nothing, and a transaction that was only for it.
    pub fn give_up_statement(&mut self) {
        if !self.outlives_statement() {
            self.abort();
        }
    }

    /// Whether a statement that was changing rows was dropped before its end.
    pub fn is_interrupted(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.under_way.is_some())
    }

    pub fn is_read_only(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_read_only)
    }

    /// Passes the gate of a table without waiting, if it has not been passed before.
    pub fn pass_gate(&mut self, table: &Table, delta: &Delta) -> bool {
        let Some(open) = &mut self.open else { return false };
        if open.gates.contains_key(&table.delta) {
            return true;
        }
        let Ok(gate) = Arc::clone(&delta.gate).try_read_owned() else { return false };
        open.gates.insert(table.delta, gate);
        true
    }

    /// Answers for what a view is read of, if the transaction is serializable: all that lies in the deltas of the tables that a plan over
    /// the view asked for. Bases need no watching: what changes is in deltas.
    pub fn track(&mut self, view: &ReadView) -> Result<()> {
        if self.open.as_ref().is_none_or(|open| open.level != Level::Serializable || open.snapshot.is_none()) {
            return Ok(());
        }
        let deltas: Vec<&Arc<Delta>> = view.asked_for().iter().filter_map(|id| view.snapshot.deltas.get(id)).collect();
        self.within(|transaction| {
            for delta in deltas {
                transaction
                    .scan_all(&delta.rows, &KeyRange::all(), Direction::Forward, |_, _| ControlFlow::Continue(()));
            }
        })
    }

    /// Whether it has a timestamp.
    fn has_begun(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.snapshot.is_some())
    }

    /// Works in the open transaction.
    pub fn within<T>(&mut self, work: impl FnOnce(&mut Transaction<'_>) -> T) -> Result<T> {
        let mut transaction = self.session.as_mut().and_then(saki_mvcc::Session::resume).ok_or_else(not_open)?;
        let outcome = work(&mut transaction);
        transaction.suspend();
        Ok(outcome)
    }

    /// Ends the transaction with its effects; what is to be waited for before anybody is told.
    pub fn commit(&mut self) -> Result<Option<Receipt>> {
        match self.take_over() {
            Some(transaction) => transaction.commit_early().map(Some).map_err(mvcc_error),
            None => Ok(None),
        }
    }

    /// The engine's transaction, which is to end now; `None` if it has not begun.
    fn take_over(&mut self) -> Option<Transaction<'_>> {
        self.open.take()?.snapshot?;
        self.session.as_mut()?.resume()
    }

    /// Ends the transaction without effects.
    pub fn abort(&mut self) {
        if let Some(transaction) = self.take_over() {
            transaction.abort();
        }
    }
}

fn not_open() -> SqlError {
    SqlError::internal("no transaction is open")
}
