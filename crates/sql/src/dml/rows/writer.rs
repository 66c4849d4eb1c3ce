//! Rows into a delta, with the constraints that keys are: what the engine cannot see, because it lies in the base, is
//! looked up here.

use std::sync::Arc;

use arrow_array::RecordBatch;
use saki_base::panics::{self, Place};
use saki_mvcc::Transaction;

use super::finder::Finder;
use saki_catalog::columns::check_batch;
use saki_catalog::{ColumnReader, EntryDecoder, EntryEncoder, EntryLayout, Result, SqlError, Table};
use saki_context::transaction::{Change, Refusal};
use saki_store::load::{duplicate, not_unique};
use saki_store::{BaseReader, Delta, Entry, Generation};

/// Writes rows of one table in one transaction.
pub struct RowWriter<'d> {
    pub finder: Finder<'d>,
}

impl<'d> RowWriter<'d> {
    /// `base` reads what is not in the delta.
    pub fn new(base: BaseReader<'d>, generation: &Generation, table: &Arc<Table>) -> Result<Self> {
        let delta = generation.delta(table).ok_or_else(|| SqlError::internal("a table without a delta is written"))?;
        Ok(Self::of_layout(base, delta, table, &Arc::new(table.primary_layout())))
    }

    /// For a change of a statement, until that is told to stop.
    pub fn of_change(change: &Change<'d, '_>, table: &Arc<Table>) -> Result<Self> {
        let mut writer = Self::new(change.base(), change.generation, table)?;
        writer.finder.stop = change.stop();
        Ok(writer)
    }

    /// The same of a table's delta, with the layout of its primary entries at hand.
    pub fn of_layout(base: BaseReader<'d>, delta: &Arc<Delta>, table: &Arc<Table>, layout: &Arc<EntryLayout>) -> Self {
        Self { finder: Finder::new(table, delta, layout, base) }
    }

    /// Rows of a batch of the table's own types, checked, as entries; hidden row ids are taken.
    pub fn encode(&self, batch: &RecordBatch, first_row: u64) -> Result<Vec<Entry>> {
        let table = &self.finder.table;
        check_batch(batch, table, first_row)?;
        let first_id = match table.primary_key.is_empty() {
            true => self.finder.delta.row_ids(batch.num_rows()),
            false => 0,
        };
        let readers = ColumnReader::of_batch(batch, table, first_id)?;
        self.entries(&readers, batch.num_rows())
    }

    /// The same, with the readers of all columns given, that of the hidden row id too.
    pub fn entries(&self, readers: &[ColumnReader<'_>], rows: usize) -> Result<Vec<Entry>> {
        let mut encoder = EntryEncoder::new(Arc::clone(&self.finder.layout));
        let mut scratch = Vec::new();
        let entry = |row: usize| {
            self.finder.check()?;
            encoder.encode_row(&mut scratch, readers, row)?;
            Ok((encoder.key.clone(), encoder.row.clone()))
        };
        (0..rows).map(entry).collect()
    }

    /// Adds a row.
    ///
    /// # Errors
    /// 23505 where its key, or its values in a unique index, are there already.
    pub fn insert(&mut self, transaction: &mut Transaction<'_>, key: &[u8], row: &[u8]) -> Result<(), Refusal> {
        let is_keyed = !self.finder.table.primary_key.is_empty();
        if is_keyed && self.finder.get(transaction, key)?.is_some() {
            // A row that this snapshot sees and another transaction is deleting makes its own conflict, at the write.
            return Err(duplicate(&self.finder.table, &self.finder.layout, key).into());
        }
        self.check_uniques(transaction, key, row, None)?;
        self.write(transaction, key, Some(row))
    }

    /// Gives the row of a key, which is there, a new content.
    pub fn update(
        &mut self,
        transaction: &mut Transaction<'_>,
        key: &[u8],
        before: &[u8],
        row: &[u8],
    ) -> Result<(), Refusal> {
        self.check_uniques(transaction, key, row, Some(before))?;
        self.write(transaction, key, Some(row))
    }

    /// Removes the row of a key, which is there.
    pub fn delete(&mut self, transaction: &mut Transaction<'_>, key: &[u8]) -> Result<(), Refusal> {
        self.write(transaction, key, None)
    }

    /// Writes the row of a key, which is there, anew as it is: whoever changes it meets that.
    pub fn hold(&self, transaction: &mut Transaction<'_>, key: &[u8], row: &[u8]) -> Result<(), Refusal> {
        self.write(transaction, key, Some(row))
    }

    fn write(&self, transaction: &mut Transaction<'_>, key: &[u8], row: Option<&[u8]>) -> Result<(), Refusal> {
        self.finder.check()?;
        self.finder.delta.write(transaction, key, row)?;
        panics::pass(Place::Writing);
        Ok(())
    }

    /// Whether two rows of one key have different values in a unique index.
    pub fn is_otherwise_unique(&mut self, key: &[u8], before: &[u8], row: &[u8]) -> Result<bool> {
        for unique in 0..self.finder.uniques() {
            if !self.stays(unique, key, before, row)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether two rows of one key have the same values in a unique index.
    fn stays(&mut self, unique: usize, key: &[u8], before: &[u8], row: &[u8]) -> Result<bool> {
        Ok(before == row || self.finder.values(unique, key, before)? == self.finder.values(unique, key, row)?)
    }

    fn check_uniques(
        &mut self,
        transaction: &Transaction<'_>,
        key: &[u8],
        row: &[u8],
        before: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        for unique in 0..self.finder.uniques() {
            // Values that stay are this row's already.
            if let Some(before) = before
                && self.stays(unique, key, before, row)?
            {
                continue;
            }
            if let Some(other) = self.finder.same(transaction, unique, key, row)?
                && other != key
            {
                return Err(self.not_unique(unique, key, row).into());
            }
        }
        Ok(())
    }

    fn not_unique(&self, unique: usize, key: &[u8], row: &[u8]) -> SqlError {
        let (table, index) = (&self.finder.table, self.finder.unique(unique));
        let mut encoder = EntryEncoder::new(table.index_layout(&table.indexes[index]));
        match EntryDecoder::new(Arc::clone(&self.finder.layout)).encode(table, key, row, &mut encoder) {
            Ok(()) => not_unique(table, index, &encoder.layout, &encoder.key),
            Err(error) => error,
        }
    }
}
