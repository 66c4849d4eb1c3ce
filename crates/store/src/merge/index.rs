//! A secondary index: old entries go, new ones come, those that stay the same are left alone.
//!
//! Rows change in the order of the primary key, their entries lie anywhere in the index. So entries are sorted first,
//! all of a merge, and each page of the index is written once.

use std::sync::Arc;

use saki_mvcc::KeyRange;
use saki_tree::{Effect, Sorter, TreeReader, TreeRoot};

use super::chunk::{Changes, Chunk, RowChange};
use super::pace::Pacer;
use super::rules::Rules;
use super::thread::Totals;
use super::unique::{not_unique, unique_prefix};
use crate::writer::Trees;
use saki_catalog::entries::has_null;
use saki_catalog::{EntryDecoder, EntryEncoder, EntryLayout, Result, SqlError, Table};

/// First byte of a sorted entry's value: whether the entry goes or is put, with what follows as its row.
const GONE: u8 = 0;
const PUT: u8 = 1;

/// An index's tree after its changes.
pub struct IndexMerged {
    pub root: TreeRoot,
    pub totals: Totals,
}

/// What a merge does to one index of a table.
pub struct IndexMerge<'m> {
    pub trees: Trees<'m>,
    pub table: &'m Table,
    pub index: usize,
    pub rules: Rules,
    /// For sorting.
    pub memory_bytes: usize,
}

impl IndexMerge<'_> {
    pub fn run(
        self,
        pacer: &Pacer,
        reader: &mut TreeReader,
        input: impl IntoIterator<Item = Arc<Chunk>>,
    ) -> Result<IndexMerged> {
        let mut entries = Entries::new(self.table, self.index, self.trees.sorter(self.memory_bytes));
        for chunk in input {
            self.trees.stop.check()?;
            pacer.begin();
            for change in chunk.changes() {
                entries.add(&change)?;
                pacer.step();
            }
        }
        self.apply(pacer, reader, entries.sorter)
    }

    /// Applies what [`Entries`] has gathered.
    pub fn apply(&self, pacer: &Pacer, reader: &mut TreeReader, sorter: Sorter) -> Result<IndexMerged> {
        let uniqueness = Uniqueness::of(self);
        let mut merged = IndexMerged { root: self.table.indexes[self.index].root, totals: Totals::default() };
        let mut pages = self.trees.pages();
        let mut sorted = sorter.finish()?;
        let mut changes = Changes::default();
        pacer.begin();
        loop {
            let next = sorted.next()?;
            let done = match next {
                None => !changes.is_empty(),
                Some((key, _)) => changes.is_full() && !uniqueness.joins(changes.last_key(), key)?,
            };
            if done {
                self.trees.stop.check()?;
                let applied = changes.apply(reader, &mut pages, &merged.root, &mut |_, _| {
                    pacer.step();
                    Effect::Change
                })?;
                self.trees.free(&applied.freed);
                merged.totals.pages_read += applied.freed.len() as u64;
                merged.root = applied.root;
                uniqueness.check(reader, &applied.root, &changes)?;
                changes = Changes::default();
            }
            let Some((key, value)) = next else { break };
            let (how, row) = value.split_first().ok_or_else(|| SqlError::internal("a sorted entry says nothing"))?;
            changes.push((key, (*how == PUT).then_some(row)));
        }
        merged.totals.pages_written = pages.pages();
        pages.finish()?;
        Ok(merged)
    }
}

/// Entries of changed rows, on their way into the sorter.
pub struct Entries<'m> {
    table: &'m Table,
    decoder: EntryDecoder,
    old: EntryEncoder,
    new: EntryEncoder,
    pub sorter: Sorter,
    value: Vec<u8>,
}

impl<'m> Entries<'m> {
    pub fn new(table: &'m Table, index: usize, sorter: Sorter) -> Self {
        let layout = table.index_layout(&table.indexes[index]);
        let decoder = EntryDecoder::new(table.primary_layout());
        let (old, new) = (EntryEncoder::new(layout.clone()), EntryEncoder::new(layout));
        Self { table, decoder, old, new, sorter, value: Vec::new() }
    }

    /// Adds what a row's change does to the index. The primary key is in the entry's key, so no two rows share one.
    pub fn add(&mut self, change: &RowChange<'_>) -> Result<()> {
        if let Some(row) = change.old {
            self.decoder.encode(self.table, change.key, row, &mut self.old)?;
        }
        if let Some(row) = change.new {
            self.decoder.encode(self.table, change.key, row, &mut self.new)?;
        }
        let both = change.old.is_some() && change.new.is_some();
        let stays = both && self.old.key == self.new.key;
        if stays && self.old.row == self.new.row {
            return Ok(());
        }
        if change.old.is_some() && !stays {
            self.sorter.push(&self.old.key, &[GONE])?;
        }
        if change.new.is_some() {
            self.value.clear();
            self.value.push(PUT);
            self.value.extend_from_slice(&self.new.row);
            self.sorter.push(&self.new.key, &self.value)?;
        }
        Ok(())
    }
}

/// Watches over the entries put into a unique index; over nothing where that has been done, or is not wanted.
struct Uniqueness<'m> {
    table: &'m Table,
    index: usize,
    layout: EntryLayout,
    /// Columns that no two rows may agree in.
    width: Option<usize>,
}

impl<'m> Uniqueness<'m> {
    fn of(merge: &IndexMerge<'m>) -> Self {
        let definition = &merge.table.indexes[merge.index];
        let width = (definition.unique && merge.rules.check_unique).then_some(definition.columns.len());
        Self { table: merge.table, index: merge.index, layout: merge.table.index_layout(definition), width }
    }

    /// Whether a key must be in one chunk with the one before: of two that agree in the index columns, one may go
    /// because the other comes.
    fn joins(&self, last: Option<&[u8]>, key: &[u8]) -> Result<bool> {
        let (Some(width), Some(last)) = (self.width, last) else { return Ok(false) };
        Ok(!has_null(&self.layout, key, width)
            && unique_prefix(&self.layout, last, width)? == unique_prefix(&self.layout, key, width)?)
    }

    /// Looks at the neighbours of every entry put in: no other may agree in the index columns.
    fn check(&self, reader: &mut TreeReader, root: &TreeRoot, changes: &Changes) -> Result<()> {
        let Some(width) = self.width else { return Ok(()) };
        for (key, _) in changes.iter().filter(|(_, row)| row.is_some()) {
            if has_null(&self.layout, key, width) {
                continue;
            }
            let agreeing = KeyRange::prefix(unique_prefix(&self.layout, key, width)?);
            let (low, high) = agreeing.bounds();
            let mut same = reader.range(root, low, high);
            same.next()?;
            if same.next()?.is_some() {
                return Err(not_unique(self.table, self.index, &self.layout, key));
            }
        }
        Ok(())
    }
}
