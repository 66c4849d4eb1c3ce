//! Rows by the values of some of their columns, through the tree whose key begins with most of them.

use std::ops::ControlFlow;
use std::sync::Arc;

use saki_base::{Value, ValueRef};
use saki_mvcc::{KeyRange, Transaction};

use super::finder::Finder;
use saki_catalog::{EntryDecoder, EntryLayout, Result, SqlError, Table};
use saki_store::{Entry, IndexEntries, Stop, TableReader};

/// What is looked for.
struct Wanted<'w> {
    table: &'w Table,
    layout: Arc<EntryLayout>,
    columns: &'w [usize],
    values: &'w [Value],
}

impl Wanted<'_> {
    fn is_met_by(&self, key: &[u8], row: &[u8]) -> Result<bool> {
        EntryDecoder::new(Arc::clone(&self.layout)).decode(self.table, key, row, |found| {
            self.columns.iter().zip(self.values).all(|(column, value)| Value::from(found[*column]) == *value)
        })
    }

    /// The values of the leading key columns, as far as they are known.
    fn leading(&self, layout: &EntryLayout) -> Vec<ValueRef<'_>> {
        let known = |key: &usize| self.columns.iter().position(|column| column == key);
        layout.key_columns.iter().map_while(known).map(|place| self.values[place].as_ref()).collect()
    }

    /// The tree that is read, `None` for the primary one, and what its keys begin with.
    fn way(&self) -> Result<(Option<usize>, Vec<u8>)> {
        let indexes = self.table.indexes.iter().enumerate();
        let indexes = indexes.map(|(place, index)| (Some(place), Arc::new(self.table.index_layout(index))));
        let mut best = (None, Arc::clone(&self.layout));
        for (place, layout) in indexes {
            // Of ways that are as narrow, the one without a second look-up.
            if self.leading(&layout).len() > self.leading(&best.1).len() {
                best = (place, layout);
            }
        }
        let (index, layout) = best;
        let mut prefix = Vec::new();
        layout.key.encode(&self.leading(&layout), &mut prefix).map_err(SqlError::from)?;
        Ok((index, prefix))
    }
}

impl Finder<'_> {
    /// Entries of the rows whose `columns` have these values. Waits for storage; reads the whole table if no key begins
    /// with one of them.
    ///
    /// # Errors
    /// Those of storage.
    pub fn rows_with(
        &mut self,
        transaction: &Transaction<'_>,
        columns: &[usize],
        values: &[Value],
    ) -> Result<Vec<Entry>> {
        let table = Arc::clone(&self.table);
        let wanted = Wanted { table: &table, layout: Arc::clone(&self.layout), columns, values };
        let (index, prefix) = wanted.way()?;
        let mut entries = Vec::new();
        let stop = self.stop;
        let mut keep = |key: &[u8], row: &[u8]| {
            stop.map_or(Ok(()), Stop::check)?;
            if wanted.is_met_by(key, row)? {
                entries.push((key.to_vec(), row.to_vec()));
            }
            Ok(())
        };
        let reader = TableReader::new(&table, &self.delta, transaction);
        match index {
            None => reader.range(&mut self.base, &KeyRange::prefix(&prefix), |key, row| {
                keep(key, row).map(ControlFlow::Continue)
            })?,
            Some(index) => {
                reader.index_prefix(&mut self.base, &IndexEntries::new(&table, index), &prefix, &mut keep)?;
            }
        }
        Ok(entries)
    }
}
