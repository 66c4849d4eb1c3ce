//! Carrying fast statements out.

mod answer;
mod change;
mod rows;
mod sink;

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast;
use saki_base::wall_micros;
use saki_mvcc::{Holder, Receipt};

use self::rows::{Running, Stopped};
use self::sink::Kept;
pub use self::sink::RowSink;
use super::plan::FastPlan;
use saki_catalog::{Result, RoleId, Table};
use saki_context::database::{Database, Stoppable};
use saki_context::planner::SessionSequences;
use saki_context::statement::StatementResult;
use saki_context::transaction::{SessionTransactions, Transactions, Waiting, is_unchanged};
use saki_store::Generation;
use saki_store::locks::LockMode;

/// What became of a fast statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastAnswer {
    /// How many rows it gave or concerned.
    Done(u64),
    /// It has to go the ordinary way; nothing has happened.
    Ordinary,
}

/// What an attempt came to.
enum Attempt {
    Done(u64, Option<Receipt>),
    /// Another transaction is in the way, which may be waited for.
    Conflict(Option<Holder>),
    /// A page has to be read first.
    Read(Arc<Table>, Vec<u8>),
    Ordinary,
}

/// Runs compiled statements in a session's transactions.
pub struct Runner<'s> {
    pub db: &'s Arc<Database>,
    pub transactions: &'s SessionTransactions,
    pub sequences: &'s SessionSequences,
    /// Who asks.
    pub role: RoleId,
}

impl Runner<'_> {
    /// Runs a compiled statement. Rows go to `sink` before it is known that they may be shown: the caller keeps them
    /// until this returns.
    ///
    /// # Errors
    /// Those of the statement; the transaction, if one is open, has failed then.
    pub async fn execute(
        &self,
        plan: &FastPlan,
        values: &[ScalarValue],
        sink: &mut (dyn RowSink + Send),
    ) -> Result<FastAnswer> {
        let mut has_read = false;
        loop {
            let attempt = {
                let Ok(mut transactions) = self.transactions.try_lock() else { return Ok(FastAnswer::Ordinary) };
                self.try_fast(&mut transactions, plan, values, sink)
            };
            let attempt = match attempt {
                Ok(attempt) => attempt,
                Err(error) => return Err(self.transactions.failed(error).await),
            };
            match attempt {
                Attempt::Done(rows, receipt) => {
                    self.transactions.acknowledge(receipt).await?;
                    return Ok(FastAnswer::Done(rows));
                }
                Attempt::Ordinary => return Ok(FastAnswer::Ordinary),
                Attempt::Conflict(Some(holder)) => self.transactions.wait_for(holder).await?,
                Attempt::Conflict(None) => tokio::task::yield_now().await,
                // Too long for a page, or pushed out of memory again at once.
                Attempt::Read(..) if has_read => return Ok(FastAnswer::Ordinary),
                Attempt::Read(table, key) => {
                    has_read = true;
                    let read = move |db: &Stoppable<'_>| db.base_reader().get(&table.root, &key).map(drop);
                    self.db.blocking(read).await?;
                }
            }
        }
    }

    fn try_fast(
        &self,
        transactions: &mut Transactions,
        plan: &FastPlan,
        values: &[ScalarValue],
        sink: &mut dyn RowSink,
    ) -> Result<Attempt> {
        // What is compiled is compiled for tables as everybody sees them.
        let is_away = self.db.engine.get().is_none() || transactions.is_interrupted() || transactions.has_draft();
        if is_away || plan.is_left_out() {
            return Ok(Attempt::Ordinary);
        }
        transactions.check()?;
        let outlives = transactions.outlives_statement();
        let writes = plan.is_change() || plan.holds_rows() && outlives;
        if writes && (transactions.is_read_only() || self.db.writable().is_err()) {
            return Ok(Attempt::Ordinary);
        }
        let Some(generation) = transactions.begin_statement(self.db)? else { return Ok(Attempt::Ordinary) };
        let known = generation.catalog.get(&plan.table).filter(|table| table.delta == plan.delta);
        let Some((table, delta)) = known.and_then(|table| Some((table, generation.delta(table)?))) else {
            transactions.give_up_statement();
            return Ok(Attempt::Ordinary);
        };
        // What it may not is said where the statement is looked at more closely.
        let is_allowed = plan.is_allowed(self.db, &generation, table, self.role);
        if !is_allowed || !self.may_use(transactions, &generation, table, plan, writes) {
            transactions.give_up_statement();
            return Ok(Attempt::Ordinary);
        }
        let running = Running {
            db: self.db,
            generation: &generation,
            table,
            delta,
            layout: &plan.layout,
            parameters: values,
            sequences: self.sequences,
            now: wall_micros(),
            waiting: (writes && outlives).then(|| Waiting::new(&self.db.memory)).transpose()?,
        };
        let worked = transactions.within(|transaction| {
            let start = transaction.savepoint();
            let outcome = running.run(&plan.operation, outlives, transaction, sink);
            if outcome.is_err() {
                transaction.rollback_to(start);
            }
            match outcome {
                Err(Stopped::Refused(refusal)) => Err(refusal),
                other => Ok(other),
            }
        })?;
        if let (Ok(Ok(_)), Some(waiting)) = (&worked, running.waiting) {
            transactions.keep_waiting(waiting);
        }
        match worked {
            Ok(Ok(rows)) => match transactions.end_statement() {
                // What a query gives may be told once what it rests on is durable, held or not.
                Ok(None) if !plan.is_change() => Ok(Attempt::Done(rows, transactions.seen())),
                Ok(receipt) => Ok(Attempt::Done(rows, receipt)),
                Err(refusal) => transactions.refused(refusal).map(Attempt::Conflict),
            },
            Ok(Err(Stopped::Read(key))) => {
                transactions.give_up_statement();
                Ok(Attempt::Read(Arc::clone(table), key))
            }
            Ok(Err(stopped)) => {
                if matches!(stopped, Stopped::Long) {
                    plan.leave_out();
                }
                transactions.give_up_statement();
                Ok(Attempt::Ordinary)
            }
            Err(refusal) => transactions.refused(refusal).map(Attempt::Conflict),
        }
    }

    /// Locks a table, if that takes no waiting, and sees to it that a change meets the newest definition of it. A query
    /// by itself needs no lock: its snapshot keeps the table as it is.
    fn may_use(
        &self,
        transactions: &Transactions,
        generation: &Generation,
        table: &Table,
        plan: &FastPlan,
        writes: bool,
    ) -> bool {
        if !writes {
            return !transactions.outlives_statement() || transactions.try_lock_table(table.id, LockMode::AccessShare);
        }
        let is_locked =
            plan.is_free_of_rules(generation, table) && transactions.try_lock_table(table.id, LockMode::RowExclusive);
        // Locked first: from here on nobody changes the table.
        is_locked
            && (self.db.is_newest(generation)
                || is_unchanged(&generation.catalog, &self.db.generation().catalog, &table.name))
    }
}

impl Runner<'_> {
    /// Runs a statement that was read just now, if it can be compiled.
    pub async fn execute_statement(&self, statement: &ast::Statement) -> Result<Option<StatementResult>> {
        if self.db.engine.get().is_none() {
            return Ok(None);
        }
        let Some(plan) = FastPlan::compile(statement, &self.db.generation().catalog, &[]) else { return Ok(None) };
        if !plan.parameters.is_empty() {
            return Ok(None);
        }
        let mut kept = Kept::default();
        match self.execute(&plan, &[], &mut kept).await? {
            FastAnswer::Ordinary => Ok(None),
            FastAnswer::Done(rows) => Ok(Some(match plan.schema() {
                None => StatementResult::done(plan.verb(), rows),
                Some(schema) => kept.result(&plan, schema)?,
            })),
        }
    }
}
