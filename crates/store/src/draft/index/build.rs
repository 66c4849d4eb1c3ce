//! An index in the making: its tree, which matches one version of the table's primary tree, and is brought from there
//! to the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::TableId;
use saki_page::IoShare;
use saki_tree::{Differing, Effect, Sorted, Sorter, TreeRoot};
use saki_volume::HeldGeneration;

use crate::database::Database;
use crate::load::Uniqueness;
use crate::locks::Stop;
use crate::merge::{Changes, Entries, IndexMerge, OnDuplicate, Pace, Pacer, RowChange, Rules};
use crate::writer::Writer;
use saki_catalog::{EntryDecoder, EntryEncoder, Index, Result, SqlError, Staged, Table};

/// For about so long a slice keeps others from publishing.
const SLICE: Duration = Duration::from_millis(100);
/// Between two looks at whether something is free, or the work is to stop.
pub const PAUSE: Duration = Duration::from_millis(5);
/// Rows after which it is looked whether the work is still wanted.
const ROWS_BETWEEN_CHECKS: u64 = 4096;

/// An index in the making. Dropped, it leaves nothing: the next publication gives its pages back.
pub struct Build {
    db: Arc<Database>,
    stop: Stop,
    /// The table as it was with the version of its primary tree that the index matches; the last of its indexes is the
    /// one that is being built.
    table: Table,
    /// Keeps the pages of that version.
    held: Arc<HeldGeneration>,
    /// The number of the document that owns the tree; 0: there is none yet.
    staged: u32,
}

impl Build {
    /// Of an empty tree, which `add` puts behind the table's indexes. Nobody changes what the table is.
    pub fn of(db: &Arc<Database>, stop: &Stop, table: TableId, add: impl FnOnce(&mut Table)) -> Result<Self> {
        let generation = db.generation();
        let mut table = Table::clone(generation.catalog.table_of(table).ok_or_else(gone)?);
        add(&mut table);
        let held = Arc::clone(&generation.guard);
        Ok(Self { db: Arc::clone(db), stop: stop.clone(), table, held, staged: 0 })
    }

    /// The index as it is so far.
    pub fn index(&self) -> &Index {
        self.table.indexes.last().expect("it was put there")
    }

    /// The version of the primary tree that it matches.
    pub fn matches(&self) -> &TreeRoot {
        &self.table.root
    }

    /// What owns the tree is from here on for somebody else to publish or give back.
    pub fn hand_over(mut self) -> Staged {
        let staged = self.document();
        self.staged = 0;
        staged
    }

    /// Makes entries of all rows of the base.
    ///
    /// # Errors
    /// 23505; 57014; of storage.
    pub fn scan(&mut self) -> Result<()> {
        let (table, place) = (&self.table, self.place());
        let mut sorter = self.sorter();
        let mut decoder = EntryDecoder::new(table.primary_layout());
        let mut encoder = EntryEncoder::new(table.index_layout(&table.indexes[place]));
        let mut reader = self.db.tree_reader()?;
        let mut rows = reader.scan(&table.root);
        for count in 0_u64.. {
            if count.is_multiple_of(ROWS_BETWEEN_CHECKS) {
                self.stop.check()?;
            }
            let Some((key, row)) = rows.next()? else { break };
            decoder.encode(table, key, row, &mut encoder)?;
            sorter.push(&encoder.key, &encoder.row)?;
        }
        let mut sorted = sorter.finish()?;
        let mut uniqueness = Uniqueness::new(&self.table, place);
        while !self.write_slice(&mut sorted, &mut uniqueness)? {}
        Ok(())
    }

    /// Writes some of the entries behind those that the tree has; whether these were the last. Sliced, so that others
    /// publish in between.
    fn write_slice(&mut self, sorted: &mut Sorted, uniqueness: &mut Uniqueness) -> Result<bool> {
        let (place, table) = (self.place(), self.table.clone());
        let layout = table.index_layout(&table.indexes[place]);
        self.publish(|writer, mut root| {
            let (began, stop) = (Instant::now(), writer.stop.clone());
            let (trees, reader) = writer.parts();
            let mut pages = trees.pages();
            let mut is_over = false;
            while !is_over && began.elapsed() < SLICE {
                stop.check()?;
                let mut changes = Changes::default();
                while !changes.is_full() {
                    let Some((key, row)) = sorted.next()? else {
                        is_over = true;
                        break;
                    };
                    uniqueness.check(&table, &layout, key)?;
                    changes.push((key, Some(row)));
                }
                let applied = changes.apply(reader, &mut pages, &root, &mut |_, _| Effect::Change)?;
                trees.free(&applied.freed);
                root = applied.root;
            }
            pages.finish()?;
            Ok((root, is_over))
        })
    }

    /// Brings the index from the version of the primary tree that it matches to the newest one.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn follow(&mut self) -> Result<()> {
        let generation = self.db.generation();
        let now = Arc::clone(generation.catalog.table_of(self.table.id).ok_or_else(gone)?);
        if now.root == self.table.root {
            return Ok(());
        }
        let place = self.place();
        let mut entries = Entries::new(&self.table, place, self.sorter());
        let mut reader = self.db.tree_reader()?;
        let mut difference = reader.difference(&self.table.root, &now.root)?;
        for count in 0_u64.. {
            if count.is_multiple_of(ROWS_BETWEEN_CHECKS) {
                self.stop.check()?;
            }
            let Some(Differing { key, old, new }) = difference.next()? else { break };
            entries.add(&RowChange { key, old, new })?;
        }
        let (sorter, table) = (entries.sorter, self.table.clone());
        self.publish(|writer, _| {
            let (trees, reader) = writer.parts();
            let rules = Rules { on_duplicate: OnDuplicate::Replace, check_unique: true };
            let merge = IndexMerge { trees, table: &table, index: place, rules, memory_bytes: 0 };
            let pacer = Pacer::new(Pace::full(), &IoShare::new(u32::MAX));
            Ok((merge.apply(&pacer, reader, sorter)?.root, ()))
        })?;
        self.table.root = now.root;
        self.held = Arc::clone(&generation.guard);
        Ok(())
    }

    /// Puts the tree in the place of that of another index, which has the same definition.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn put_in_place(mut self, place: usize) -> Result<()> {
        let db = Arc::clone(&self.db);
        // From here on no merge moves the base on.
        let _no_merge = self.stop.turn(&db.checkpoints)?;
        self.follow()?;
        let (built, staged) = (&self, self.staged);
        db.write_unless(&self.stop, |writer| {
            let mut table = Table::clone(writer.catalog.table_of(built.table.id).ok_or_else(gone)?);
            if table.root != *built.matches() {
                return Err(SqlError::internal("the base of a table that is locked has moved on"));
            }
            let before = std::mem::replace(&mut table.indexes[place].root, built.index().root);
            writer.catalog.put(table);
            writer.catalog.remove_staged(staged);
            writer.free_tree(&before)
        })?;
        self.staged = 0;
        Ok(())
    }

    /// Publishes another version of the tree, which `work` makes of the one there is.
    fn publish<T>(&mut self, work: impl FnOnce(&mut Writer<'_>, TreeRoot) -> Result<(TreeRoot, T)>) -> Result<T> {
        let (db, stop) = (Arc::clone(&self.db), self.stop.clone());
        let (root, mut document) = (self.index().root, self.document());
        let (id, root, done) = db.write_unless(&stop, |writer| {
            let (root, done) = work(writer, root)?;
            if document.id == 0 {
                document.id = writer.catalog.new_table_id().0;
            }
            for index in document.tables.iter_mut().flat_map(|table| &mut table.indexes) {
                index.root = root;
            }
            let id = document.id;
            writer.catalog.put_staged(document);
            Ok((id, root, done))
        })?;
        self.staged = id;
        self.table.indexes.last_mut().expect("it was put there").root = root;
        Ok(done)
    }

    /// What owns the tree.
    fn document(&self) -> Staged {
        let root = TreeRoot::empty(self.table.root.id);
        let indexes = vec![self.index().clone()];
        let table = Table { root, indexes, segments: None, statistics: None, ..self.table.clone() };
        Staged { id: self.staged, tables: vec![table], prepared: None }
    }

    fn place(&self) -> usize {
        self.table.indexes.len() - 1
    }

    fn sorter(&self) -> Sorter {
        Sorter::new(self.db.volume.scratch(), self.db.options.load_memory_bytes / 2)
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        if self.staged != 0 {
            self.db.abandoned.lock().push(self.staged);
        }
    }
}

/// The error for a table that is not there although nobody may take it away.
pub fn gone() -> SqlError {
    SqlError::internal("a table that is locked is not there any more")
}
