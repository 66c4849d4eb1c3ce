//! A delta as what lies over one tree: in the tree's own entries, whichever columns its key is made of.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use saki_exec::{EntryKeys, ExecError, Overlay, OverlayReader, VisitEntry};
use saki_mvcc::{Direction, KeyRange, Moment, Reader};

use super::{Eyes, IndexEntries, TableReader};
use crate::delta::Delta;
use saki_catalog::Table;

/// A delta over the primary tree of its table, or over that of an index.
pub struct TreeOverlay {
    table: Arc<Table>,
    delta: Arc<Delta>,
    moment: Moment,
    index: Option<Arc<IndexEntries>>,
}

impl TreeOverlay {
    pub fn new(table: &Arc<Table>, delta: Arc<Delta>, moment: Moment, index: Option<usize>) -> Self {
        let index = index.map(|index| Arc::new(IndexEntries::new(table, index)));
        Self { table: Arc::clone(table), delta, moment, index }
    }
}

impl fmt::Debug for TreeOverlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeOverlay").field("table", &self.table.name).finish_non_exhaustive()
    }
}

impl Overlay for TreeOverlay {
    fn reader(&self) -> Result<Box<dyn OverlayReader>, ExecError> {
        let eyes = self.moment.reader().map_err(|error| ExecError::Overlay(error.to_string()))?;
        let side = Side { table: Arc::clone(&self.table), delta: Arc::clone(&self.delta), eyes };
        Ok(match &self.index {
            None => Box::new(OverPrimary { side, key: Vec::new() }),
            Some(entries) => Box::new(OverIndex {
                side,
                entries: Arc::clone(entries),
                entry: Vec::new(),
                key: Vec::new(),
                row: Vec::new(),
            }),
        })
    }
}

/// A delta, and who looks at it.
struct Side {
    table: Arc<Table>,
    delta: Arc<Delta>,
    eyes: Reader,
}

impl Side {
    fn reader(&self) -> TableReader<'_, Reader> {
        TableReader::new(&self.table, &self.delta, &self.eyes)
    }
}

fn range<'k>(low: Option<&'k [u8]>, high: Option<&'k [u8]>) -> KeyRange<'k> {
    KeyRange::between(low.map_or(Bound::Unbounded, Bound::Included), high.map_or(Bound::Unbounded, Bound::Excluded))
}

/// Over the primary tree: the delta's own keys and bodies.
struct OverPrimary {
    side: Side,
    key: Vec<u8>,
}

impl OverlayReader for OverPrimary {
    fn hide(&mut self, keys: &EntryKeys<'_>, hidden: &mut [bool]) -> Result<(), ExecError> {
        if keys.is_empty() {
            return Ok(());
        }
        let reader = self.side.reader();
        if !keys.are_neighbours() {
            for (index, hidden) in hidden.iter_mut().enumerate() {
                keys.read(index, &mut self.key);
                *hidden = reader.hides(&self.key);
            }
            return Ok(());
        }
        let (mut first, mut last) = (Vec::new(), Vec::new());
        keys.read(0, &mut first);
        keys.read(keys.len() - 1, &mut last);
        let between = KeyRange::between(Bound::Included(&first), Bound::Included(&last));
        Eyes::scan(reader.eyes, reader.newer, &between, Direction::Forward, |key, _| {
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
        let reader = self.side.reader();
        Eyes::scan(reader.eyes, reader.newer, &range(low, high), Direction::Forward, |key, body| match body {
            Some(body) => visit(key, body),
            None => ControlFlow::Continue(()),
        });
        Ok(())
    }
}

/// Over the tree of an index.
struct OverIndex {
    side: Side,
    entries: Arc<IndexEntries>,
    entry: Vec<u8>,
    key: Vec<u8>,
    row: Vec<u8>,
}

impl OverlayReader for OverIndex {
    fn hide(&mut self, keys: &EntryKeys<'_>, hidden: &mut [bool]) -> Result<(), ExecError> {
        let reader = self.side.reader();
        for (index, hidden) in hidden.iter_mut().enumerate() {
            keys.read(index, &mut self.entry);
            self.key.clear();
            self.entries.primary_key(&self.entry, &mut self.key).map_err(ExecError::Overlay)?;
            *hidden = reader.hides(&self.key);
        }
        Ok(())
    }

    fn entries(
        &mut self,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        visit: &mut VisitEntry<'_>,
    ) -> Result<(), ExecError> {
        let (reader, entries, row) = (self.side.reader(), &self.entries, &mut self.row);
        let (index, between) = (entries.index, range(low, high));
        let mut outcome = Ok(());
        let mut show = |entry: &[u8], key: &[u8], body: &[u8]| match entries.included(key, body, row) {
            Ok(()) => visit(entry, row),
            Err(error) => {
                outcome = Err(ExecError::Overlay(error));
                ControlFlow::Break(())
            }
        };
        Eyes::scan_index(reader.eyes, reader.newer, index, &between, Direction::Forward, &mut show);
        outcome
    }
}
