//! The catalog as an open transaction has changed it. Nobody else sees that before its commit.
//!
//! ```text
//!   newest catalog ──► + the transaction's changes = its own generation: names, plans, rows
//!                          │ trees and segments: published at once, under a document that owns them (`Staged`)
//!                          │ rows: in deltas of its own where the layout is new
//!                          ├─ COMMIT (`commit`): changes published, in one with what was staged
//!                          └─ ROLLBACK: dropped; the next publication gives back what was staged
//! ```
//!
//! # Invariants
//! - Whoever changes what a table is holds a lock of it that keeps others from doing so (a mode that conflicts with
//!   itself), and from changing its rows if trees are built of them. So what others publish meanwhile concerns other
//!   definitions, or where rows lie.
//! - A staged page is in the document of its transaction or, once that has been published, in the catalog: never in
//!   both, never in neither.

mod commit;
pub mod index;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use saki_base::{PageRef, TableId};
use saki_tree::TreeReader;

use crate::database::{Database, Generation, Identity};
use crate::delta::Delta;
use crate::locks::Stop;
use crate::merge::{ChangeSource, KeyChange, Pace, merge};
use crate::reader::{NewerRows, Snapshot};
use crate::writer::Writer;
use saki_catalog::{Difference, Result, SqlError, Staged, Table};

/// The catalog of one open transaction. Dropped without [`Self::commit`], nothing of it stays.
pub struct Draft {
    db: Arc<Database>,
    /// The published generation that `own` is made of.
    base: Arc<Generation>,
    /// That with the changes.
    own: Arc<Generation>,
    /// The same over the generation that a transaction keeps, which it was last asked for, and made of which `own`.
    kept: Option<[Arc<Generation>; 3]>,
    staged: Staged,
    /// All that were made for the transaction: rows in them may still be brought back by a savepoint.
    deltas: Vec<Arc<Delta>>,
    /// Tables that it has made or emptied, in this order.
    fresh: Vec<TableId>,
    /// Whether what is staged is the catalog's, or nobody knows.
    is_over: bool,
}

/// The changes up to some moment.
#[derive(Clone)]
pub struct DraftMark {
    base: Arc<Generation>,
    own: Arc<Generation>,
    /// How many tables had been made or emptied.
    fresh: usize,
}

impl Draft {
    /// Of a transaction that has changed nothing yet.
    pub fn new(db: &Arc<Database>) -> Self {
        let base = db.generation();
        let own = Arc::clone(&base);
        let (kept, staged, deltas, fresh) = (None, Staged::default(), Vec::new(), Vec::new());
        Self { db: Arc::clone(db), base, own, kept, staged, deltas, fresh, is_over: false }
    }

    /// Of somebody who has staged something already.
    fn with_staged(db: &Arc<Database>, staged: Staged) -> Self {
        let mut draft = Self::new(db);
        draft.staged = staged;
        draft
    }

    /// The newest catalog with the changes.
    ///
    /// # Errors
    /// If a delta cannot be had.
    pub fn newest(&mut self) -> Result<Arc<Generation>> {
        let newest = self.db.generation();
        if !Arc::ptr_eq(&newest, &self.base) {
            if let Some(table) = self.own.catalog.difference(&self.base.catalog).undoes(&newest.catalog) {
                let name = &table.name;
                return Err(SqlError::internal(format!("two transactions have changed table {name:?} at once")));
            }
            self.own = Arc::new(self.over(&newest)?);
            self.base = newest;
        }
        Ok(Arc::clone(&self.own))
    }

    /// The catalog of a generation that the transaction keeps, with the changes. It reads at `timestamp`.
    ///
    /// # Errors
    /// As [`Self::newest`].
    pub fn over_kept(&mut self, kept: &Arc<Generation>, timestamp: u64) -> Result<Arc<Generation>> {
        if let Some([over, own, made]) = &self.kept
            && Arc::ptr_eq(over, kept)
            && Arc::ptr_eq(own, &self.own)
        {
            return Ok(Arc::clone(made));
        }
        let mut made = self.over(kept)?;
        // Nobody has changed rows of these since, or they would not have been changed: see `settle`. The kept ones were
        // merged before the timestamp was taken.
        let changed = made.catalog.difference(&kept.catalog).tables.into_iter().filter_map(|table| table.after);
        for table in changed.filter(|table| table.merged_through > timestamp) {
            made.catalog.put(Table { merged_through: timestamp, ..Table::clone(&table) });
        }
        let made = Arc::new(made);
        self.kept = Some([Arc::clone(kept), Arc::clone(&self.own), Arc::clone(&made)]);
        Ok(made)
    }

    /// A published generation with the changes.
    fn over(&self, published: &Arc<Generation>) -> Result<Generation> {
        let mut catalog = published.catalog.clone();
        catalog.change_by(&self.own.catalog.difference(&self.base.catalog));
        let difference = catalog.difference(&published.catalog);
        let deltas = self.db.engine()?.deltas_after(&published.deltas, &difference)?;
        let (guard, segment_tables) = (Arc::clone(&published.guard), Arc::clone(&published.segment_tables));
        let (number, unlogged) = (published.number, published.unlogged);
        let identity = Identity::next();
        Ok(Generation { identity, number, unlogged, guard, catalog, segment_tables, deltas })
    }

    /// What has been changed so far.
    pub fn mark(&self) -> DraftMark {
        DraftMark { base: Arc::clone(&self.base), own: Arc::clone(&self.own), fresh: self.fresh.len() }
    }

    /// Takes back what was changed after a mark; all of it without one. The rows have been taken back before.
    pub fn go_back(&mut self, mark: Option<DraftMark>) {
        let DraftMark { base, own, fresh } = mark.unwrap_or_else(|| {
            let base = self.db.generation();
            DraftMark { own: Arc::clone(&base), base, fresh: 0 }
        });
        (self.base, self.own) = (base, own);
        self.fresh.truncate(fresh);
    }

    /// Whether a table was made or emptied after a mark; at all without one.
    pub fn is_fresh(&self, table: TableId, since: Option<&DraftMark>) -> bool {
        self.fresh.iter().skip(since.map_or(0, |mark| mark.fresh)).any(|fresh| *fresh == table)
    }

    /// Runs `work` on the transaction's own catalog. What it builds is on the device afterwards, and the transaction's.
    ///
    /// # Errors
    /// Those of the work, 57014 if it is told to stop, 55P03 if its patience is over before, and of storage: nothing
    /// has changed then.
    pub fn write<T>(&mut self, stop: &Stop, work: impl FnOnce(&mut Writer<'_>) -> Result<T>) -> Result<T> {
        let db = Arc::clone(&self.db);
        db.engine()?;
        let _writing = db.writing.lock_unless(stop)?;
        self.write_in_turn(stop, work)
    }

    /// The same for a caller that holds [`Database::writing`].
    fn write_in_turn<T>(&mut self, stop: &Stop, work: impl FnOnce(&mut Writer<'_>) -> Result<T>) -> Result<T> {
        let db = Arc::clone(&self.db);
        db.writable()?;
        let engine = db.engine()?;
        stop.check()?;
        let before = self.newest()?;
        let mut writer = Writer::begin(&db, Arc::clone(&before), stop)?;
        writer.keeps_replaced = true;
        let result = work(&mut writer)?;
        writer.renew_deltas();
        let changed = writer.catalog.difference(&before.catalog);
        let deltas = engine.deltas_after(&before.deltas, &changed)?;
        let catalog = writer.catalog.clone();
        let emptied = std::mem::take(&mut writer.emptied);
        self.stage(writer, &changed)?;
        let made = changed.tables.iter().filter(|table| table.before.is_none());
        self.fresh.extend(made.filter_map(|table| table.after.as_ref()).map(|table| table.id).chain(emptied));
        let made = changed.tables.iter().filter_map(|table| deltas.get(&table.after.as_ref()?.delta));
        self.deltas.extend(made.map(Arc::clone));
        let (published, segment_tables) = (db.generation(), Arc::clone(&before.segment_tables));
        let (number, unlogged, guard) = (published.number, published.unlogged, Arc::clone(&published.guard));
        let identity = Identity::next();
        self.own = Arc::new(Generation { identity, number, unlogged, guard, catalog, segment_tables, deltas });
        Ok(result)
    }

    /// Publishes what was built, as the transaction's; nothing if that is nothing.
    fn stage(&mut self, writer: Writer<'_>, changed: &Difference) -> Result<()> {
        let mut known: HashSet<PageRef> = self.staged.tables.iter().flat_map(Table::pages).collect();
        known.extend(changed.tables.iter().filter_map(|table| table.before.as_ref()).flat_map(|table| table.pages()));
        let after = changed.tables.iter().filter_map(|table| table.after.as_ref());
        let built: Vec<Table> = after.filter_map(|table| table.without(&known)).collect();
        if built.is_empty() {
            return writer.stop.commit().map(drop);
        }
        let mut staged = self.staged.clone();
        if staged.id == 0 {
            staged.id = writer.catalog.clone().new_table_id().0;
        }
        staged.tables.extend(built);
        let mut writer = writer.instead(&self.base);
        writer.catalog.put_staged(staged.clone());
        writer.commit()?;
        self.staged = staged;
        Ok(())
    }

    /// Builds tables anew with all that `snapshot`, the transaction's, sees in them, where their deltas have anything.
    /// From there on they are their base.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn settle(&mut self, snapshot: &Snapshot, tables: &[String], stop: &Stop) -> Result<()> {
        let eyes = snapshot.reader()?;
        for name in tables {
            let table = Arc::clone(snapshot.generation.catalog.table(name)?);
            let Some(delta) = snapshot.generation.delta(&table) else { continue };
            let newer = || NewerRows::new(&eyes, delta.rows.newer_than(0), crate::checkpoint::ALL);
            if newer().peek().is_none() {
                continue;
            }
            self.write(stop, |writer| {
                let mut after = Table::clone(writer.catalog.table(name)?);
                after.clear(&writer.catalog);
                writer.catalog.put(after);
                let mut reader = writer.db.tree_reader()?;
                let mut rows = AllRows::new(newer(), &mut reader, &table, writer.stop.clone())?;
                merge(writer, name, &mut rows, &Pace::full()).map(drop)
            })?;
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_over && self.staged.id != 0 {
            self.db.abandoned.lock().push(self.staged.id);
        }
    }
}

/// All rows of a table, as changes of an empty one.
struct AllRows<'r> {
    newer: NewerRows<'r, saki_mvcc::Reader>,
    older: saki_tree::TreeRange<'r>,
    of_base: Option<(Vec<u8>, Vec<u8>)>,
    shown: (Vec<u8>, Vec<u8>),
    count: u64,
    stop: Stop,
}

/// Rows after which a rebuilding looks whether it is still wanted.
const ROWS_BETWEEN_CHECKS: u64 = 4096;

impl<'r> AllRows<'r> {
    fn new(
        newer: NewerRows<'r, saki_mvcc::Reader>,
        reader: &'r mut TreeReader,
        table: &Table,
        stop: Stop,
    ) -> Result<Self> {
        let older = reader.scan(&table.root);
        let mut rows = Self { newer, older, of_base: None, shown: Default::default(), count: 0, stop };
        rows.advance_base()?;
        Ok(rows)
    }

    fn advance_base(&mut self) -> Result<()> {
        self.of_base = self.older.next()?.map(|(key, row)| (key.to_vec(), row.to_vec()));
        Ok(())
    }
}

impl ChangeSource for AllRows<'_> {
    fn next(&mut self) -> Result<Option<KeyChange<'_>>> {
        loop {
            if self.count.is_multiple_of(ROWS_BETWEEN_CHECKS) {
                self.stop.check()?;
            }
            self.count += 1;
            let order = match (self.newer.peek(), &self.of_base) {
                (None, None) => return Ok(None),
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(_), None) => std::cmp::Ordering::Less,
                (Some((key, _)), Some((base, _))) => key.cmp(base.as_slice()),
            };
            let of_delta = match order.is_le() {
                true => self.newer.take().map(|(key, row)| (key.to_vec(), row.map(<[u8]>::to_vec))),
                false => None,
            };
            let of_base = if order.is_ge() { self.of_base.take() } else { None };
            if order.is_ge() {
                self.advance_base()?;
            }
            let row = match of_delta {
                Some((key, row)) => row.map(|row| (key, row)),
                None => of_base,
            };
            if let Some(row) = row {
                self.shown = row;
                return Ok(Some((&self.shown.0, Some(&self.shown.1))));
            }
        }
    }
}
