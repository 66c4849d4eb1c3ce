//! Directories of segments that have been read, kept for the statements to come.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use saki_base::{Column, PageRef};
use saki_columns::SegmentTable;
use saki_page::{IoShare, PageCache, PageStore};
use saki_tree::TreeReader;

use saki_catalog::{Difference, Result, StoredColumns, Table};

/// Reads directories, each once: a page that has been published never changes, so neither does what its address means.
pub struct SegmentTables {
    cache: Arc<PageCache>,
    store: Arc<dyn PageStore>,
    /// Of a directory one for each list of columns that the table with it has had.
    read: Mutex<HashMap<PageRef, Vec<Known>>>,
}

/// A directory as it was read for a table with these columns: one may be added or dropped without another directory.
struct Known {
    columns: Vec<Column>,
    stored: StoredColumns,
    segments: Arc<SegmentTable>,
}

impl SegmentTables {
    pub fn new(cache: &Arc<PageCache>, store: &Arc<dyn PageStore>) -> Self {
        Self { cache: Arc::clone(cache), store: Arc::clone(store), read: Mutex::default() }
    }

    /// The segments of a table; `None` if it has no column segments. Waits for storage the first time.
    pub fn get(&self, table: &Table) -> Result<Option<Arc<SegmentTable>>> {
        let Some(segments) = &table.segments else { return Ok(None) };
        let Some(root) = segments.directory.root else {
            return Ok(Some(Arc::new(SegmentTable::new(table.name.clone(), table.column_types(), Vec::new()))));
        };
        let is_same = |known: &&Known| known.columns == table.columns && known.stored == table.stored;
        if let Some(known) = self.read.lock().get(&root).and_then(|known| known.iter().find(is_same)) {
            return Ok(Some(Arc::clone(&known.segments)));
        }
        let mut reader = TreeReader::new(&self.cache, &self.store, &IoShare::new(u32::MAX))?;
        let read = Arc::new(SegmentTable::read(&mut reader, segments, table.name.clone(), &table.segment_columns())?);
        let (columns, stored) = (table.columns.clone(), table.stored.clone());
        self.read.lock().entry(root).or_default().push(Known { columns, stored, segments: Arc::clone(&read) });
        Ok(Some(read))
    }

    /// Forgets what no table of the newest catalog has any more. Whoever still uses it keeps it.
    pub fn follow(&self, difference: &Difference) {
        let directory = |table: &Table| table.segments.as_ref()?.directory.root;
        let kept: HashSet<PageRef> =
            difference.tables.iter().filter_map(|table| directory(table.after.as_ref()?)).collect();
        let gone = difference.tables.iter().filter_map(|table| directory(table.before.as_ref()?));
        let mut read = self.read.lock();
        for root in gone.filter(|root| !kept.contains(root)) {
            read.remove(&root);
        }
    }
}
