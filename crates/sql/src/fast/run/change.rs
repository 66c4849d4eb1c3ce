//! Changes of the rows that are found.

use std::sync::Arc;

use saki_base::ValueRef;
use saki_mvcc::Transaction;

use super::super::compile::has_unique_index_on;
use super::super::plan::{FastPlan, Insert, Operation, Source, Tree};
use super::rows::Running;
use super::sink::{Returned, RowSink};
use super::stopped::{Entry, Stopped};
use crate::dml::{RowWriter, refuse_twice, see_to, sort};
use saki_catalog::columns::{check_length, check_row};
use saki_catalog::{EntryDecoder, EntryEncoder};
use saki_context::transaction::Change;
use saki_context::values::expr::{Expr, Inputs};
use saki_store::{Missing, Point, Wanted};

impl Running<'_> {
    /// Carries a statement out: how many rows it gives or concerns. `outlives`: its transaction goes on after it.
    pub fn run(
        &self,
        plan: &FastPlan,
        outlives: bool,
        transaction: &mut Transaction<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<u64, Stopped> {
        let mut returned = Returned { columns: plan.returning.as_deref(), sink };
        let outcome = match &plan.operation {
            Operation::Query(query) => self.query(query, transaction, query.holds && outlives, returned.sink),
            Operation::Insert(insert) => self.insert(insert, transaction, &mut returned),
            Operation::Update { source, assigned } => self.update(source, assigned, transaction, &mut returned),
            Operation::Delete(source) => self.delete(source, transaction, &mut returned),
        };
        // Whatever was made of it: something was missing.
        self.missed.take().map_or(outcome, |missing| Err(missing.into()))
    }

    /// All rows that are to be changed, before any is.
    fn found(&self, source: &Source, transaction: &Transaction<'_>) -> Result<Vec<Entry>, Stopped> {
        match self.single_key(source)? {
            None => self.rows(source, transaction),
            Some(None) => Ok(Vec::new()),
            Some(Some(key)) => {
                let row = self.find(transaction, &key, <[u8]>::to_vec)?;
                Ok(row.map(|row| (key, row)).into_iter().collect())
            }
        }
    }

    /// Writes rows, and looks what that takes up in memory alone.
    fn writer(&self) -> RowWriter<'_> {
        RowWriter::of_layout(self.db.memory_reader(&self.missed), self.delta, self.table, self.layout)
    }

    fn delete(
        &self,
        source: &Source,
        transaction: &mut Transaction<'_>,
        returned: &mut Returned<'_>,
    ) -> Result<u64, Stopped> {
        let rows = self.found(source, transaction)?;
        let mut writer = self.writer();
        for (key, _) in &rows {
            self.count(key, None)?;
            writer.delete(transaction, key)?;
        }
        self.see_to(transaction, &mut rows.iter().map(|row| (Some(row), None)))?;
        returned.all(self, &rows)?;
        Ok(rows.len() as u64)
    }

    /// Sees to the keys of rows that were changed, between tables.
    fn see_to(
        &self,
        transaction: &mut Transaction<'_>,
        rows: &mut dyn Iterator<Item = (Option<&Entry>, Option<&Entry>)>,
    ) -> Result<(), Stopped> {
        if !self.rules.has_keys() {
            return Ok(());
        }
        let change = Change::from_memory(self.db, self.generation, &self.missed, transaction);
        let mut change = change.counted(self.waiting.as_ref()).leaving(self.deferring.as_ref());
        Ok(see_to(&mut change, self.table, &self.rules.actions, rows)?)
    }

    /// Checks rows as they are going to be, and fills their hidden columns.
    fn fill(&self, rows: &mut [Entry]) -> Result<(), Stopped> {
        Ok(self.rules.complete(self.table, rows)?)
    }

    fn update(
        &self,
        source: &Source,
        assigned: &[(usize, Expr)],
        transaction: &mut Transaction<'_>,
        returned: &mut Returned<'_>,
    ) -> Result<u64, Stopped> {
        let rows = self.found(source, transaction)?;
        // Which of several rows takes a value first is the planner's to say.
        if rows.len() > 1 && has_unique_index_on(self.table, assigned) {
            return Err(Stopped::Ordinary);
        }
        let mut decoder = EntryDecoder::new(Arc::clone(self.layout));
        let mut made = Vec::with_capacity(rows.len());
        for (key, before) in &rows {
            let with = |row: &[ValueRef<'_>]| self.with(row, assigned, &self.inputs_over(row));
            made.push(decoder.decode(self.table, key, before, with)??);
        }
        self.fill(&mut made)?;
        self.replace(&rows, &made, transaction)?;
        returned.all(self, &made)?;
        Ok(made.len() as u64)
    }

    /// Puts rows in the place of others with the same keys.
    fn replace(&self, before: &[Entry], after: &[Entry], transaction: &mut Transaction<'_>) -> Result<(), Stopped> {
        let mut writer = self.writer();
        for ((key, before), (_, after)) in before.iter().zip(after) {
            self.count(key, Some(after))?;
            writer.update(transaction, key, before, after)?;
        }
        self.see_to(transaction, &mut before.iter().zip(after).map(|(old, new)| (Some(old), Some(new))))
    }

    /// A row that is there with other values.
    fn with<'v>(
        &self,
        row: &[ValueRef<'v>],
        assigned: &'v [(usize, Expr)],
        inputs: &Inputs<'v>,
    ) -> Result<Entry, Stopped> {
        let mut after = row.to_vec();
        for (column, expr) in assigned {
            after[*column] = self.value(*column, expr, inputs)?;
        }
        self.entry(&after)
    }

    /// The entry of a row with a value in each column that wants one.
    fn entry(&self, row: &[ValueRef<'_>]) -> Result<Entry, Stopped> {
        check_row(row, self.table)?;
        let mut encoder = EntryEncoder::new(Arc::clone(self.layout));
        encoder.encode(&mut Vec::new(), |column| row[column])?;
        Ok((encoder.key, encoder.row))
    }

    fn insert(
        &self,
        insert: &Insert,
        transaction: &mut Transaction<'_>,
        returned: &mut Returned<'_>,
    ) -> Result<u64, Stopped> {
        let mut rows = self.new_rows(insert)?;
        self.fill(&mut rows)?;
        let mut writer = self.writer();
        let (mut made, mut before, mut after) = (rows, Vec::new(), Vec::new());
        if let Some(conflict) = &insert.conflict {
            self.bring(&made, transaction)?;
            let is_update = conflict.assigned.is_some();
            let sorted = sort(&mut writer.finder, &*transaction, conflict.arbiter, &made, is_update)?;
            refuse_twice(sorted.present.iter().map(|(_, row)| (row, is_update)))?;
            for (position, row) in sorted.present {
                let Some(assigned) = &conflict.assigned else { break };
                after.push(self.replaced(&row, &made[position as usize], assigned)?);
                before.push(row);
            }
            self.fill(&mut after)?;
            made = sorted.new.iter().map(|position| made[*position as usize].clone()).collect();
        }
        self.add(&made, &mut writer, transaction)?;
        self.see_to(transaction, &mut made.iter().map(|row| (None, Some(row))))?;
        self.replace(&before, &after, transaction)?;
        made.append(&mut after);
        returned.all(self, &made)?;
        Ok(made.len() as u64)
    }

    /// Writes new rows. What all of them miss in memory is known before it is read.
    fn add(
        &self,
        rows: &[Entry],
        writer: &mut RowWriter<'_>,
        transaction: &mut Transaction<'_>,
    ) -> Result<(), Stopped> {
        let mut away = Vec::new();
        for (key, row) in rows {
            self.count(key, Some(row))?;
            let Err(refusal) = writer.insert(transaction, key, row) else { continue };
            match self.missed.take() {
                Some(Missing::Pages(mut pages)) => away.append(&mut pages),
                Some(Missing::Long) => return Err(Stopped::Long),
                // A row before it may be the one that is refused.
                None if !away.is_empty() => break,
                None => return Err(refusal.into()),
            }
        }
        if away.is_empty() { Ok(()) } else { Err(Stopped::away(away)) }
    }

    /// Sees to it that what leads to the keys of several rows is in memory.
    fn bring(&self, rows: &[Entry], transaction: &Transaction<'_>) -> Result<(), Stopped> {
        if rows.len() < 2 || self.table.primary_key.is_empty() {
            return Ok(());
        }
        let (finder, mut away) = (self.finder(Tree::Keys, transaction), Vec::new());
        for (key, _) in rows {
            if matches!(finder.look(key, |_| ())?, Point::Away) {
                away.push(Wanted::key(&self.table.root, key));
            }
        }
        if away.is_empty() { Ok(()) } else { Err(Stopped::away(away)) }
    }

    /// The rows of an INSERT as entries.
    fn new_rows(&self, insert: &Insert) -> Result<Vec<Entry>, Stopped> {
        let inputs = self.inputs();
        let mut rows = Vec::with_capacity(insert.rows.len());
        for values in &insert.rows {
            let value = |(column, expr)| self.value(column, expr, &inputs);
            rows.push(values.iter().enumerate().map(value).collect::<Result<Vec<_>, _>>()?);
        }
        let mut entries = Vec::with_capacity(rows.len());
        for mut row in rows {
            if self.table.primary_key.is_empty() {
                row.push(ValueRef::Int8(self.delta.row_ids(1)));
            }
            entries.push(self.entry(&row)?);
        }
        Ok(entries)
    }

    /// A row that is there with other values, which may be those of the row that was to be `excluded`.
    fn replaced(&self, before: &Entry, excluded: &Entry, assigned: &[(usize, Expr)]) -> Result<Entry, Stopped> {
        let decoder = || EntryDecoder::new(Arc::clone(self.layout));
        decoder().decode(self.table, &excluded.0, &excluded.1, |excluded| {
            decoder().decode(self.table, &before.0, &before.1, |row| {
                self.with(row, assigned, &Inputs { excluded, ..self.inputs_over(row) })
            })
        })??
    }

    /// A value as a column has it.
    fn value<'v>(&self, column: usize, expr: &'v Expr, inputs: &Inputs<'v>) -> Result<ValueRef<'v>, Stopped> {
        let definition = &self.table.columns[column];
        let value = expr.value(inputs)?.assigned(definition.data_type)?;
        check_length(value, definition)?;
        Ok(value)
    }
}
