//! A change to the database: one publication, with a copy of the catalog that becomes the next.
//!
//! Whoever writes holds the volume's publication guard, so writers take turns. Nothing is visible
//! before [`Database::write`] has committed, and nothing of it stays if the work fails.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use saki_base::panics::{self, Place};
use saki_base::planted::{self, Fault};
use saki_base::{Critical, PageAddress, PageRef, TableId, TreeId, ValueRef};
use saki_columns::{SegmentsRoot, read_directory};
use saki_mvcc::Holder;
use saki_tree::{BulkLoader, Change, Sorter, TreeReader, TreeRoot};
use saki_volume::{PageWriter, Publication, VolumeError};

use crate::database::sequence::{Publisher, find};
use crate::database::{Database, Generation, Identity, catalog_root};
use crate::delta::Engine;
use crate::locks::{Stop, Turn};
use saki_catalog::{CATALOG_TREE, Catalog, Difference, Result, RoleId, Sequence, SharedMap, Table};

/// The change under way.
pub struct Writer<'d> {
    pub db: &'d Database,
    pub catalog: Catalog,
    pub publication: Publication,
    reader: TreeReader,
    /// What the change began with.
    before: Arc<Generation>,
    /// An engine that begins with this change.
    pub starting: Option<Engine>,
    /// Long work asks whether it goes on.
    pub stop: Stop,
    /// Everything that it makes can be made of the logs again, but for positions of sequences: a merge.
    pub(crate) of_logs: bool,
    /// Trees that it replaces stay, for the time being: the change is part of a transaction that may be undone.
    pub(crate) keeps_replaced: bool,
    /// Tables that it empties: see [`crate::Draft::is_fresh`].
    pub emptied: Vec<TableId>,
    /// The transaction that the change is made for, if it is open still, and keeps others from changing the tables'
    /// rows until its end.
    pub(crate) on_behalf_of: Option<Holder>,
}

impl Database {
    /// Runs `work` as the only writer and publishes what it did. Waits, so it belongs on a thread that may.
    pub fn write<T>(&self, work: impl FnOnce(&mut Writer<'_>) -> Result<T>) -> Result<T> {
        let turn = self.writing.lock();
        self.write_in_turn(turn, &Stop::default(), work)
    }

    /// The same, unless the work is told to stop before it has published, or its patience is over before its turn.
    ///
    /// # Errors
    /// 57014 then, or 55P03: nothing was changed.
    pub fn write_unless<T>(&self, stop: &Stop, work: impl FnOnce(&mut Writer<'_>) -> Result<T>) -> Result<T> {
        let turn = self.writing.lock_unless(stop)?;
        self.write_in_turn(turn, stop, work)
    }

    /// Has a catalog that is about to be published, or prepared, say how far sequences and hidden row ids have come;
    /// what it has otherwise than the `published` one then.
    pub(crate) fn take_along(&self, catalog: &mut Catalog, published: &Catalog) -> Difference {
        let difference = catalog.difference(published);
        let sequences = self.sequences.store(catalog, published, &difference);
        let row_ids = self.of_table.row_ids.store(catalog, published, &difference);
        if sequences || row_ids { catalog.difference(published) } else { difference }
    }

    /// Publishes how far sequences have come, unless it is told to stop before.
    ///
    /// # Errors
    /// 57014 then; of storage.
    pub fn publish_positions(&self, stop: &Stop) -> Result<()> {
        self.write_unless(stop, |writer| {
            writer.of_logs = true;
            Ok(())
        })
    }

    /// The turn lasts longer than the publication: the next writer must begin with what this one has published.
    fn write_in_turn<T>(
        &self,
        _turn: Turn<'_>,
        stop: &Stop,
        work: impl FnOnce(&mut Writer<'_>) -> Result<T>,
    ) -> Result<T> {
        // Only now: whoever had the turn before may have ended all changes, with a generation in memory that the device
        // does not have.
        self.writable()?;
        stop.check()?;
        let mut writer = Writer::begin(self, self.generation(), stop)?;
        let result = work(&mut writer)?;
        writer.renew_deltas();
        writer.commit()?;
        Ok(result)
    }
}

impl Publisher for Database {
    fn sequence(&self, name: &str) -> Result<Arc<Sequence>> {
        find(&self.generation().catalog, name)
    }

    fn publish(&self, _: &Sequence) -> Result<()> {
        self.publish_positions(&Stop::default())
    }
}

impl<'d> Writer<'d> {
    /// A change of what `before` has: the newest generation, or what a transaction makes of it. The caller holds
    /// [`Database::writing`].
    pub(crate) fn begin(db: &'d Database, before: Arc<Generation>, stop: &Stop) -> Result<Self> {
        let publication = db.volume.begin();
        let (catalog, reader) = (before.catalog.clone(), db.tree_reader()?);
        Ok(Self {
            db,
            catalog,
            publication,
            reader,
            before,
            starting: None,
            stop: stop.clone(),
            of_logs: false,
            keeps_replaced: false,
            emptied: Vec::new(),
            on_behalf_of: None,
        })
    }

    /// What has been written, as part of another change: of `before`, the newest generation.
    pub(crate) fn instead(self, before: &Arc<Generation>) -> Self {
        Self { catalog: before.catalog.clone(), before: Arc::clone(before), keeps_replaced: false, ..self }
    }

    /// The generation that it changes.
    pub(crate) fn before(&self) -> &Arc<Generation> {
        &self.before
    }

    /// Publishes the change, of what is the newest.
    pub(crate) fn commit(mut self) -> Result<()> {
        let before = Arc::clone(&self.before);
        // What has been published since would be undone, and its pages lost.
        assert!(Arc::ptr_eq(&before, &self.db.generation()), "what is published follows the newest generation");
        // Of what the volume does not have, only what differs from it would be published.
        assert!(before.is_published(), "what is published follows a generation that is in memory alone");
        let abandoned = self.free_abandoned()?;
        let difference = self.db.take_along(&mut self.catalog, &before.catalog);
        let engine = self.starting.as_ref().or(self.db.engine.get());
        if let (Some(engine), Some(_)) = (engine, self.catalog.logs.database) {
            self.catalog.logs.known_through = engine.database.durable();
        }
        let deltas = match (&self.starting, engine) {
            (Some(engine), _) => engine.deltas(&self.catalog)?,
            (None, Some(engine)) => engine.deltas_after(&before.deltas, &difference)?,
            (None, None) => SharedMap::default(),
        };
        let root = self.write_catalog()?;
        let stop = self.stop.clone();
        let _committing = stop.commit()?;
        // What the device has and memory does not would be published over.
        let _critical = Critical::enter("publishing a generation");
        if let Err(error) = self.publication.commit(&root.to_bytes()) {
            if let VolumeError::PublishOutcomeUnknown { .. } = error {
                self.db.end_changes();
            }
            return Err(error.into());
        }
        panics::pass(Place::Published);
        self.db.abandoned.lock().retain(|id| !abandoned.contains(id));
        // Before anybody can write to those that are new.
        for delta in deltas_taken_away(&difference).filter_map(|delta| before.deltas.get(&delta)) {
            delta.rows.replaced(self.on_behalf_of);
        }
        let segment_tables = Arc::clone(&self.db.generation().segment_tables);
        segment_tables.follow(&difference);
        self.db.of_table.row_ids.forget(&difference);
        if let Some(engine) = self.starting {
            let _ = self.db.engine.set(engine);
        }
        let guard = self.db.volume.hold();
        let (number, unlogged) = (guard.generation(), before.unlogged + u64::from(!self.of_logs));
        let (identity, catalog) = (Identity::next(), self.catalog);
        self.db.succeed(Generation { identity, number, unlogged, guard, catalog, segment_tables, deltas });
        Ok(())
    }

    /// Changes the documents of the catalog's tree that differ.
    fn write_catalog(&mut self) -> Result<TreeRoot> {
        let before = Arc::clone(&self.before);
        let root = match before.guard.root() {
            [] => TreeRoot::empty(CATALOG_TREE),
            root => catalog_root(root)?,
        };
        let (key_layout, row_layout) = Catalog::entry_layout();
        let mut documents = Vec::new();
        for (name, json) in self.catalog.changed_documents(&before.catalog)? {
            let (mut key, mut row) = (Vec::new(), Vec::new());
            key_layout.encode(&[ValueRef::Text(&name)], &mut key)?;
            if let Some(json) = &json {
                row_layout.encode(&[ValueRef::Bytea(json)], &mut row)?;
            }
            documents.push((key, json.is_some().then_some(row)));
        }
        documents.sort();
        let changes: Vec<_> = documents.iter().map(|(key, row)| Change { key, value: row.as_deref() }).collect();
        let mut pages = self.publication.metadata_writer();
        let applied = saki_tree::apply(self.reader.fetcher(), &mut pages, &root, &changes)?;
        pages.finish()?;
        self.publication.free(&applied.freed);
        Ok(applied.root)
    }

    /// Gives back what transactions had staged that have ended without effect; their numbers.
    fn free_abandoned(&mut self) -> Result<Vec<u32>> {
        let abandoned = self.db.abandoned.lock().clone();
        for id in &abandoned {
            if let Some(staged) = self.catalog.remove_staged(*id) {
                self.free_tables(&staged.tables, &HashSet::new())?;
            }
        }
        Ok(abandoned)
    }

    /// Gives back the trees and segments of tables, but for those that begin at pages that are `kept`; each once.
    pub(crate) fn free_tables<'t>(
        &mut self,
        tables: impl IntoIterator<Item = &'t Table>,
        kept: &HashSet<PageRef>,
    ) -> Result<()> {
        let mut kept = kept.clone();
        for table in tables {
            let Some(table) = table.without(&kept) else { continue };
            kept.extend(table.pages());
            self.discard_tree(&table.root)?;
            for index in &table.indexes {
                self.discard_tree(&index.root)?;
            }
            if let Some(root) = &table.segments {
                self.discard_segments(&table, root)?;
            }
        }
        Ok(())
    }

    /// A table that is laid out otherwise than before has a delta of its own.
    pub fn renew_deltas(&mut self) {
        let before = Arc::clone(&self.before);
        self.catalog.renew_deltas(&before.catalog);
    }

    /// What the change has made belongs to `role`.
    ///
    /// # Errors
    /// 42704 if there is no such role any more.
    pub fn own_new(&mut self, role: RoleId) -> Result<()> {
        let before = Arc::clone(&self.before);
        self.catalog.own_new(&before.catalog, role)
    }

    /// For threads that build trees side by side.
    pub fn trees(&self) -> Trees<'_> {
        Trees { db: self.db, publication: &self.publication, stop: &self.stop }
    }

    /// What [`Self::trees`] and [`Self::reader`] give, side by side.
    pub fn parts(&mut self) -> (Trees<'_>, &mut TreeReader) {
        (Trees { db: self.db, publication: &self.publication, stop: &self.stop }, &mut self.reader)
    }

    /// Reads trees, those just written included.
    pub fn reader(&mut self) -> &mut TreeReader {
        &mut self.reader
    }

    /// Gives all pages of a tree back that the change replaces.
    pub fn free_tree(&mut self, root: &TreeRoot) -> Result<()> {
        if self.keeps_replaced || planted::is(Fault::TreeKept) { Ok(()) } else { self.discard_tree(root) }
    }

    /// Gives all pages of a table's segments back that the change replaces.
    pub fn free_segments(&mut self, table: &Table, root: &SegmentsRoot) -> Result<()> {
        if self.keeps_replaced { Ok(()) } else { self.discard_segments(table, root) }
    }

    fn discard_segments(&mut self, table: &Table, root: &SegmentsRoot) -> Result<()> {
        let segments = read_directory(&mut self.reader, root, &table.segment_columns())?;
        let page_bytes = self.db.page_size().bytes();
        let pages: Vec<_> = segments.iter().flat_map(|segment| segment.pages(page_bytes)).collect();
        self.discard_tree(&root.directory)?;
        self.publication.free(&pages);
        Ok(())
    }

    /// Gives all pages of a tree back, whatever becomes of the change: one that it has built itself.
    pub fn discard_tree(&mut self, root: &TreeRoot) -> Result<()> {
        let mut found = saki_tree::free_all(self.reader.fetcher(), root);
        // A page that cannot be read hides which pages lie below it: freeing only some would be a leak for ever.
        if let Some(error) = found.unreadable.pop() {
            return Err(error.into());
        }
        self.publication.free(&found.pages);
        Ok(())
    }
}

/// The deltas of tables that have another one now, or are gone.
fn deltas_taken_away(difference: &Difference) -> impl Iterator<Item = TableId> {
    let kept: HashSet<_> = difference.tables.iter().filter_map(|table| Some(table.after.as_ref()?.delta)).collect();
    let before = difference.tables.iter().filter_map(|table| table.before.as_ref());
    before.map(|before| before.delta).filter(move |delta| !kept.contains(delta))
}

/// The part of a change that several threads may use at once.
#[derive(Clone, Copy)]
pub struct Trees<'w> {
    pub db: &'w Database,
    publication: &'w Publication,
    /// What long work asks whether it goes on.
    pub stop: &'w Stop,
}

impl Trees<'_> {
    /// Builds a tree from ascending keys.
    pub fn loader(self, tree: TreeId) -> BulkLoader {
        BulkLoader::new(self.publication.writer(), self.db.page_size(), tree)
    }

    /// A writer of pages that are no tree.
    pub fn pages(self) -> PageWriter {
        self.publication.writer()
    }

    /// Counts pages as no longer referred to, each once.
    pub fn free(self, pages: &[PageAddress]) {
        self.publication.free(pages);
    }

    pub fn sorter(self, memory_bytes: usize) -> Sorter {
        Sorter::new(self.db.volume.scratch(), memory_bytes)
    }
}

/// The tree that a loader has built, with its pages handed over to the publication.
pub fn finish_tree(loader: BulkLoader) -> Result<TreeRoot> {
    let (root, pages) = loader.finish()?;
    pages.finish()?;
    Ok(root)
}
