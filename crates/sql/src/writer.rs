//! A change to the database: one publication, with a copy of the catalog that becomes the next.
//!
//! Whoever writes holds the volume's publication guard, so writers take turns. Nothing is visible
//! before [`Database::write`] has committed, and nothing of it stays if the work fails.

use std::sync::Arc;

use saki_base::{TreeId, ValueRef};
use saki_tree::{BulkLoader, Change, Sorter, TreeReader, TreeRoot};
use saki_volume::{PageWriter, Publication};

use crate::catalog::{CATALOG_TREE, Catalog};
use crate::database::{Database, catalog_root, tree_error, volume_error};
use crate::entries::{key_error, row_error};
use crate::error::Result;
use crate::snapshot::Snapshot;

/// The change under way.
pub struct Writer<'d> {
    pub db: &'d Database,
    pub catalog: Catalog,
    pub(crate) publication: Publication,
    reader: TreeReader,
}

impl Database {
    /// Runs `work` as the only writer and publishes what it did. Waits, so it belongs on a thread that may.
    pub(crate) fn write<T>(&self, work: impl FnOnce(&mut Writer<'_>) -> Result<T>) -> Result<T> {
        self.writable()?;
        // Longer than the publication: the next writer must begin with what this one has published.
        let _writing = self.writing.lock();
        let publication = self.volume.begin();
        let before = self.snapshot();
        let mut writer = Writer { db: self, catalog: before.catalog.clone(), publication, reader: self.tree_reader()? };
        let result = work(&mut writer)?;
        writer.commit(before.guard.root())?;
        Ok(result)
    }
}

impl Writer<'_> {
    fn commit(mut self, before: &[u8]) -> Result<()> {
        if !before.is_empty() {
            self.free_tree(&catalog_root(before)?)?;
        }
        self.db.sequences.store(&mut self.catalog);
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
        let snapshot = Snapshot { guard: self.db.volume.snapshot(), catalog: self.catalog, segment_tables };
        *self.db.current.write() = Arc::new(snapshot);
        Ok(())
    }

    /// For threads that build trees side by side.
    pub fn trees(&self) -> Trees<'_> {
        Trees { db: self.db, publication: &self.publication }
    }

    /// Reads trees, those just written included.
    pub fn reader(&mut self) -> &mut TreeReader {
        &mut self.reader
    }

    /// Replaces a tree by itself with changes, which ascend by key.
    pub fn apply(&mut self, root: &TreeRoot, changes: &[Change<'_>]) -> Result<saki_tree::Applied> {
        let mut pages = self.publication.writer();
        let applied = saki_tree::apply(self.reader.fetcher(), &mut pages, root, changes).map_err(tree_error)?;
        pages.finish().map_err(volume_error)?;
        self.publication.free(&applied.freed);
        Ok(applied)
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
