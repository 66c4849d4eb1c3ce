//! A delta as what lies over one tree: in the tree's own entries, whichever columns its key is made of.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use saki_base::{KeyLayout, RowLayout, ValueRef};
use saki_exec::{EntryKeys, ExecError, Overlay, OverlayReader, VisitEntry};
use saki_mvcc::{Direction, IndexId, KeyRange, Reader, Seen, View};

use super::Delta;
use crate::catalog::{EntryLayout, Table};

/// A delta over the primary tree of its table, or over that of an index.
pub struct TreeOverlay {
    delta: Arc<Delta>,
    moment: View,
    index: Option<Arc<IndexEntries>>,
    name: String,
}

impl TreeOverlay {
    pub fn new(table: &Table, delta: Arc<Delta>, moment: View, index: Option<usize>) -> Self {
        let name = table.name.clone();
        let index = index.map(|index| Arc::new(IndexEntries::new(table, index)));
        Self { delta, moment, index, name }
    }
}

impl fmt::Debug for TreeOverlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeOverlay").field("table", &self.name).finish_non_exhaustive()
    }
}

impl Overlay for TreeOverlay {
    fn reader(&self) -> Result<Box<dyn OverlayReader>, ExecError> {
        let reader = self.moment.reader().map_err(|error| ExecError::Overlay(error.to_string()))?;
        let delta = Arc::clone(&self.delta);
        Ok(match &self.index {
            None => Box::new(PrimaryReader { delta, reader, key: Vec::new() }),
            Some(entries) => Box::new(IndexReader {
                delta,
                reader,
                entries: Arc::clone(entries),
                keys: Vec::new(),
                key: Vec::new(),
                row: Vec::new(),
            }),
        })
    }
}

/// Whether a delta has something to say of a key.
fn is_known(seen: Seen<&[u8]>) -> bool {
    !matches!(seen, Seen::Absent)
}

fn range<'k>(low: Option<&'k [u8]>, high: Option<&'k [u8]>) -> KeyRange<'k> {
    KeyRange::between(low.map_or(Bound::Unbounded, Bound::Included), high.map_or(Bound::Unbounded, Bound::Excluded))
}

/// Over the primary tree: the delta's own keys and bodies.
struct PrimaryReader {
    delta: Arc<Delta>,
    reader: Reader,
    key: Vec<u8>,
}

impl OverlayReader for PrimaryReader {
    fn hide(&mut self, keys: &EntryKeys<'_>, hidden: &mut [bool]) -> Result<(), ExecError> {
        if keys.is_empty() {
            return Ok(());
        }
        if !keys.are_neighbours() {
            for (index, hidden) in hidden.iter_mut().enumerate() {
                keys.read(index, &mut self.key);
                *hidden = self.reader.look(&self.delta.rows, &self.key, is_known);
            }
            return Ok(());
        }
        let (mut first, mut last) = (Vec::new(), Vec::new());
        keys.read(0, &mut first);
        keys.read(keys.len() - 1, &mut last);
        let between = KeyRange::between(Bound::Included(&first), Bound::Included(&last));
        self.reader.scan(&self.delta.rows, &between, Direction::Forward, |key, _, _| {
            hidden[keys.positions(key)].fill(true);
            ControlFlow::Continue(())
        });
        Ok(())
    }

    fn entries(
        &mut self,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<(), ExecError> {
        self.reader.scan(&self.delta.rows, &range(low, high), Direction::Forward, |key, body, _| match body {
            Some(body) => visit(key, body),
            None => ControlFlow::Continue(()),
        });
        Ok(())
    }
}

/// How entries of an index and of the primary tree are made of each other.
pub(crate) struct IndexEntries {
    index: IndexId,
    entry: EntryLayout,
    primary: EntryLayout,
    /// For each column of the primary key: its place in the entry's key, and whether it is stored complemented there.
    primary_key: Vec<(usize, bool)>,
}

impl IndexEntries {
    pub fn new(table: &Table, index: usize) -> Self {
        let (entry, primary) = (table.index_layout(&table.indexes[index]), table.primary_layout());
        let place = |column: &usize| {
            let place = entry.key_columns.iter().position(|c| c == column).expect("an entry has the whole primary key");
            (place, entry.key.columns()[place].descending)
        };
        let primary_key = primary.key_columns.iter().map(place).collect();
        Self { index: IndexId(index), entry, primary, primary_key }
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
    fn included(&self, key: &[u8], body: &[u8], row: &mut Vec<u8>) -> Result<(), String> {
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

/// Over the tree of an index.
struct IndexReader {
    delta: Arc<Delta>,
    reader: Reader,
    entries: Arc<IndexEntries>,
    keys: Vec<u8>,
    key: Vec<u8>,
    row: Vec<u8>,
}

impl OverlayReader for IndexReader {
    fn hide(&mut self, keys: &EntryKeys<'_>, hidden: &mut [bool]) -> Result<(), ExecError> {
        for (index, hidden) in hidden.iter_mut().enumerate() {
            keys.read(index, &mut self.key);
            self.keys.clear();
            self.entries.primary_key(&self.key, &mut self.keys).map_err(ExecError::Overlay)?;
            *hidden = self.reader.look(&self.delta.rows, &self.keys, is_known);
        }
        Ok(())
    }

    fn entries(
        &mut self,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<(), ExecError> {
        let (entries, row) = (&self.entries, &mut self.row);
        let mut outcome = Ok(());
        self.reader.scan_index(
            &self.delta.rows,
            entries.index,
            &range(low, high),
            Direction::Forward,
            |entry, key, body| match entries.included(key, body, row) {
                Ok(()) => visit(entry, row),
                Err(error) => {
                    outcome = Err(ExecError::Overlay(error));
                    ControlFlow::Break(())
                }
            },
        );
        outcome
    }
}
