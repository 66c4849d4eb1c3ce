//! Rows by an index: how its entries and those of the primary tree are made of each other, and what is found by them.

use std::ops::{Bound, ControlFlow};

use saki_base::planted::{self, Fault};
use saki_base::{KeyLayout, RowLayout, ValueRef};
use saki_mvcc::{Direction, IndexId, KeyRange};
use saki_tree::Wanted;

use super::memory::Missed;
use super::range::{Met, weight};
use super::{BaseReader, Entry, Eyes, Short, Shortly, TableReader};
use saki_catalog::{EntryLayout, Result, SqlError, Table};

/// How entries of an index and of the primary tree are made of each other.
pub struct IndexEntries {
    pub(super) index: IndexId,
    entry: EntryLayout,
    primary: EntryLayout,
    /// For each column of the primary key: its place in the entry's key, and whether it is stored complemented there.
    primary_key: Vec<(usize, bool)>,
}

impl IndexEntries {
    /// Of the index at this place among those of the table.
    pub fn new(table: &Table, index: usize) -> Self {
        let (entry, primary) = (table.index_layout(&table.indexes[index]), table.primary_layout());
        let place = |column: &usize| {
            let place = entry.key_columns.iter().position(|c| c == column).expect("an entry has the whole primary key");
            (place, entry.key.columns()[place].descending)
        };
        let primary_key = primary.key_columns.iter().map(place).collect();
        Self { index: IndexId(index), entry, primary, primary_key }
    }

    /// The index's place among those of its table.
    pub fn index(&self) -> usize {
        self.index.0
    }

    /// Appends the primary key that an entry's key carries. Columns are encoded by themselves, so they are copied.
    pub fn primary_key(&self, entry: &[u8], key: &mut Vec<u8>) -> Result<(), String> {
        let layout: &KeyLayout = &self.entry.key;
        for (place, is_complemented) in &self.primary_key {
            let start = layout.offset(entry, *place).map_err(|error| error.to_string())?;
            let end = layout.offset(entry, place + 1).map_err(|error| error.to_string())?;
            let bytes = entry.get(start..end).ok_or("an entry's key is too short")?;
            match is_complemented {
                false => key.extend_from_slice(bytes),
                true => key.extend(bytes.iter().map(|byte| !byte)),
            }
        }
        Ok(())
    }

    /// Replaces `row` by what an entry carries along.
    pub(super) fn included(&self, key: &[u8], body: &[u8], row: &mut Vec<u8>) -> Result<(), String> {
        row.clear();
        let layout: &RowLayout = &self.primary.row;
        let view = layout.view(body);
        let mut scratches = vec![Vec::new(); self.entry.row_columns.len()];
        let mut values: Vec<ValueRef<'_>> = Vec::with_capacity(scratches.len());
        for (column, scratch) in self.entry.row_columns.iter().zip(&mut scratches) {
            let in_row = self.primary.row_columns.iter().position(|c| c == column);
            let in_key = self.primary.key_columns.iter().position(|c| c == column);
            values.push(match (in_row, in_key) {
                (Some(place), _) => view.value(place).map_err(|error| error.to_string())?,
                (None, Some(place)) => {
                    self.primary.key.decode(key, place, scratch).map_err(|error| error.to_string())?
                }
                (None, None) => return Err("an index carries a column that its table has not".into()),
            });
        }
        self.entry.row.encode(&values, row).map_err(|error| error.to_string())
    }
}

impl<E: Eyes> TableReader<'_, E> {
    /// The rows whose entries in an index are in a short range, in the order of reading.
    ///
    /// # Errors
    /// Those of the base's pages, and of entries that are none.
    pub fn index_range_cached(
        &self,
        base: &BaseReader<'_>,
        entries: &IndexEntries,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        short: Short,
    ) -> Result<Shortly<Vec<Entry>>> {
        let mut rows = match self.base_entries_cached(base, entries, bounds, short)? {
            Shortly::Rows(rows) => rows,
            Shortly::Long => return Ok(Shortly::Long),
            Shortly::Away(index) => return Ok(Shortly::Away(index)),
        };
        let (mut read, mut away) = (0, Vec::new());
        for met in &mut rows {
            let (key, row) = &mut met.entry;
            if base.get_cached(&self.table.root, key, row)? != Some(true) {
                away.push(Wanted::key(&self.table.root, key));
            }
            read += weight(row);
            if read > short.entries {
                return Ok(Shortly::Long);
            }
        }
        if !away.is_empty() {
            return Ok(Shortly::Away(away));
        }
        let (of_base, mut read) = (rows.len(), 0);
        let range = KeyRange::between(bounds.0, bounds.1);
        self.eyes.scan_index(self.newer, entries.index, &range, short.direction, |entry, key, body| {
            read += weight(body);
            rows.push(Met { place: entry.to_vec(), entry: (key.to_vec(), body.to_vec()) });
            short.go_on(rows.len() - of_base, read)
        });
        if read > short.entries {
            return Ok(Shortly::Long);
        }
        short.order(&mut rows, |met| &met.place);
        Ok(Shortly::Rows(rows.into_iter().map(|met| met.entry).collect()))
    }

    /// Entries of the base that are not hidden, with keys and no rows yet.
    fn base_entries_cached(
        &self,
        base: &BaseReader<'_>,
        entries: &IndexEntries,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        short: Short,
    ) -> Result<Shortly<Vec<Met>>> {
        let mut read = 0;
        let mut rows: Vec<Met> = Vec::new();
        let mut outcome = Ok(());
        let tree = &self.table.indexes[entries.index.0].root;
        let is_there = base.range_cached(tree, bounds, short.is_reverse(), |entry, _| {
            read += 1;
            let mut key = Vec::new();
            if let Err(error) = entries.primary_key(entry, &mut key) {
                outcome = Err(SqlError::corrupt(error));
                return ControlFlow::Break(());
            }
            if !self.hides(&key) {
                rows.push(Met { place: entry.to_vec(), entry: (key, Vec::new()) });
            }
            short.go_on(rows.len(), read)
        })?;
        outcome?;
        Ok(match is_there {
            false => Shortly::Away(vec![Wanted::range(tree, bounds, short.is_reverse())]),
            true if read > short.entries => Shortly::Long,
            true => Shortly::Rows(rows),
        })
    }

    /// Visits the rows whose entries in an index begin with `prefix`, in no order. Waits for storage.
    ///
    /// # Errors
    /// Those of storage, and those of `visit`.
    pub fn index_prefix(
        &self,
        base: &mut BaseReader<'_>,
        entries: &IndexEntries,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (range, missed) = (KeyRange::prefix(prefix), base.missed());
        let mut outcome = Ok(());
        self.eyes.scan_index(self.newer, entries.index, &range, Direction::Forward, |_, key, body| {
            outcome = missed.map_or(Ok(()), Missed::count).and_then(|()| visit(key, body));
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        outcome?;
        let mut keys = Vec::new();
        self.base_keys(base, entries, prefix, |key| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        for key in keys {
            if let Some(row) = base.get(&self.table.root, &key)? {
                visit(&key, &row)?;
            }
        }
        Ok(())
    }

    /// The primary key of a row whose entry in an index begins with `prefix`, if there is one. Waits for storage.
    ///
    /// # Errors
    /// Those of storage.
    pub fn key_by_index(
        &self,
        base: &mut BaseReader<'_>,
        entries: &IndexEntries,
        prefix: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        if !planted::is(Fault::NewerRowsForgotten) {
            let range = KeyRange::prefix(prefix);
            self.eyes.scan_index(self.newer, entries.index, &range, Direction::Forward, |_, key, _| {
                found = Some(key.to_vec());
                ControlFlow::Break(())
            });
        }
        if found.is_none() {
            self.base_keys(base, entries, prefix, |key| {
                found = Some(key.to_vec());
                ControlFlow::Break(())
            })?;
        }
        Ok(found)
    }

    /// Visits the primary keys in entries of the base that begin with `prefix` and are not hidden, until `visit`
    /// breaks.
    ///
    /// # Errors
    /// Those of storage.
    pub(crate) fn base_keys(
        &self,
        base: &mut BaseReader<'_>,
        entries: &IndexEntries,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let range = KeyRange::prefix(prefix);
        let (low, high) = range.bounds();
        let mut found = base.range(&self.table.indexes[entries.index.0].root, low, high)?;
        let mut key = Vec::new();
        while let Some((entry, _)) = found.next()? {
            key.clear();
            entries.primary_key(entry, &mut key).map_err(SqlError::corrupt)?;
            if !self.hides(&key) && visit(&key).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}
