//! Rows by key and by the values of a unique index: the delta's where it knows the key, the base's otherwise.

use std::ops::ControlFlow;
use std::sync::Arc;

use saki_mvcc::{Direction, IndexId, KeyRange, Reader, Seen, Transaction};

use crate::base_reader::BaseReader;
use crate::catalog::{EntryLayout, Table};
use crate::database::tree_error;
use crate::delta::{Delta, IndexEntries};
use crate::entries::{EntryDecoder, EntryEncoder, has_null};
use crate::error::Result;
use crate::load::unique_prefix;

/// What a delta says of a key.
pub enum Known {
    /// Nothing: the base decides.
    Absent,
    Deleted,
    Row(Vec<u8>),
}

/// Whose eyes a delta is seen with.
pub trait Newest {
    fn look(&self, rows: &saki_mvcc::Table, key: &[u8]) -> Known;

    /// Primary keys of the rows whose entries in an index begin with `prefix`.
    fn keys(&self, rows: &saki_mvcc::Table, index: IndexId, prefix: &[u8]) -> Vec<Vec<u8>>;
}

fn known<R>(seen: Seen<R>, body: impl FnOnce(R) -> Vec<u8>) -> Known {
    match seen {
        Seen::Absent => Known::Absent,
        Seen::Deleted => Known::Deleted,
        Seen::Row(row) => Known::Row(body(row)),
    }
}

impl Newest for Transaction<'_> {
    fn look(&self, rows: &saki_mvcc::Table, key: &[u8]) -> Known {
        known(self.look(rows, key), |found| found.body.to_vec())
    }

    fn keys(&self, rows: &saki_mvcc::Table, index: IndexId, prefix: &[u8]) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        self.scan_index(rows, index, &KeyRange::prefix(prefix), Direction::Forward, |_, found| {
            keys.push(found.key.to_vec());
            ControlFlow::Continue(())
        });
        keys
    }
}

impl Newest for Reader {
    fn look(&self, rows: &saki_mvcc::Table, key: &[u8]) -> Known {
        self.look(rows, key, |seen| known(seen, <[u8]>::to_vec))
    }

    fn keys(&self, rows: &saki_mvcc::Table, index: IndexId, prefix: &[u8]) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        self.scan_index(rows, index, &KeyRange::prefix(prefix), Direction::Forward, |_, key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        });
        keys
    }
}

/// Finds rows of one table. Waits for storage.
pub struct Finder<'d> {
    pub table: Arc<Table>,
    pub delta: Arc<Delta>,
    pub layout: Arc<EntryLayout>,
    pub base: BaseReader<'d>,
    uniques: Vec<Unique>,
}

/// A unique index.
pub struct Unique {
    /// Position in `Table::indexes`.
    pub index: usize,
    pub entries: IndexEntries,
    encoder: EntryEncoder,
    width: usize,
}

impl<'d> Finder<'d> {
    pub fn new(table: &Arc<Table>, delta: &Arc<Delta>, base: BaseReader<'d>) -> Self {
        let unique = |index: usize| {
            let definition = &table.indexes[index];
            let entries = IndexEntries::new(table, index);
            let encoder = EntryEncoder::new(table.index_layout(definition));
            Unique { index, entries, encoder, width: definition.columns.len() }
        };
        let uniques = (0..table.indexes.len()).filter(|index| table.indexes[*index].unique).map(unique).collect();
        let (table, delta) = (Arc::clone(table), Arc::clone(delta));
        Self { layout: Arc::new(table.primary_layout()), table, delta, base, uniques }
    }

    pub fn uniques(&self) -> usize {
        self.uniques.len()
    }

    pub fn unique(&self, unique: usize) -> &Unique {
        &self.uniques[unique]
    }

    /// The row of a key.
    pub fn get(&mut self, newest: &impl Newest, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match newest.look(&self.delta.rows, key) {
            Known::Row(body) => Ok(Some(body)),
            Known::Deleted => Ok(None),
            Known::Absent => self.base.get(&self.table.root, key),
        }
    }

    /// The values of a row in a unique index, encoded; `None` if one of them is NULL.
    pub fn values(&mut self, unique: usize, key: &[u8], row: &[u8]) -> Result<Option<Vec<u8>>> {
        let Unique { encoder, width, .. } = &mut self.uniques[unique];
        let mut decoder = EntryDecoder::new(Arc::clone(&self.layout));
        decoder.encode(&self.table, key, row, encoder)?;
        if has_null(&encoder.layout, &encoder.key, *width) {
            return Ok(None);
        }
        Ok(Some(unique_prefix(&encoder.layout, &encoder.key, *width)?.to_vec()))
    }

    /// The key of the row that has the same values in a unique index as this one; `None` as well if one of the values is NULL.
    pub fn same(&mut self, newest: &impl Newest, unique: usize, key: &[u8], row: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(values) = self.values(unique, key, row)? else { return Ok(None) };
        let Unique { index, entries, .. } = &self.uniques[unique];
        if let Some(found) = newest.keys(&self.delta.rows, IndexId(*index), &values).into_iter().next() {
            return Ok(Some(found));
        }
        let range = KeyRange::prefix(&values);
        let (low, high) = range.bounds();
        let mut found = self.base.range(&self.table.indexes[*index].root, low, high)?;
        while let Some((entry, _)) = found.next().map_err(tree_error)? {
            let mut other = Vec::new();
            entries.primary_key(entry, &mut other).map_err(crate::error::SqlError::corrupt)?;
            if matches!(newest.look(&self.delta.rows, &other), Known::Absent) {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }
}
