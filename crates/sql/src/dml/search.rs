//! Rows by the values of some of their columns, through the tree whose key begins with most of them.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use saki_base::{Value, ValueRef};
use saki_mvcc::{Direction, IndexId, KeyRange, Seen, Transaction};

use super::finder::Finder;
use super::writer::Entry;
use crate::catalog::{EntryLayout, Table};
use crate::database::tree_error;
use crate::delta::IndexEntries;
use crate::entries::{EntryDecoder, key_error};
use crate::error::{Result, SqlError};

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
        layout.key.encode(&self.leading(&layout), &mut prefix).map_err(key_error)?;
        Ok((index, prefix))
    }
}

impl Finder<'_> {
    /// Entries of the rows whose `columns` have these values. Waits for storage; reads the whole table if no key begins with one of them.
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
        match wanted.way()? {
            (None, prefix) => self.by_key(transaction, &wanted, prefix),
            (Some(index), prefix) => self.by_index(transaction, &wanted, index, prefix),
        }
    }

    fn by_key(&mut self, transaction: &Transaction<'_>, wanted: &Wanted<'_>, prefix: Vec<u8>) -> Result<Vec<Entry>> {
        let range = KeyRange::prefix(&prefix);
        let (low, high) = range.bounds();
        let mut entries = Vec::new();
        let mut known = HashSet::new();
        let mut outcome = Ok(());
        transaction.scan_all(&self.delta.rows, &range, Direction::Forward, |key, body| {
            known.insert(key.to_vec());
            keep(wanted, key, body, &mut entries, &mut outcome)
        });
        outcome?;
        let mut base = self.base.range(&wanted.table.root, low, high)?;
        while let Some((key, row)) = base.next().map_err(tree_error)? {
            if !known.contains(key) && wanted.is_met_by(key, row)? {
                entries.push((key.to_vec(), row.to_vec()));
            }
        }
        Ok(entries)
    }

    fn by_index(
        &mut self,
        transaction: &Transaction<'_>,
        wanted: &Wanted<'_>,
        index: usize,
        prefix: Vec<u8>,
    ) -> Result<Vec<Entry>> {
        let range = KeyRange::prefix(&prefix);
        let (low, high) = range.bounds();
        let mut entries = Vec::new();
        let mut outcome = Ok(());
        transaction.scan_index(&self.delta.rows, IndexId(index), &range, Direction::Forward, |_, found| {
            keep(wanted, found.key, Some(found.body), &mut entries, &mut outcome)
        });
        outcome?;
        let of_index = IndexEntries::new(wanted.table, index);
        let mut keys = Vec::new();
        let mut base = self.base.range(&wanted.table.indexes[index].root, low, high)?;
        while let Some((entry, _)) = base.next().map_err(tree_error)? {
            let mut key = Vec::new();
            of_index.primary_key(entry, &mut key).map_err(SqlError::corrupt)?;
            if matches!(transaction.look(&self.delta.rows, &key), Seen::Absent) {
                keys.push(key);
            }
        }
        for key in keys {
            if let Some(row) = self.base.get(&wanted.table.root, &key)?
                && wanted.is_met_by(&key, &row)?
            {
                entries.push((key, row));
            }
        }
        Ok(entries)
    }
}

/// Keeps a row of the delta, if it is wanted.
fn keep(
    wanted: &Wanted<'_>,
    key: &[u8],
    body: Option<&[u8]>,
    entries: &mut Vec<Entry>,
    outcome: &mut Result<()>,
) -> ControlFlow<()> {
    let Some(body) = body else { return ControlFlow::Continue(()) };
    match wanted.is_met_by(key, body) {
        Ok(true) => entries.push((key.to_vec(), body.to_vec())),
        Ok(false) => {}
        Err(error) => {
            *outcome = Err(error);
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}
