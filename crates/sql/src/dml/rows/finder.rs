//! Rows by key and by the values of a unique index.

use std::sync::Arc;

use saki_catalog::entries::has_null;
use saki_catalog::{EntryDecoder, EntryEncoder, EntryLayout, Result, Table};
use saki_store::load::unique_prefix;
use saki_store::{BaseReader, Delta, Eyes, IndexEntries, Stop, TableReader};

/// Finds rows of one table. Waits for storage, if its reader of the base does.
pub struct Finder<'d> {
    pub table: Arc<Table>,
    pub delta: Arc<Delta>,
    pub layout: Arc<EntryLayout>,
    pub base: BaseReader<'d>,
    /// What it asks whether it goes on; `None`: it is short.
    pub stop: Option<&'d Stop>,
    uniques: Vec<Unique>,
}

/// A unique index.
struct Unique {
    entries: IndexEntries,
    encoder: EntryEncoder,
    width: usize,
}

impl<'d> Finder<'d> {
    pub fn new(table: &Arc<Table>, delta: &Arc<Delta>, layout: &Arc<EntryLayout>, base: BaseReader<'d>) -> Self {
        let unique = |index: usize| {
            let definition = &table.indexes[index];
            let entries = IndexEntries::new(table, index);
            let encoder = EntryEncoder::new(table.index_layout(definition));
            Unique { entries, encoder, width: definition.columns.len() }
        };
        let uniques = (0..table.indexes.len()).filter(|index| table.indexes[*index].unique).map(unique).collect();
        let (table, delta, layout) = (Arc::clone(table), Arc::clone(delta), Arc::clone(layout));
        Self { table, delta, layout, base, stop: None, uniques }
    }

    /// Whether it goes on.
    ///
    /// # Errors
    /// 57014 once it was told to stop.
    pub fn check(&self) -> Result<()> {
        self.stop.map_or(Ok(()), Stop::check)
    }

    pub fn uniques(&self) -> usize {
        self.uniques.len()
    }

    /// The place of a unique index among the table's indexes.
    pub fn unique(&self, unique: usize) -> usize {
        self.uniques[unique].entries.index()
    }

    /// The row of a key.
    pub fn get(&mut self, eyes: &impl Eyes, key: &[u8]) -> Result<Option<Vec<u8>>> {
        TableReader::new(&self.table, &self.delta, eyes).get(&mut self.base, key)
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

    /// The key of the row that has the same values in a unique index as this one; `None` as well if one of the values
    /// is NULL.
    pub fn same(&mut self, eyes: &impl Eyes, unique: usize, key: &[u8], row: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(values) = self.values(unique, key, row)? else { return Ok(None) };
        let entries = &self.uniques[unique].entries;
        TableReader::new(&self.table, &self.delta, eyes).key_by_index(&mut self.base, entries, &values)
    }
}
