//! A change to the database: one publication, with a copy of the catalog that becomes the next.
//!
//! Whoever writes holds the volume's publication guard, so writers take turns. Nothing is visible
//! before [`Database::write`] has committed, and nothing of it stays if the work fails.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use saki_base::{PageAddress, TableId, TreeId, ValueRef};
use saki_tree::{BulkLoader, Sorter, TreeReader, TreeRoot};
use saki_volume::{PageWriter, Publication, VolumeError};

use crate::database::sequence::{Publisher, find};
use crate::database::{Database, Snapshot, catalog_root};
use crate::delta::Engine;
use crate::stop::Stop;
use saki_catalog::{CATALOG_TREE, Catalog, Result, RoleId, Sequence};

/// The change under way.
pub struct Writer<'d> {
    pub db: &'d Database,
    pub catalog: Catalog,
    pub publication: Publication,
    reader: TreeReader,
    /// What the change began with.
    before: Arc<Snapshot>,
    /// An engine that begins with this change.
    pub starting: Option<Engine>,
    /// Long work asks whether it goes on.
    pub stop: Stop,
}

impl Database {
    /// Runs `work` as the only writer and publishes what it did. Waits, so it belongs on a thread that may.
    pub fn write<T>(&self, work: impl FnOnce(&mut Writer<'_>) -> Result<T>) -> Result<T> {
        self.write_unless(&Stop::default(), work)
    }

    /// The same, unless the work is told to stop before it has published.
    ///
    /// # Errors
    /// 57014 then: nothing was changed.
    pub fn write_unless<T>(&self, stop: &Stop, work: impl FnOnce(&mut Writer<'_>) -> Result<T>) -> Result<T> {
        self.writable()?;
        // Longer than the publication: the next writer must begin with what this one has published.
        let _writing = self.writing.lock();
        stop.check()?;
        let publication = self.volume.begin();
        let before = self.snapshot();
        let (catalog, reader) = (before.catalog.clone(), self.tree_reader()?);
        let stop = stop.clone();
        let mut writer = Writer { db: self, catalog, publication, reader, before, starting: None, stop };
        let result = work(&mut writer)?;
        writer.commit()?;
        Ok(result)
    }
}

impl Publisher for Database {
    fn sequence(&self, name: &str) -> Result<Arc<Sequence>> {
        find(&self.snapshot().catalog, name)
    }

    fn publish(&self) -> Result<()> {
        self.write(|_| Ok(()))
    }
}

impl Writer<'_> {
    fn commit(mut self) -> Result<()> {
        let before = Arc::clone(&self.before);
        if !before.guard.root().is_empty() {
            self.free_tree(&catalog_root(before.guard.root())?)?;
        }
        self.db.sequences.store(&mut self.catalog);
        self.db.of_table.row_ids.store(&mut self.catalog);
        self.renew_deltas();
        let engine = self.starting.as_ref().or(self.db.engine.get());
        if let (Some(engine), Some(_)) = (engine, self.catalog.logs.database) {
            self.catalog.logs.known_through = engine.database.durable();
        }
        let deltas = engine.map(|engine| engine.deltas(&self.catalog)).transpose()?.unwrap_or_default();
        let (key_layout, row_layout) = Catalog::entry_layout();
        let mut loader = self.trees().loader(CATALOG_TREE);
        let (mut key, mut row) = (Vec::new(), Vec::new());
        for (name, json) in self.catalog.documents()? {
            key.clear();
            row.clear();
            key_layout.encode(&[ValueRef::Text(&name)], &mut key)?;
            row_layout.encode(&[ValueRef::Bytea(&json)], &mut row)?;
            loader.push(&key, &row)?;
        }
        let root = finish_tree(loader)?;
        let stop = self.stop.clone();
        let _committing = stop.commit()?;
        if let Err(error) = self.publication.commit(&root.to_bytes()) {
            let is_in_doubt = matches!(error, VolumeError::PublishOutcomeUnknown { .. });
            if is_in_doubt && takes_deltas_away(&before.catalog, &self.catalog) {
                self.db.end_changes();
            }
            return Err(error.into());
        }
        let segment_tables = Arc::clone(&self.db.snapshot().segment_tables);
        segment_tables.retain(&self.catalog);
        if let Some(engine) = self.starting {
            let _ = self.db.engine.set(engine);
        }
        let snapshot = Snapshot { guard: self.db.volume.hold(), catalog: self.catalog, segment_tables, deltas };
        self.db.succeed(snapshot);
        Ok(())
    }

    /// A table that is laid out otherwise than before has a delta of its own.
    pub fn renew_deltas(&mut self) {
        let before = Arc::clone(&self.before);
        self.catalog.renew_deltas(&before.catalog);
    }

    /// What the change has made belongs to `role`.
    pub fn own_new(&mut self, role: RoleId) {
        let before = Arc::clone(&self.before);
        self.catalog.own_new(&before.catalog, role);
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
            return Err(error.into());
        }
        self.publication.free(&found.pages);
        Ok(())
    }
}

/// Whether a table that had a delta has another one, or is gone.
fn takes_deltas_away(before: &Catalog, after: &Catalog) -> bool {
    let kept: BTreeSet<TableId> = after.tables().map(|table| table.delta).collect();
    before.tables().any(|table| !kept.contains(&table.delta))
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
    let (root, pages) = loader.finish()?;
    pages.finish()?;
    Ok(root)
}
