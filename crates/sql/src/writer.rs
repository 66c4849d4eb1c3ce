//! A change to the database: one publication, with a copy of the catalog that becomes the next.
//!
//! Whoever writes holds the volume's publication guard, so writers take turns. Nothing is visible
//! before [`Database::write`] has committed, and nothing of it stays if the work fails.

use std::sync::Arc;

use saki_base::{PageAddress, TreeId, ValueRef};
use saki_tree::{BulkLoader, Sorter, TreeReader, TreeRoot};
use saki_volume::{PageWriter, Publication};

use crate::catalog::{CATALOG_TREE, Catalog};
use crate::database::{Database, catalog_root, tree_error, volume_error};
use crate::delta::Engine;
use crate::entries::{key_error, row_error};
use crate::error::Result;
use crate::snapshot::Snapshot;

/// The change under way.
pub struct Writer<'d> {
    pub db: &'d Database,
    pub catalog: Catalog,
    pub(crate) publication: Publication,
    reader: TreeReader,
    /// What the change began with.
    before: Arc<Snapshot>,
    /// An engine that begins with this change.
    pub(crate) starting: Option<Engine>,
}

impl Database {
    /// Runs `work` as the only writer and publishes what it did. Waits, so it belongs on a thread that may.
    pub(crate) fn write<T>(&self, work: impl FnOnce(&mut Writer<'_>) -> Result<T>) -> Result<T> {
        self.writable()?;
        // Longer than the publication: the next writer must begin with what this one has published.
        let _writing = self.writing.lock();
        let publication = self.volume.begin();
        let before = self.snapshot();
        let (catalog, reader) = (before.catalog.clone(), self.tree_reader()?);
        let mut writer = Writer { db: self, catalog, publication, reader, before, starting: None };
        let result = work(&mut writer)?;
        writer.commit()?;
        Ok(result)
    }
}

impl Writer<'_> {
    fn commit(mut self) -> Result<()> {
        let before = Arc::clone(&self.before);
        if !before.guard.root().is_empty() {
            self.free_tree(&catalog_root(before.guard.root())?)?;
        }
        self.db.sequences.store(&mut self.catalog);
        self.renew_deltas();
        let engine = self.starting.as_ref().or(self.db.engine.get());
        let deltas = engine.map(|engine| engine.deltas(&self.catalog)).transpose()?.unwrap_or_default();
        let (key_layout, row_layout) = Catalog::entry_layout();
        let mut loader = self.trees().loader(CATALOG_TREE);
        let (mut key, mut row) = (Vec::new(), Vec::new());
        for (name, json) in self.catalog.documents()? {
            key.clear();
            row.clear();
            key_layout.encode(&[ValueRef::Text(&name)], &mut key).map_err(key_error)?;
            row_layout.encode(&[ValueRef::Bytea(&json)], &mut row).map_err(row_error)?;
            loader.push(&key, &row).map_err(tree_error)?;
        }
        let root = finish_tree(loader)?;
        self.publication.commit(&root.to_bytes()).map_err(volume_error)?;
        let segment_tables = Arc::clone(&self.db.snapshot().segment_tables);
        segment_tables.retain(&self.catalog);
        if let Some(engine) = self.starting {
            let _ = self.db.engine.set(engine);
        }
        let snapshot = Snapshot { guard: self.db.volume.snapshot(), catalog: self.catalog, segment_tables, deltas };
        self.db.succeed(snapshot);
        Ok(())
    }

    /// A table that is laid out otherwise than before has a delta of its own.
    pub(crate) fn renew_deltas(&mut self) {
        let before = Arc::clone(&self.before);
        self.catalog.renew_deltas(&before.catalog);
    }

    /// For threads that build trees side by side.
    pub fn trees(&self) -> Trees<'_> {
        Trees { db: self.db, publication: &self.publication }
    }

    /// What [`Self::trees`] and [`Self::reader`] give, side by side.
    pub fn parts(&mut self) -> (Trees<'_>, &mut TreeReader) {
        (Trees { db: self.db, publication: &self.publication }, &mut self.reader)
    }

    /// Reads trees, those just written included.
    pub fn reader(&mut self) -> &mut TreeReader {
        &mut self.reader
    }

    /// Gives all pages of a tree back.
    pub fn free_tree(&mut self, root: &TreeRoot) -> Result<()> {
        let mut found = saki_tree::free_all(self.reader.fetcher(), root);
        // A page that cannot be read hides which pages lie below it: freeing only some would be a leak for ever.
        if let Some(error) = found.unreadable.pop() {
            return Err(tree_error(error));
        }
        self.publication.free(&found.pages);
        Ok(())
    }
}

/// The part of a change that several threads may use at once.
#[derive(Clone, Copy)]
pub struct Trees<'w> {
    pub db: &'w Database,
    publication: &'w Publication,
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
    let (root, pages) = loader.finish().map_err(tree_error)?;
    pages.finish().map_err(volume_error)?;
    Ok(root)
}
