//! Changes of the rows that are found.

use std::sync::Arc;

use saki_base::ValueRef;
use saki_mvcc::Transaction;

use super::super::compile::has_unique_index_on;
use super::super::expr::{Expr, Inputs};
use super::super::plan::{Insert, Operation, Source};
use super::rows::{Entry, Running, Stopped};
use super::sink::RowSink;
use crate::dml::RowWriter;
use saki_catalog::{EntryDecoder, EntryEncoder};

impl Running<'_> {
    /// Carries a statement out: how many rows it gives or concerns. `outlives`: its transaction goes on after it.
    pub fn run(
        &self,
        operation: &Operation,
        outlives: bool,
        transaction: &mut Transaction<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<u64, Stopped> {
        match operation {
            Operation::Query(query) => self.query(query, transaction, query.holds && outlives, sink),
            Operation::Insert(insert) => self.insert(insert, transaction),
            Operation::Update { source, assigned } => {
                let rows = self.found(source, transaction)?;
                self.update(&rows, assigned, transaction)?;
                Ok(rows.len() as u64)
            }
            Operation::Delete(source) => {
                let rows = self.found(source, transaction)?;
                for (key, _) in &rows {
                    self.write(transaction, key, None)?;
                }
                Ok(rows.len() as u64)
            }
        }
    }

    /// All rows that are to be changed, before any is.
    fn found(&self, source: &Source, transaction: &Transaction<'_>) -> Result<Vec<Entry>, Stopped> {
        match self.single_key(source)? {
            None => self.rows(source, usize::MAX, transaction),
            Some(None) => Ok(Vec::new()),
            Some(Some(key)) => {
                let row = self.find(transaction, &key, <[u8]>::to_vec)?;
                Ok(row.map(|row| (key, row)).into_iter().collect())
            }
        }
    }

    fn update(
        &self,
        rows: &[Entry],
        assigned: &[(usize, Expr)],
        transaction: &mut Transaction<'_>,
    ) -> Result<(), Stopped> {
        let mut encoder = EntryEncoder::new(Arc::clone(self.layout));
        let mut decoder = EntryDecoder::new(Arc::clone(self.layout));
        let is_unique = has_unique_index_on(self.table, assigned);
        for (key, before) in rows {
            decoder.decode(self.table, key, before, |row| {
                let inputs = self.inputs_over(row);
                let mut after = row.to_vec();
                for (column, expr) in assigned {
                    after[*column] = self.checked(*column, expr, &inputs)?;
                }
                Ok::<_, Stopped>(encoder.encode(&mut Vec::new(), |column| after[column])?)
            })??;
            if is_unique {
                self.count(key, Some(&encoder.row))?;
                let mut writer = RowWriter::new(self.db, self.generation, self.table)?;
                writer.update(transaction, key, before, &encoder.row)?;
            } else {
                self.write(transaction, key, Some(&encoder.row))?;
            }
        }
        Ok(())
    }

    fn insert(&self, insert: &Insert, transaction: &mut Transaction<'_>) -> Result<u64, Stopped> {
        if self.table.indexes.iter().any(|index| index.unique) {
            // Looked up in trees whose pages may be away.
            return Err(Stopped::Ordinary);
        }
        let drawn = self.drawn(&insert.draws)?;
        let inputs = Inputs { drawn: &drawn, ..self.inputs() };
        let mut encoder = EntryEncoder::new(Arc::clone(self.layout));
        for values in &insert.rows {
            self.insert_row(values, &inputs, &mut encoder, transaction)?;
        }
        Ok(insert.rows.len() as u64)
    }

    fn insert_row(
        &self,
        values: &[Expr],
        inputs: &Inputs<'_>,
        encoder: &mut EntryEncoder,
        transaction: &mut Transaction<'_>,
    ) -> Result<(), Stopped> {
        let mut row = Vec::with_capacity(values.len() + 1);
        for (column, expr) in values.iter().enumerate() {
            row.push(self.checked(column, expr, inputs)?);
        }
        let is_keyed = !self.table.primary_key.is_empty();
        if !is_keyed {
            row.push(ValueRef::Int8(self.delta.row_ids(1)));
        }
        encoder.encode(&mut Vec::new(), |column| row[column])?;
        if is_keyed && self.find(transaction, &encoder.key, |_| ())?.is_some() {
            return Err(saki_store::load::duplicate(self.table, self.layout, &encoder.key).into());
        }
        self.write(transaction, &encoder.key, Some(&encoder.row))?;
        Ok(())
    }

    /// The next value of each sequence. One that has to be told durable first is waited for elsewhere.
    fn drawn(&self, sequences: &[String]) -> Result<Vec<i64>, Stopped> {
        sequences.iter().map(|text| self.sequences.nextval_ready(text)?.ok_or(Stopped::Ordinary)).collect()
    }

    /// A value for a column that may have it.
    fn checked<'v>(&self, column: usize, expr: &'v Expr, inputs: &Inputs<'v>) -> Result<ValueRef<'v>, Stopped> {
        let definition = &self.table.columns[column];
        let value = expr.value(inputs)?.assigned(definition.data_type)?;
        saki_catalog::columns::check_value(value, definition, self.table)?;
        Ok(value)
    }
}
