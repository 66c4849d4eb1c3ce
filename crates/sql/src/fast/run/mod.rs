//! Carrying fast statements out.

mod answer;
mod change;
mod find;
mod join;
mod rows;
mod sink;
mod stopped;
mod whole;

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast;
use saki_base::TableId;
use saki_mvcc::Receipt;

use self::find::Relation;
use self::rows::Running;
use self::sink::Kept;
pub use self::sink::RowSink;
use self::stopped::Stopped;
use super::evaluated::Evaluator;
use super::plan::{FastPlan, Lookup};
use super::rules::{RulePlanner, Rules};
use saki_catalog::{Result, RoleId, Table};
use saki_context::database::Database;
use saki_context::planner::SessionSequences;
use saki_context::statement::StatementResult;
use saki_context::transaction::{
    Conflict, Contention, Deferring, Refusal, SessionTransactions, Telling, Transactions, Waiting, is_unchanged,
};
use saki_store::locks::LockMode;
use saki_store::{Delta, Generation, Missed, Missing};

/// How often a statement has something read before it goes the ordinary way.
const READS_MAX: u32 = 16;

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
    /// Another transaction is in the way.
    Conflict(Conflict),
    /// What is not in memory of a generation has to be read first.
    Read(Arc<Generation>, Box<Missing>),
    /// Rows and catalog are being committed together, and nobody begins before that is over.
    Committing,
    Ordinary,
}

/// Runs compiled statements in a session's transactions.
pub struct Runner<'s> {
    pub db: &'s Arc<Database>,
    pub transactions: &'s SessionTransactions,
    pub sequences: &'s SessionSequences,
    pub rules: RulePlanner<'s>,
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
        let (mut reads, mut drawn) = (0, None);
        let mut contention = Contention::new(self.transactions);
        loop {
            let attempt = {
                let Ok(mut transactions) = self.transactions.try_lock() else { return Ok(FastAnswer::Ordinary) };
                self.try_fast((&mut transactions, &mut contention), plan, values, &mut drawn, sink)
            };
            let attempt = match attempt {
                Ok(attempt) => attempt,
                Err(error) => return Err(self.transactions.failed(error).await),
            };
            match attempt {
                Attempt::Done(rows, receipt) => {
                    contention.end();
                    self.transactions.acknowledge(receipt).await?;
                    return Ok(FastAnswer::Done(rows));
                }
                Attempt::Ordinary => return Ok(FastAnswer::Ordinary),
                Attempt::Conflict(conflict) => contention.give_way(conflict).await?,
                Attempt::Committing => self.db.instants.calm().await,
                // Too much, or pushed out of memory again at once.
                Attempt::Read(..) if reads == READS_MAX => {
                    plan.leave_out();
                    return Ok(FastAnswer::Ordinary);
                }
                Attempt::Read(generation, missing) => {
                    self.db.fetch_missing(generation, *missing, reads).await?;
                    reads += 1;
                }
            }
        }
    }

    /// `now()`, and what the session's clocks show then, for a statement that begins.
    fn moments(&self, is_within: bool) -> (i64, i64) {
        let clock = self.rules.parameters.clock();
        // One by itself has begun with its transaction.
        if is_within {
            clock.begin_statement(true);
        }
        let now = clock.transaction();
        (now, self.rules.parameters.ask_state(|state| state.effective.time.zone.local(now)))
    }

    fn try_fast(
        &self,
        (transactions, contention): (&mut Transactions, &mut Contention<'_>),
        plan: &FastPlan,
        values: &[ScalarValue],
        drawn: &mut Option<Vec<i64>>,
        sink: &mut dyn RowSink,
    ) -> Result<Attempt> {
        transactions.check()?;
        sink.clear();
        let outlives = transactions.outlives_statement();
        let writes = plan.is_change() || plan.holds_rows() && outlives;
        let is_meant = plan.is_for(self.rules.parameters);
        if !is_meant || !self.takes(transactions, (writes, outlives)) || plan.is_left_out() {
            return Ok(Attempt::Ordinary);
        }
        let Some(generation) = transactions.try_begin_statement(self.db)? else {
            transactions.give_up_statement();
            return Ok(Attempt::Committing);
        };
        let Some(((table, delta), others)) = tables(plan, &generation) else {
            transactions.give_up_statement();
            return Ok(Attempt::Ordinary);
        };
        let may_use = |rules: &Arc<Rules>| self.may_use(transactions, &generation, (table, &others), rules, writes);
        let Some(rules) = self.rules(plan, transactions, &generation, table).filter(may_use) else {
            transactions.give_up_statement();
            return Ok(Attempt::Ordinary);
        };
        let drawn = match self.drawn(plan, drawn) {
            Ok(Some(drawn)) => drawn,
            Ok(None) => {
                transactions.give_up_statement();
                return Ok(Attempt::Ordinary);
            }
            Err(error) => return transactions.refused(error.into(), contention).map(Attempt::Conflict),
        };
        let (now, local_now) = self.moments(outlives);
        let running = Running {
            db: self.db,
            generation: &generation,
            table,
            delta: &delta,
            layout: &plan.table.layout,
            joined: &joined(plan, &others),
            computed: &plan.computed,
            rules: &rules,
            parameters: values,
            drawn,
            now,
            local_now,
            waiting: (writes && outlives).then(|| Waiting::new(&self.db.memory)).transpose()?,
            deferring: rules.has_keys().then(|| transactions.deferring(&self.db.memory)).flatten(),
            missed: Missed::default(),
        };
        let worked = transactions.within(|transaction| {
            let start = transaction.savepoint();
            let outcome = running.run(plan, outlives, transaction, sink);
            if outcome.is_err() {
                transaction.rollback_to(start);
            }
            match outcome {
                Err(Stopped::Refused(refusal)) => Err(refusal),
                other => Ok(other),
            }
        })?;
        let kept = (running.waiting, running.deferring);
        Self::ended((transactions, contention), (plan, plan.telling(&rules)), worked, generation, kept)
    }

    /// Whether a compiled statement may run now that writes something, or does not; in a transaction that `outlives`
    /// it, or not.
    fn takes(&self, transactions: &Transactions, (writes, outlives): (bool, bool)) -> bool {
        // A catalog of its own has only a transaction that goes on.
        let is_odd = transactions.is_interrupted() || transactions.has_draft() && !outlives;
        let is_away = self.db.engine.get().is_none() || is_odd;
        let may_write = || !transactions.is_read_only() && self.db.writable().is_ok() && self.db.has_room();
        !is_away && (!writes || may_write())
    }

    /// What an attempt has come to that has done its work, or not.
    fn ended(
        (transactions, contention): (&mut Transactions, &mut Contention<'_>),
        (plan, telling): (&FastPlan, Telling),
        worked: Result<Result<u64, Stopped>, Refusal>,
        generation: Arc<Generation>,
        (waiting, deferring): (Option<Waiting>, Option<Deferring>),
    ) -> Result<Attempt> {
        if matches!(worked, Ok(Ok(_))) {
            transactions.keep_deferred(deferring);
            waiting.into_iter().for_each(|waiting| transactions.keep_waiting(waiting));
        }
        match worked {
            Ok(Ok(rows)) => match transactions.end_statement(telling) {
                Ok(receipt) => Ok(Attempt::Done(rows, receipt)),
                Err(refusal) => transactions.refused(refusal, contention).map(Attempt::Conflict),
            },
            Ok(Err(Stopped::Read(missing))) => {
                transactions.give_up_statement();
                Ok(Attempt::Read(generation, missing))
            }
            Ok(Err(stopped)) => {
                if matches!(stopped, Stopped::Long) {
                    plan.leave_out();
                }
                transactions.give_up_statement();
                Ok(Attempt::Ordinary)
            }
            Err(refusal) => transactions.refused(refusal, contention).map(Attempt::Conflict),
        }
    }

    /// The rules that a statement follows; `None` if it has to be looked at more closely, which says what its role may
    /// not.
    fn rules(
        &self,
        plan: &FastPlan,
        transactions: &Transactions,
        generation: &Arc<Generation>,
        table: &Arc<Table>,
    ) -> Option<Arc<Rules>> {
        match plan.is_change() {
            _ if !self.is_allowed(plan, transactions, generation, table) => None,
            false => Some(Arc::clone(&plan.no_rules)),
            true => plan.rules(&self.rules, generation, table),
        }
    }

    /// The next value of each sequence, drawn once however often a statement begins anew. `None` if one has to be told
    /// durable first, which is waited for elsewhere.
    fn drawn<'d>(&self, plan: &FastPlan, drawn: &'d mut Option<Vec<i64>>) -> Result<Option<&'d [i64]>> {
        if drawn.is_none() {
            let sequences = plan.draws().iter();
            *drawn = sequences.map(|text| self.sequences.nextval_ready(text)).collect::<Result<_>>()?;
        }
        Ok(drawn.as_deref())
    }

    /// Locks a table, if that takes no waiting, and sees to it that a change meets the newest definition of it. A query
    /// by itself needs no lock: its snapshot keeps the table as it is.
    fn may_use(
        &self,
        transactions: &Transactions,
        generation: &Generation,
        (table, others): (&Table, &[Known<'_>]),
        rules: &Rules,
        writes: bool,
    ) -> bool {
        if !writes {
            let is_locked = |table: &Table| transactions.try_lock_table(table.id, LockMode::AccessShare);
            let is_free = !transactions.outlives_statement();
            return is_free || is_locked(table) && others.iter().all(|(table, _)| is_locked(table));
        }
        let catalog = &generation.catalog;
        let related = || rules.related.iter().filter(|name| **name != table.name);
        let is_locked = |id: TableId| transactions.try_lock_table(id, LockMode::RowExclusive);
        let is_related_locked = |name: &String| catalog.get(name).is_some_and(|table| is_locked(table.id));
        if !is_locked(table.id) || !related().all(is_related_locked) {
            return false;
        }
        // Locked first: from here on nobody changes the tables.
        if self.is_newest(transactions, generation) {
            return true;
        }
        let Ok(newest) = self.transactions.newest() else { return false };
        if newest.identity == generation.identity {
            return true;
        }
        let newest = &newest.catalog;
        is_unchanged(catalog, newest, &table.name) && related().all(|name| is_unchanged(catalog, newest, name))
    }

    /// Whether the role may run a statement: by the newest catalog, with what the open transaction has changed of it.
    fn is_allowed(
        &self,
        plan: &FastPlan,
        transactions: &Transactions,
        seen: &Arc<Generation>,
        table: &Arc<Table>,
    ) -> bool {
        let is_allowed = |newest: &Arc<Generation>| plan.is_allowed(newest, table, self.role);
        self.role == RoleId::OWNER
            || match self.is_newest(transactions, seen) {
                true => is_allowed(seen),
                false => self.transactions.newest().is_ok_and(|newest| is_allowed(&newest)),
            }
    }

    /// Whether what a statement has seen is what everybody sees now.
    ///
    /// A transaction that has changed the catalog sees its own over what is published, under the number of that. Nobody
    /// else does. What a plan keeps it keeps for the generation's identity, which no other has: after a rollback, or
    /// back at a savepoint, it is not found.
    #[inline]
    fn is_newest(&self, transactions: &Transactions, seen: &Generation) -> bool {
        !transactions.has_draft() && self.db.is_newest(seen)
    }
}

/// A table of a generation, and its delta.
type Known<'g> = (&'g Arc<Table>, Arc<Delta>);

/// The table of a plan, and those of its lookups, if they are as they were.
fn tables<'g>(plan: &FastPlan, generation: &'g Generation) -> Option<(Known<'g>, Vec<Known<'g>>)> {
    let others = plan.lookups().iter().map(|lookup| lookup.table.find(generation));
    Some((plan.table.find(generation)?, others.collect::<Option<_>>()?))
}

/// The tables of a plan's lookups.
fn joined<'r>(plan: &'r FastPlan, others: &'r [Known<'r>]) -> Vec<Relation<'r>> {
    let relation =
        |(lookup, (table, delta)): (&'r Lookup, &'r Known<'r>)| Relation { table, delta, layout: &lookup.table.layout };
    plan.lookups().iter().zip(others).map(relation).collect()
}

impl<'s> Runner<'s> {
    /// What plans expressions of its statements.
    pub fn evaluator(&self) -> Evaluator<'s> {
        Evaluator { planner: self.rules.planner, parameters: self.rules.parameters }
    }

    /// Runs a statement that was read just now, if it can be compiled.
    pub async fn execute_statement(&self, statement: &ast::Statement) -> Result<Option<StatementResult>> {
        if self.db.engine.get().is_none() {
            return Ok(None);
        }
        let Ok(newest) = self.transactions.newest() else { return Ok(None) };
        let with = (&[][..], self.evaluator());
        let Some(plan) = FastPlan::compile(statement, &newest.catalog, with) else { return Ok(None) };
        if !plan.parameters.is_empty() {
            return Ok(None);
        }
        self.execute_kept(&plan, &[]).await
    }

    /// Runs a compiled statement, and keeps its rows; `None` if it has to go the ordinary way.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub async fn execute_kept(&self, plan: &FastPlan, values: &[ScalarValue]) -> Result<Option<StatementResult>> {
        let mut kept = Kept::default();
        match self.execute(plan, values, &mut kept).await? {
            FastAnswer::Ordinary => Ok(None),
            FastAnswer::Done(rows) => Ok(Some(kept.result(plan, rows)?)),
        }
    }
}
