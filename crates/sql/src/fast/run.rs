//! Carrying fast statements out.

use std::ops::Bound;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast;
use saki_base::{DataType, Value, ValueRef, wall_micros};
use saki_mvcc::{Direction, Holder, Receipt, Transaction};

use super::expr::{Expr, Inputs};
use super::plan::{FastPlan, Operation};
use super::range::{Bounds, Range};
use crate::dml::RowWriter;
use saki_catalog::convert::array_of;
use saki_catalog::{EntryDecoder, EntryEncoder, EntryLayout, Result, RoleId, SqlError, Table};
use saki_context::database::{Database, Stoppable};
use saki_context::statement::StatementResult;
use saki_context::transaction::{Refusal, SessionTransactions, Transactions, is_unchanged};
use saki_store::locks::LockMode;
use saki_store::{Delta, IndexEntries, Point, Short, Snapshot, TableReader};

/// Entries of a range that are read on either side at most, from memory alone: what takes more goes the ordinary way.
const ENTRIES_MAX: usize = 1000;

/// Takes the rows of an answer.
pub trait RowSink {
    /// A row: the values of `FastPlan::output`, in order.
    fn row(&mut self, values: &[ValueRef<'_>]);
}

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
        if self.db.engine.get().is_none() || transactions.is_interrupted() || transactions.has_draft() {
            return Ok(Attempt::Ordinary);
        }
        transactions.check()?;
        if plan.is_change() && (transactions.is_read_only() || self.db.writable().is_err()) {
            return Ok(Attempt::Ordinary);
        }
        let Some(snapshot) = transactions.begin_statement(self.db)? else { return Ok(Attempt::Ordinary) };
        let known = snapshot.catalog.get(&plan.table).filter(|table| table.delta == plan.delta);
        let Some((table, delta)) = known.and_then(|table| Some((table, snapshot.delta(table)?))) else {
            transactions.give_up_statement();
            return Ok(Attempt::Ordinary);
        };
        // What it may not is said where the statement is looked at more closely.
        if !plan.is_allowed(self.db, &snapshot, table, self.role) || !self.may_use(transactions, &snapshot, table, plan)
        {
            transactions.give_up_statement();
            return Ok(Attempt::Ordinary);
        }
        let operation = Running { db: self.db, snapshot: &snapshot, table, delta, layout: &plan.layout, values };
        let worked = transactions.within(|transaction| {
            let start = transaction.savepoint();
            let outcome = operation.run(&plan.operation, transaction, sink);
            if !matches!(outcome, Ok(Step::Done(_))) {
                transaction.rollback_to(start);
            }
            outcome
        })?;
        match worked {
            Ok(Step::Done(rows)) => match transactions.end_statement() {
                Ok(None) if !plan.is_change() => Ok(Attempt::Done(rows, transactions.seen())),
                Ok(receipt) => Ok(Attempt::Done(rows, receipt)),
                Err(refusal) => transactions.refused(refusal).map(Attempt::Conflict),
            },
            Ok(Step::Read(key)) => {
                transactions.give_up_statement();
                Ok(Attempt::Read(Arc::clone(table), key))
            }
            Ok(Step::Ordinary) => {
                transactions.give_up_statement();
                Ok(Attempt::Ordinary)
            }
            Err(refusal) => transactions.refused(refusal).map(Attempt::Conflict),
        }
    }

    /// Locks a table, if that takes no waiting, and sees to it that a change meets the newest definition of it. A query
    /// by itself needs no lock: its snapshot keeps the table as it is.
    fn may_use(&self, transactions: &Transactions, snapshot: &Snapshot, table: &Table, plan: &FastPlan) -> bool {
        if !plan.is_change() {
            return !transactions.outlives_statement() || transactions.try_lock_table(table.id, LockMode::AccessShare);
        }
        let is_locked =
            plan.is_free_of_rules(snapshot, table) && transactions.try_lock_table(table.id, LockMode::RowExclusive);
        // Locked first: from here on nobody changes the table.
        is_locked
            && (self.db.is_newest(snapshot)
                || is_unchanged(&snapshot.catalog, &self.db.snapshot().catalog, &table.name))
    }
}

enum Step {
    Done(u64),
    /// This key's page is not in memory.
    Read(Vec<u8>),
    Ordinary,
}

struct Running<'r> {
    db: &'r Database,
    snapshot: &'r Snapshot,
    table: &'r Arc<Table>,
    delta: &'r Arc<Delta>,
    layout: &'r Arc<EntryLayout>,
    values: &'r [ScalarValue],
}

impl Running<'_> {
    fn run(
        &self,
        operation: &Operation,
        transaction: &mut Transaction<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Step, Refusal> {
        match operation {
            Operation::Insert { values } => self.insert(values, transaction),
            Operation::Select { key, columns } => {
                let Some(key) = self.key(key)? else { return Ok(Step::Done(0)) };
                let show = |row: &[u8]| {
                    EntryDecoder::new(Arc::clone(self.layout)).decode(self.table, &key, row, |values| {
                        let out: Vec<ValueRef<'_>> = columns.iter().map(|column| values[*column]).collect();
                        sink.row(&out);
                    })
                };
                match self.find(transaction, &key, show)? {
                    Point::Nowhere => Ok(Step::Done(0)),
                    Point::Away => Ok(Step::Read(key)),
                    Point::Row(shown) => Ok(shown.map(|()| Step::Done(1))?),
                }
            }
            Operation::Range { range, columns } => self.range(range, transaction, |values| {
                let out: Vec<ValueRef<'_>> = columns.iter().map(|column| values[*column]).collect();
                sink.row(&out);
            }),
            Operation::Delete { key } => {
                let Some(key) = self.key(key)? else { return Ok(Step::Done(0)) };
                match self.find(transaction, &key, |_| ())? {
                    Point::Nowhere => Ok(Step::Done(0)),
                    Point::Away => Ok(Step::Read(key)),
                    Point::Row(()) => {
                        self.delta.write(transaction, &key, None)?;
                        Ok(Step::Done(1))
                    }
                }
            }
            Operation::Update { key, assigned } => {
                let Some(key) = self.key(key)? else { return Ok(Step::Done(0)) };
                match self.find(transaction, &key, <[u8]>::to_vec)? {
                    Point::Nowhere => Ok(Step::Done(0)),
                    Point::Away => Ok(Step::Read(key)),
                    Point::Row(before) => self.update(&key, &before, assigned, transaction),
                }
            }
        }
    }

    /// Shows the rows of a range.
    fn range(
        &self,
        range: &Range,
        transaction: &Transaction<'_>,
        mut show: impl FnMut(&[ValueRef<'_>]),
    ) -> Result<Step, Refusal> {
        let inputs = Inputs { row: &[], parameters: self.values, now: 0 };
        let limit = match &range.limit {
            None => usize::MAX,
            Some(limit) => match limit.value(DataType::Int8, &inputs)? {
                ValueRef::Int8(rows) if rows >= 0 => usize::try_from(rows).unwrap_or(usize::MAX),
                ValueRef::Null => usize::MAX,
                _ => return Ok(Step::Ordinary),
            },
        };
        let layout = match range.index {
            None => Arc::clone(self.layout),
            Some(index) => Arc::new(self.table.index_layout(&self.table.indexes[index])),
        };
        let Some(bounds) = range.bounds(layout.key.columns(), &inputs)? else { return Ok(Step::Done(0)) };
        let direction = if range.is_reverse { Direction::Reverse } else { Direction::Forward };
        let short = Short { rows: limit, entries: ENTRIES_MAX, direction };
        let (reader, base) = (TableReader::new(self.table, self.delta, transaction), self.db.base_reader());
        let read = match range.index {
            None => reader.range_cached(&base, borrowed(&bounds), short)?,
            Some(index) => {
                let entries = IndexEntries::new(self.table, index);
                reader.index_range_cached(&base, &entries, borrowed(&bounds), short)?
            }
        };
        let Some(rows) = read else { return Ok(Step::Ordinary) };
        let mut decoder = EntryDecoder::new(Arc::clone(self.layout));
        for (key, row) in &rows {
            decoder.decode(self.table, key, row, &mut show)?;
        }
        Ok(Step::Done(rows.len() as u64))
    }

    fn update(
        &self,
        key: &[u8],
        before: &[u8],
        assigned: &[(usize, Expr)],
        transaction: &mut Transaction<'_>,
    ) -> Result<Step, Refusal> {
        let mut encoder = EntryEncoder::new(Arc::clone(self.layout));
        EntryDecoder::new(Arc::clone(self.layout)).decode(self.table, key, before, |row| {
            let inputs = Inputs { row, parameters: self.values, now: wall_micros() };
            let mut after = row.to_vec();
            for (column, expr) in assigned {
                after[*column] = self.checked(*column, expr, &inputs)?;
            }
            encoder.encode(&mut Vec::new(), |column| after[column])
        })??;
        if self.has_unique_index_on(assigned) {
            let mut writer = RowWriter::new(self.db, self.snapshot, self.table)?;
            writer.update(transaction, key, before, &encoder.row)?;
        } else {
            self.delta.write(transaction, key, Some(&encoder.row))?;
        }
        Ok(Step::Done(1))
    }

    fn insert(&self, values: &[Expr], transaction: &mut Transaction<'_>) -> Result<Step, Refusal> {
        if self.table.indexes.iter().any(|index| index.unique) {
            // Looked up in trees whose pages may be away.
            return Ok(Step::Ordinary);
        }
        let inputs = Inputs { row: &[], parameters: self.values, now: wall_micros() };
        let mut row = Vec::with_capacity(values.len() + 1);
        for (column, expr) in values.iter().enumerate() {
            row.push(self.checked(column, expr, &inputs)?);
        }
        let is_keyed = !self.table.primary_key.is_empty();
        if !is_keyed {
            row.push(ValueRef::Int8(self.delta.row_ids(1)));
        }
        let mut encoder = EntryEncoder::new(Arc::clone(self.layout));
        encoder.encode(&mut Vec::new(), |column| row[column])?;
        if is_keyed {
            match self.find(transaction, &encoder.key, |_| ())? {
                Point::Nowhere => {}
                Point::Away => return Ok(Step::Read(encoder.key)),
                Point::Row(()) => return Err(saki_store::load::duplicate(self.table, self.layout, &encoder.key).into()),
            }
        }
        self.delta.write(transaction, &encoder.key, Some(&encoder.row))?;
        Ok(Step::Done(1))
    }

    /// A value for a column that may have it.
    fn checked<'v>(&self, column: usize, expr: &'v Expr, inputs: &Inputs<'v>) -> Result<ValueRef<'v>> {
        let definition = &self.table.columns[column];
        let value = expr.value(definition.data_type, inputs)?;
        saki_catalog::columns::check_value(value, definition, self.table)?;
        Ok(value)
    }

    /// The key, encoded; `None` if a part of it is NULL, which equals nothing.
    fn key(&self, key: &[Expr]) -> Result<Option<Vec<u8>>> {
        let inputs = Inputs { row: &[], parameters: self.values, now: 0 };
        let mut values = Vec::with_capacity(key.len());
        for (expr, column) in key.iter().zip(&self.table.primary_key) {
            match expr.value(self.table.columns[*column].data_type, &inputs)? {
                ValueRef::Null => return Ok(None),
                value => values.push(value),
            }
        }
        let mut encoded = Vec::with_capacity(16);
        self.layout.key.encode(&values, &mut encoded).map_err(SqlError::from)?;
        Ok(Some(encoded))
    }

    fn find<T>(&self, transaction: &Transaction<'_>, key: &[u8], show: impl FnOnce(&[u8]) -> T) -> Result<Point<T>> {
        TableReader::new(self.table, self.delta, transaction).get_cached(&self.db.base_reader(), key, show)
    }

    fn has_unique_index_on(&self, assigned: &[(usize, Expr)]) -> bool {
        let is_assigned = |column: usize| assigned.iter().any(|(other, _)| *other == column);
        self.table.indexes.iter().any(|index| index.unique && index.columns.iter().any(|c| is_assigned(c.column)))
    }
}

fn borrowed((low, high): &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))
}

/// Rows kept as values.
#[derive(Default)]
struct Kept(Vec<Vec<Value>>);

impl RowSink for Kept {
    fn row(&mut self, values: &[ValueRef<'_>]) {
        self.0.push(values.iter().map(|value| Value::from(*value)).collect());
    }
}

impl Runner<'_> {
    /// Runs a statement that was read just now, if it can be compiled.
    pub async fn execute_statement(&self, statement: &ast::Statement) -> Result<Option<StatementResult>> {
        if self.db.engine.get().is_none() {
            return Ok(None);
        }
        let Some(plan) = FastPlan::compile(statement, &self.db.snapshot().catalog) else { return Ok(None) };
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

impl Kept {
    fn result(self, plan: &FastPlan, schema: SchemaRef) -> Result<StatementResult> {
        let column = |(place, (_, data_type)): (usize, &(String, DataType))| {
            array_of(*data_type, &self.0.iter().map(|row| row[place].clone()).collect::<Vec<_>>())
        };
        let arrays = plan.output.iter().enumerate().map(column).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        Ok(StatementResult::of_batch(schema, batch))
    }
}
