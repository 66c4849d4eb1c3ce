//! Changes of rows within a transaction: what they are made with, why they may not be made, and what a transaction does
//! about it: repeat the statement, wait, or fail.

use std::ops::Deref;
use std::sync::Arc;

use arrow_array::RecordBatch;
use parking_lot::Mutex;
use saki_mvcc::{Contended, Holder, Receipt, Transaction};

use super::deferred::Deferring;
use super::state::Transactions;
use crate::database::Database;
use saki_base::memory::{Pool, Reservation};
use saki_catalog::{Result, SqlError, Table};
use saki_plan::{QueryEnv, Reads, StandIns, Tracked, TrackedSnapshot, Untracked, shown_bytes};
use saki_store::{BaseReader, Generation, Missed, Stop};

/// What changes are made with.
pub struct Change<'c, 't> {
    db: &'c Database,
    pub generation: &'c Arc<Generation>,
    pub transaction: &'c mut Transaction<'t>,
    /// `None`: the thread may wait.
    missed: Option<&'c Missed>,
    /// Memory of what it writes, if that waits for a transaction that goes on.
    waiting: Option<&'c Waiting>,
    /// Takes the checks that it leaves to the end of its transaction; `None`: that is its own.
    deferring: Option<&'c Deferring>,
    /// What it asks whether it goes on; `None`: it is short.
    stop: Option<&'c Stop>,
}

impl<'c, 't> Change<'c, 't> {
    /// On a thread that may wait, until it is told to stop. What was read to find the rows has been tracked.
    pub fn new(
        db: &'c Database,
        read: &'c TrackedSnapshot,
        stop: &'c Stop,
        transaction: &'c mut Transaction<'t>,
    ) -> Self {
        let (generation, stop) = (&read.snapshot().generation, Some(stop));
        Self { db, generation, transaction, missed: None, waiting: None, deferring: None, stop }
    }

    /// With what is in memory alone: see [`Missed`]. The rows were found by the transaction itself, which answers for
    /// what it has read.
    pub fn from_memory(
        db: &'c Database,
        generation: &'c Arc<Generation>,
        missed: &'c Missed,
        transaction: &'c mut Transaction<'t>,
    ) -> Self {
        Self { db, generation, transaction, missed: Some(missed), waiting: None, deferring: None, stop: None }
    }

    /// The same, with what it writes counted as waiting for the end of its transaction.
    pub fn counted(self, waiting: Option<&'c Waiting>) -> Self {
        Self { waiting, ..self }
    }

    /// The same within a transaction that goes on, whose end may be left checks.
    pub fn leaving(self, deferring: Option<&'c Deferring>) -> Self {
        Self { deferring, ..self }
    }

    /// What takes checks that may wait.
    pub fn deferring(&self) -> Option<&'c Deferring> {
        self.deferring
    }

    /// Memory for a while.
    ///
    /// # Errors
    /// 53200 if more is in use than there is.
    pub fn reservation(&self) -> Result<Reservation> {
        Ok(self.db.memory.reserve(0)?)
    }

    /// Takes note of a row that is going to be written besides those that were found.
    ///
    /// # Errors
    /// As [`Waiting::add`].
    pub fn hold(&self, bytes: usize) -> Result<()> {
        self.waiting.map_or(Ok(()), |waiting| waiting.add_one(bytes))
    }

    /// What it asks whether it goes on, if it may take long.
    pub fn stop(&self) -> Option<&'c Stop> {
        self.stop
    }

    /// Whether it goes on: to be asked for each row.
    ///
    /// # Errors
    /// 57014 once it was told to stop.
    pub fn check(&self) -> Result<()> {
        self.stop.map_or(Ok(()), Stop::check)
    }

    /// Reads what is not in deltas.
    pub fn base(&self) -> BaseReader<'c> {
        match self.missed {
            None => self.db.base_reader(),
            Some(missed) => self.db.memory_reader(missed),
        }
    }
}

/// What a statement finds the rows with that it changes. Its reads are tracked together, before the first change.
#[derive(Clone)]
pub struct ChangeEnv<'r> {
    env: Arc<QueryEnv>,
    reads: &'r Reads,
    waiting: &'r Waiting,
}

/// Memory of rows that wait to be written: from when they are found until the transaction has ended that writes them.
pub struct Waiting(Mutex<Reservation>);

impl Waiting {
    /// How often a row is held while it is changed: as it was found, with its new values, as it is written, and in the
    /// log's record.
    const COPIES: usize = 4;
    /// The same of one that a compiled statement changes: as it is written, and in the log's record.
    const COPIES_COMPILED: usize = 2;
    /// Of such a row, besides: that it is written, its place in an index.
    const WRITE_BYTES: usize = 128;

    /// Of nothing yet.
    ///
    /// # Errors
    /// 53200 if more is in use than there is.
    pub fn new(memory: &Arc<Pool>) -> Result<Self> {
        Ok(Self(Mutex::new(memory.reserve(0)?)))
    }

    /// Rows that are going to be written.
    ///
    /// # Errors
    /// 53200 if there is not enough for them.
    pub fn add(&self, rows: &RecordBatch) -> Result<()> {
        Ok(self.0.lock().grow(shown_bytes(rows).saturating_mul(Self::COPIES))?)
    }

    /// A row that a compiled statement is about to write: bytes of its key and of what becomes of it.
    ///
    /// # Errors
    /// As `add`.
    pub fn add_one(&self, bytes: usize) -> Result<()> {
        Ok(self.0.lock().grow(Self::COPIES_COMPILED * bytes + Self::WRITE_BYTES)?)
    }

    fn into_inner(self) -> Reservation {
        self.0.into_inner()
    }
}

impl<'r> ChangeEnv<'r> {
    pub fn new(env: Arc<QueryEnv>, reads: &'r Reads, waiting: &'r Waiting) -> Self {
        Self { env, reads, waiting }
    }

    /// Takes note of rows that were found to be changed.
    ///
    /// # Errors
    /// As [`Waiting::add`].
    pub fn hold(&self, rows: &RecordBatch) -> Result<()> {
        self.waiting.add(rows)
    }

    /// A plan over the statement's snapshot, ready to run.
    pub fn join(&self, plan: Untracked) -> Tracked {
        self.reads.join(plan)
    }

    /// The same with the row ids of a table to be seen, if it has any.
    pub fn with_row_id(&self, table: &Table) -> Self {
        Self { env: self.env.with_row_id(table), ..self.clone() }
    }

    /// The same with tables under some names besides those that it has.
    pub fn with_stand_ins(&self, stand_ins: StandIns) -> Self {
        let mut all = self.env.stand_ins.clone();
        all.extend(stand_ins);
        Self { env: self.env.with_stand_ins(all), ..self.clone() }
    }
}

impl Deref for ChangeEnv<'_> {
    type Target = Arc<QueryEnv>;

    fn deref(&self) -> &Arc<QueryEnv> {
        &self.env
    }
}

/// What is in the way of a statement: another transaction changed a row since the snapshot, or is changing it.
#[derive(Debug, Default)]
pub struct Conflict {
    /// Who is changing it.
    pub holder: Option<Holder>,
    /// `None`: it is no row.
    pub row: Option<Contended>,
}

/// What a client learns of a statement that has ended well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Telling {
    /// Rows, or a count that rests on what is in rows.
    All,
    /// How many of the keys that it names have rows, or that they had none.
    Presence,
}

/// Why changes were not made.
#[derive(Debug)]
pub enum Refusal {
    Error(SqlError),
    Conflict(Conflict),
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

impl From<saki_mvcc::Error> for Refusal {
    fn from(error: saki_mvcc::Error) -> Self {
        match error {
            saki_mvcc::Error::Conflict { holder, row, .. } => Self::Conflict(Conflict { holder, row: Some(row) }),
            error => Self::Error(SqlError::from(error)),
        }
    }
}

impl Transactions {
    /// What a statement has changed waits for the end of its transaction.
    pub fn keep_waiting(&mut self, waiting: Waiting) {
        let Some(open) = &mut self.open else { return };
        let more = waiting.into_inner();
        match &mut open.waiting {
            Some(waiting) => waiting.join(more),
            none => *none = Some(more),
        }
    }

    /// What a statement that begins now leaves checks with; `None` if its own end is that of its transaction.
    pub fn deferring(&self, memory: &Arc<Pool>) -> Option<Deferring> {
        let open = self.open.as_ref().filter(|open| open.outlives_statement())?;
        Some(open.deferred.deferring(memory))
    }

    /// Whether checks wait for the end of the transaction.
    pub fn is_waiting(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.deferred.is_waiting())
    }

    /// Keeps the checks that a statement has left that has come to its end.
    pub fn keep_deferred(&mut self, deferring: Option<Deferring>) {
        if let (Some(open), Some(deferring)) = (&mut self.open, deferring) {
            open.deferred.keep(deferring);
        }
    }

    /// Commits what is a transaction by itself. What has to be durable before a client is told of the statement: of one
    /// whose transaction goes on, and may come to nothing, what has been seen of that which it tells.
    pub fn end_statement(&mut self, telling: Telling) -> Result<Option<Receipt>, Refusal> {
        if self.outlives_statement() {
            let receipt = match telling {
                Telling::All => saki_mvcc::Runner::receipt,
                Telling::Presence => saki_mvcc::Runner::presence,
            };
            return Ok(self.engine.as_ref().map(receipt));
        }
        Ok(self.end()?)
    }
}
