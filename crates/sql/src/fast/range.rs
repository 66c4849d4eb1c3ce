//! Short ranges: the rows whose keys in the primary tree or in an index begin with given values, in the order of the keys.
//!
//! Both sides are read at most [`ENTRIES_MAX`] entries far, from memory alone; what takes more goes the ordinary way.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use saki_base::key::{encode_column, prefix_successor};
use saki_base::{DataType, KeyColumn, ValueRef};
use saki_mvcc::{Direction, IndexId, KeyRange, Seen, Transaction};

use super::expr::{Expr, Inputs};
use super::run::{Running, Step};
use crate::delta::IndexEntries;
use crate::entries::{EntryDecoder, key_error};
use crate::error::Result;
use crate::transaction::Refusal;

/// Entries that are read on either side at most.
const ENTRIES_MAX: usize = 1000;

/// Which keys of a tree.
#[derive(Debug)]
pub struct Range {
    /// `None`: the primary tree.
    pub index: Option<usize>,
    /// Values of the leading key columns.
    pub prefix: Vec<Expr>,
    /// Of the key column behind the prefix, which has no NULLs; `true`: the value itself is in the range.
    pub low: Option<(Expr, bool)>,
    pub high: Option<(Expr, bool)>,
    pub is_reverse: bool,
    pub limit: Option<Expr>,
}

/// Encoded bounds.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A key that a range ends at, and whether it is in it; `None`: the range is open there.
type End = Option<(Vec<u8>, bool)>;

/// A row on its way out: its entry in the tree that is read, and its primary entry.
struct Met {
    entry: Vec<u8>,
    key: Vec<u8>,
    row: Vec<u8>,
}

impl Running<'_> {
    /// Shows the rows of a range.
    pub fn range(
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
        let Some(bounds) = self.bounds(range, &inputs)? else { return Ok(Step::Done(0)) };
        let read = match range.index {
            None => self.read_primary(&bounds, range.is_reverse, limit, transaction)?,
            Some(index) => self.read_index(index, &bounds, range.is_reverse, limit, transaction)?,
        };
        let Some(rows) = read else { return Ok(Step::Ordinary) };
        let mut decoder = EntryDecoder::new(Arc::clone(self.layout));
        for met in &rows {
            decoder.decode(self.table, &met.key, &met.row, &mut show)?;
        }
        Ok(Step::Done(rows.len() as u64))
    }

    /// `None` if a value is NULL, which equals nothing and is on no side of anything.
    fn bounds(&self, range: &Range, inputs: &Inputs<'_>) -> Result<Option<Bounds>> {
        let layout = match range.index {
            None => Arc::clone(self.layout),
            Some(index) => Arc::new(self.table.index_layout(&self.table.indexes[index])),
        };
        let columns = layout.key.columns();
        let mut prefix = Vec::with_capacity(16);
        for (expr, column) in range.prefix.iter().zip(columns) {
            if !append(expr, *column, inputs, &mut prefix)? {
                return Ok(None);
            }
        }
        let end = |bound: &Option<(Expr, bool)>| -> Result<Option<End>> {
            let (Some((expr, is_inclusive)), Some(column)) = (bound, columns.get(range.prefix.len())) else {
                return Ok(Some(None));
            };
            let mut key = prefix.clone();
            Ok(append(expr, *column, inputs, &mut key)?.then_some(Some((key, *is_inclusive))))
        };
        let (Some(mut low), Some(mut high)) = (end(&range.low)?, end(&range.high)?) else { return Ok(None) };
        if columns.get(range.prefix.len()).is_some_and(|column| column.descending) {
            std::mem::swap(&mut low, &mut high);
        }
        let low = match low {
            None => Bound::Included(prefix.clone()),
            Some((key, true)) => Bound::Included(key),
            Some((key, false)) => match after(key) {
                Some(key) => Bound::Included(key),
                None => return Ok(None),
            },
        };
        let high = match high {
            None => after(prefix).map_or(Bound::Unbounded, Bound::Excluded),
            Some((key, false)) => Bound::Excluded(key),
            Some((key, true)) => after(key).map_or(Bound::Unbounded, Bound::Excluded),
        };
        Ok(Some((low, high)))
    }

    /// `None`: more than is read here, or not in memory.
    fn read_primary(
        &self,
        bounds: &Bounds,
        is_reverse: bool,
        limit: usize,
        transaction: &Transaction<'_>,
    ) -> Result<Option<Vec<Met>>> {
        let mut seen = 0;
        let mut of_base = Vec::new();
        let base = self.db.base_reader();
        let is_there = base.range_cached(&self.table.root, borrowed(bounds), is_reverse, |key, row| {
            seen += 1;
            if matches!(transaction.look(&self.delta.rows, key), Seen::Absent) {
                of_base.push(Met { entry: key.to_vec(), key: Vec::new(), row: row.to_vec() });
            }
            go_on(of_base.len() < limit && seen <= ENTRIES_MAX)
        })?;
        let mut of_delta = Vec::new();
        let (low, high) = borrowed(bounds);
        transaction.scan(&self.delta.rows, &KeyRange::between(low, high), direction(is_reverse), |found| {
            of_delta.push(Met { entry: found.key.to_vec(), key: Vec::new(), row: found.body.to_vec() });
            go_on(of_delta.len() < limit && of_delta.len() <= ENTRIES_MAX)
        });
        if !is_there || seen > ENTRIES_MAX || of_delta.len() > ENTRIES_MAX {
            return Ok(None);
        }
        let mut rows = merged(of_base, of_delta, is_reverse, limit);
        rows.iter_mut().for_each(|met| met.key = std::mem::take(&mut met.entry));
        Ok(Some(rows))
    }

    fn read_index(
        &self,
        index: usize,
        bounds: &Bounds,
        is_reverse: bool,
        limit: usize,
        transaction: &Transaction<'_>,
    ) -> Result<Option<Vec<Met>>> {
        let entries = IndexEntries::new(self.table, index);
        let mut seen = 0;
        let mut of_base: Vec<Met> = Vec::new();
        let mut fault = None;
        let base = self.db.base_reader();
        let tree = &self.table.indexes[index].root;
        let is_there = base.range_cached(tree, borrowed(bounds), is_reverse, |entry, _| {
            seen += 1;
            let mut key = Vec::new();
            if let Err(error) = entries.primary_key(entry, &mut key) {
                fault = Some(error);
                return ControlFlow::Break(());
            }
            if matches!(transaction.look(&self.delta.rows, &key), Seen::Absent) {
                of_base.push(Met { entry: entry.to_vec(), key, row: Vec::new() });
            }
            go_on(of_base.len() < limit && seen <= ENTRIES_MAX)
        })?;
        let mut of_delta = Vec::new();
        let (low, high) = borrowed(bounds);
        let range = KeyRange::between(low, high);
        transaction.scan_index(&self.delta.rows, IndexId(index), &range, direction(is_reverse), |entry, found| {
            of_delta.push(Met { entry: entry.to_vec(), key: found.key.to_vec(), row: found.body.to_vec() });
            go_on(of_delta.len() < limit && of_delta.len() <= ENTRIES_MAX)
        });
        // What is wrong with an entry is found and told by who reads on.
        if !is_there || fault.is_some() || seen > ENTRIES_MAX || of_delta.len() > ENTRIES_MAX {
            return Ok(None);
        }
        for met in &mut of_base {
            if base.get_cached(&self.table.root, &met.key, &mut met.row)? != Some(true) {
                return Ok(None);
            }
        }
        Ok(Some(merged(of_base, of_delta, is_reverse, limit)))
    }
}

/// Appends a value of a key column; `false` if it is NULL.
fn append(expr: &Expr, column: KeyColumn, inputs: &Inputs<'_>, key: &mut Vec<u8>) -> Result<bool> {
    match expr.value(column.data_type, inputs)? {
        ValueRef::Null => Ok(false),
        value => encode_column(column, value, key).map(|()| true).map_err(key_error),
    }
}

/// The first key behind all that begin with `key`; `None` if there is none.
fn after(mut key: Vec<u8>) -> Option<Vec<u8>> {
    prefix_successor(&mut key).then_some(key)
}

fn borrowed((low, high): &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))
}

fn direction(is_reverse: bool) -> Direction {
    if is_reverse { Direction::Reverse } else { Direction::Forward }
}

fn go_on(on: bool) -> ControlFlow<()> {
    if on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Both sides in the order of their entries, which differ.
fn merged(of_base: Vec<Met>, of_delta: Vec<Met>, is_reverse: bool, limit: usize) -> Vec<Met> {
    let mut rows = of_base;
    rows.extend(of_delta);
    // Two sorted runs: the sort finds them.
    rows.sort_by(|a, b| if is_reverse { b.entry.cmp(&a.entry) } else { a.entry.cmp(&b.entry) });
    rows.truncate(limit);
    rows
}
