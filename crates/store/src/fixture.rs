//! A database with one table `t (id bigint, v bigint)` for tests, and what is seen of it on every path.

pub mod logs;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use saki_base::{Column, DataType, PageSize, TableId, ValueRef};
use saki_columns::SegmentsRoot;
use saki_exec::{ColumnOverlay, EntryKeys, Overlay};
use saki_io::{Device, SimDevice, SimOptions};
use saki_mvcc::{Direction, Isolation, KeyRange, Reader, Transaction};
use saki_tree::TreeRoot;
use saki_volume::{Volume, VolumeOptions};
use tempfile::TempDir;

use crate::delta::LogDirectory;
use crate::reader::{Entry, IndexEntries, Point, Short, Shortly, Snapshot, TableReader, TreeOverlay};
use crate::{BaseReader, CreateOptions, Database, Delta, OpenOptions, Pace};
use saki_catalog::{Catalog, ColumnDetail, EntryDecoder, EntryEncoder, Index, IndexColumn, PUBLIC, Result, Table};

/// Rows by id; of a table without a primary key, by what its column `id` says.
pub type Rows = BTreeMap<i64, i64>;

/// How the table is made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Whether `id` is its primary key.
    pub keyed: bool,
    /// Whether the index on `v` is unique.
    pub unique: bool,
    pub resident: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { keyed: true, unique: false, resident: false }
    }
}

/// A database in a directory of its own.
pub struct Bench {
    directory: TempDir,
    /// What it is on in the place of a file.
    device: Option<Arc<dyn Device>>,
    db: Option<Arc<Database>>,
}

/// A simulated device for a database.
pub fn simulated() -> Arc<SimDevice> {
    SimDevice::new(SimOptions { length_bytes: 0, ..SimOptions::default() })
}

/// The database that a device has; `path`: where its logs lie.
pub fn open_on(device: &Arc<dyn Device>, path: &Path, options: OpenOptions) -> Result<Arc<Database>> {
    let volume = saki_volume::OpenOptions { accept_loss: options.accept_loss, ..Default::default() };
    let volume = Volume::open_with(Arc::clone(device), volume)?;
    Database::start(path, Arc::clone(device), volume, Arc::new(LogDirectory::beside(path)), options)
}

pub fn options() -> OpenOptions {
    OpenOptions {
        cache_bytes: 8 << 20,
        column_cache_bytes: 4 << 20,
        load_memory_bytes: 2 << 20,
        segment_rows: 700,
        reactors: Some(1),
        direct: false,
        // Tests that are about it say so.
        tier_policy: crate::PolicyKind::None,
        ..OpenOptions::default()
    }
}

/// Rows of the columns `id` and `v`.
pub fn batch(rows: impl Iterator<Item = (i64, i64)>) -> RecordBatch {
    let (ids, values): (Vec<i64>, Vec<i64>) = rows.unzip();
    let columns =
        [("id", ids), ("v", values)].map(|(name, values)| (name, Arc::new(Int64Array::from(values)) as ArrayRef));
    RecordBatch::try_from_iter(columns).expect("two columns")
}

/// Damages the logs of a database in the middle of what they hold: damage at the very end passes for a write that power
/// cut short.
pub fn damage_logs(path: &Path) {
    let mut damaged = 0;
    for file in std::fs::read_dir(path.with_extension("log")).expect("a directory").flatten() {
        let mut bytes = std::fs::read(file.path()).expect("readable");
        let held: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        if held.last().is_some_and(|last| *last > 16 << 10) {
            bytes[held[held.len() / 2]] ^= 1;
            std::fs::write(file.path(), bytes).expect("written");
            damaged += 1;
        }
    }
    assert!(damaged > 0, "no log holds enough");
}

impl Bench {
    pub fn new(shape: Shape) -> Self {
        Self::make(None, shape, CreateOptions::default().page_size)
    }

    /// On a device; only the logs are files.
    pub fn on(device: Arc<dyn Device>, shape: Shape) -> Self {
        Self::make(Some(device), shape, CreateOptions::default().page_size)
    }

    pub fn make(device: Option<Arc<dyn Device>>, shape: Shape, page_size: PageSize) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("database");
        let db = match &device {
            None => Database::create(path, CreateOptions { page_size, open: options(), ..CreateOptions::default() }),
            Some(device) => {
                let volume = Volume::create(Arc::clone(device), VolumeOptions::new(page_size)).expect("created");
                Database::start(&path, Arc::clone(device), volume, Arc::new(LogDirectory::beside(&path)), options())
            }
        };
        let db = db.expect("created");
        let made = db.write(|writer| {
            let table = table(&mut writer.catalog, shape);
            writer.catalog.put(table);
            Ok(())
        });
        made.and_then(|()| db.start_engine()).expect("a table");
        Self { directory, device, db: Some(db) }
    }

    /// One that is open already. It cannot be reopened.
    pub fn around(db: Arc<Database>) -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), device: None, db: Some(db) }
    }

    pub fn db(&self) -> &Arc<Database> {
        self.db.as_ref().expect("open")
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("database")
    }

    /// Ends the database as it is, and opens it again.
    pub fn reopen(&mut self) {
        drop(self.db.take());
        let opened = match &self.device {
            None => Database::open(self.path(), options()),
            Some(device) => open_on(device, &self.path(), options()),
        };
        self.db = Some(opened.expect("opened"));
    }

    /// Ends the database as it is; where it lies.
    pub fn close(self) -> TempDir {
        drop(self.db);
        self.directory
    }

    pub fn table(&self) -> Arc<Table> {
        Arc::clone(self.db().generation().catalog.table("t").expect("made"))
    }

    /// Runs a transaction on the newest generation.
    pub fn transact<T>(&self, work: impl FnOnce(&Table, &Delta, &mut Transaction<'_>) -> Result<T>) -> Result<T> {
        let generation = self.db().generation();
        let table = generation.catalog.table("t")?;
        let delta = generation.delta(table).expect("an engine has started");
        let mut runner = self.db().engine()?.runner()?;
        let mut transaction = runner.begin(Isolation::Snapshot);
        let outcome = work(table, delta, &mut transaction)?;
        transaction.commit()?;
        Ok(outcome)
    }

    /// Gives ids new values, or deletes their rows, in one transaction.
    pub fn commit(&self, changes: &[(i64, Option<i64>)]) {
        self.try_commit(changes).expect("nobody is in the way");
    }

    /// The same where it may be refused.
    pub fn try_commit(&self, changes: &[(i64, Option<i64>)]) -> Result<()> {
        let work = |table: &Table, delta: &Delta, transaction: &mut Transaction<'_>| {
            for (id, v) in changes {
                let (key, row) = entry(table, *id, v.unwrap_or_default());
                delta.write(transaction, &key, v.map(|_| row.as_slice()))?;
            }
            Ok(())
        };
        self.transact(work)
    }

    /// Adds rows to a table without a primary key, as INSERT does.
    pub fn insert(&self, rows: std::ops::Range<i64>) {
        let work = |table: &Table, delta: &Delta, transaction: &mut Transaction<'_>| {
            for id in rows {
                let (key, row) = keyless_entry(table, delta.row_ids(1), id, id);
                delta.write(transaction, &key, Some(&row))?;
            }
            Ok(())
        };
        self.transact(work).expect("nobody is in the way");
    }

    /// Adds rows straight to the base, as COPY does with many.
    pub fn load(&self, rows: impl Iterator<Item = (i64, i64)>) -> Result<u64> {
        let _alone = self.db().alone(&["t".to_owned()])?;
        let batch = batch(rows);
        self.db().write(|writer| {
            let is_empty = writer.catalog.table("t")?.root.is_empty();
            let batches = [Ok(batch)].into_iter();
            match is_empty {
                true => crate::load::load(writer, "t", batches, &mut |_| {}),
                false => crate::load::append(writer, "t", batches, crate::OnDuplicate::Refuse),
            }
        })
    }

    /// Takes all rows away at once.
    pub fn truncate(&self) {
        let _alone = self.db().alone(&["t".to_owned()]).expect("alone");
        let emptied = self.db().write(|writer| {
            let mut table = Table::clone(writer.catalog.table("t")?);
            writer.free_tree(&table.root)?;
            table.root = TreeRoot::empty(writer.catalog.new_tree_id());
            for index in &mut table.indexes {
                writer.free_tree(&index.root)?;
                index.root = TreeRoot::empty(writer.catalog.new_tree_id());
            }
            if let Some(segments) = &table.segments {
                writer.free_segments(&table, segments)?;
            }
            table.segments = Some(SegmentsRoot::empty(writer.catalog.new_tree_id()));
            table.layout_version += 1;
            writer.catalog.put(table);
            Ok(())
        });
        emptied.expect("emptied");
    }

    pub fn merge(&self) {
        self.db().checkpoint(&Pace::full()).expect("merged");
    }

    /// What is seen from now on.
    pub fn moment(&self) -> Moment {
        Moment { db: Arc::clone(self.db()), snapshot: self.db().newest_snapshot().expect("not too many") }
    }

    /// Nothing is wrong with what is stored.
    pub fn check(&self) {
        let faults = self.db().check(&mut |_| {}).expect("checked").faults;
        assert!(faults.is_empty(), "{faults:?}");
    }
}

pub fn table(catalog: &mut Catalog, shape: Shape) -> Table {
    let column = |name: &str| Column { name: name.to_owned(), data_type: DataType::Int8, nullable: false };
    let index = Index {
        name: "t_v".to_owned(),
        schema: PUBLIC.to_owned(),
        columns: vec![IndexColumn { column: 1, descending: false }],
        unique: shape.unique,
        include: Vec::new(),
        constraint: false,
        constraint_comment: None,
        comment: None,
        root: TreeRoot::empty(catalog.new_tree_id()),
    };
    Table {
        id: catalog.new_table_id(),
        name: "t".to_owned(),
        schema: PUBLIC.to_owned(),
        columns: vec![column("id"), column("v")],
        details: (0..2).map(|id| ColumnDetail { id, ..ColumnDetail::default() }).collect(),
        next_column_id: 2,
        layout_version: 0,
        primary_key: if shape.keyed { vec![0] } else { Vec::new() },
        primary_key_constraint: None,
        primary_key_comment: None,
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        resident: shape.resident,
        tier: saki_catalog::TableTier::Auto,
        comment: None,
        next_row_id: 0,
        root: TreeRoot::empty(catalog.new_tree_id()),
        indexes: vec![index],
        segments: Some(SegmentsRoot::empty(catalog.new_tree_id())),
        bloom: Vec::new(),
        statistics: None,
        delta: TableId(0),
        merged_through: 0,
    }
}

/// A row of the keyed table.
pub fn entry(table: &Table, id: i64, v: i64) -> Entry {
    keyless_entry(table, 0, id, v)
}

pub fn keyless_entry(table: &Table, row_id: i64, id: i64, v: i64) -> Entry {
    let mut encoder = EntryEncoder::new(table.primary_layout());
    encoder.encode(&mut Vec::new(), |column| ValueRef::Int8([id, v, row_id][column])).expect("three numbers");
    (encoder.key, encoder.row)
}

pub fn decoded(table: &Table, key: &[u8], row: &[u8]) -> (i64, i64) {
    let number = |value: ValueRef<'_>| match value {
        ValueRef::Int8(number) => number,
        other => panic!("{other:?} is no bigint"),
    };
    let mut decoder = EntryDecoder::new(table.primary_layout());
    decoder.decode(table, key, row, |values| (number(values[0]), number(values[1]))).expect("a row")
}

/// What an index key of `v` begins with.
pub fn prefix(table: &Table, v: i64) -> Vec<u8> {
    let mut prefix = Vec::new();
    let layout = table.index_layout(&table.indexes[0]);
    layout.key.encode(&[ValueRef::Int8(v)], &mut prefix).expect("a bigint");
    prefix
}

const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

/// A snapshot, read on each path.
pub struct Moment {
    db: Arc<Database>,
    pub snapshot: Arc<Snapshot>,
}

impl Moment {
    pub fn table(&self) -> &Arc<Table> {
        self.snapshot.generation.catalog.table("t").expect("made")
    }

    fn delta(&self) -> &Arc<Delta> {
        self.snapshot.generation.delta(self.table()).expect("an engine has started")
    }

    pub fn read<T>(&self, work: impl FnOnce(&TableReader<'_, Reader>, &mut BaseReader<'_>) -> T) -> T {
        let eyes = self.snapshot.reader().expect("not too many");
        work(&TableReader::new(self.table(), self.delta(), &eyes), &mut self.db.base_reader())
    }

    fn rows(&self, entries: &[Entry]) -> Rows {
        let rows: Rows = entries.iter().map(|(key, row)| decoded(self.table(), key, row)).collect();
        assert_eq!(rows.len(), entries.len(), "a row comes once");
        rows
    }

    /// A range, waiting.
    pub fn range(&self) -> Rows {
        self.rows(&self.read(|reader, base| {
            let mut entries = Vec::new();
            let read = reader.range(base, &KeyRange::all(), |key, row| {
                entries.push((key.to_vec(), row.to_vec()));
                Ok(ControlFlow::Continue(()))
            });
            read.expect("readable");
            assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "in the order of keys");
            entries
        }))
    }

    /// A short range of keys or of the index; `None`: not in memory.
    pub fn short(&self, by_index: bool, direction: Direction) -> Option<Rows> {
        let short = Short { rows: usize::MAX, entries: usize::MAX, direction };
        let entries = self.read(|reader, base| match by_index {
            false => reader.range_cached(base, ALL, short),
            true => reader.index_range_cached(base, &IndexEntries::new(self.table(), 0), ALL, short),
        });
        match entries.expect("readable") {
            Shortly::Rows(entries) => Some(self.rows(&entries)),
            Shortly::Long | Shortly::Away(_) => None,
        }
    }

    /// Points, waiting and from memory, which agree.
    pub fn point(&self, id: i64) -> Option<i64> {
        let (key, _) = entry(self.table(), id, 0);
        self.read(|reader, base| {
            let value = |row: &[u8]| decoded(self.table(), &key, row).1;
            let found = reader.get(base, &key).expect("readable").map(|row| value(&row));
            match reader.get_cached(base, &key, value).expect("readable") {
                Point::Row(cached) => assert_eq!(found, Some(cached)),
                Point::Nowhere => assert_eq!(found, None),
                Point::Away => {}
            }
            found
        })
    }

    /// Rows of a value, by the index.
    pub fn with_value(&self, v: i64) -> Rows {
        let (entries, prefix) = (IndexEntries::new(self.table(), 0), prefix(self.table(), v));
        let found = self.read(|reader, base| {
            let mut found = Vec::new();
            let read = reader.index_prefix(base, &entries, &prefix, |key, row| {
                found.push((key.to_vec(), row.to_vec()));
                Ok(())
            });
            read.expect("readable");
            let one = reader.key_by_index(base, &entries, &prefix).expect("readable");
            assert_eq!(one.is_some(), !found.is_empty());
            assert!(one.is_none_or(|one| found.iter().any(|(key, _)| *key == one)));
            found
        });
        self.rows(&found)
    }

    fn tree(&self, index: Option<usize>) -> Vec<Entry> {
        let root = index.map_or(self.table().root, |index| self.table().indexes[index].root);
        let mut base = self.db.base_reader();
        let mut entries = base.range(&root, Bound::Unbounded, Bound::Unbounded).expect("readable");
        let mut found = Vec::new();
        while let Some((key, row)) = entries.next().expect("readable") {
            found.push((key.to_vec(), row.to_vec()));
        }
        found
    }

    /// The base's entries of a tree with what lies over them.
    fn overlaid(&self, index: Option<usize>) -> Vec<Entry> {
        let base = self.tree(index);
        let moment = self.snapshot.moment().expect("an engine has started").clone();
        let overlay = TreeOverlay::new(self.table(), Arc::clone(self.delta()), moment, index);
        let mut reader = overlay.reader().expect("not too many");
        let bytes: Vec<u8> = base.iter().flat_map(|(key, _)| key).copied().collect();
        let ends: Vec<u32> = base
            .iter()
            .scan(0, |end, (key, _)| {
                *end += key.len() as u32;
                Some(*end)
            })
            .collect();
        let mut hidden = vec![false; base.len()];
        reader.hide(&EntryKeys::of_list(&bytes, &ends), &mut hidden).expect("in memory");
        // Time for others, between the two questions.
        std::thread::yield_now();
        let mut seen: Vec<Entry> =
            base.into_iter().zip(hidden).filter(|(_, hidden)| !hidden).map(|(entry, _)| entry).collect();
        let mut visit = |key: &[u8], row: &[u8]| {
            seen.push((key.to_vec(), row.to_vec()));
            ControlFlow::Continue(())
        };
        reader.entries(None, None, &mut visit).expect("in memory");
        seen
    }

    /// The primary tree under its overlay, as pipelines read it.
    pub fn pipeline(&self) -> Rows {
        self.rows(&self.overlaid(None))
    }

    /// The index under its overlay: how often each value is there.
    pub fn values(&self) -> BTreeMap<i64, usize> {
        let layout = self.table().index_layout(&self.table().indexes[0]);
        let mut values = BTreeMap::new();
        for (entry, _) in self.overlaid(Some(0)) {
            match layout.key.decode(&entry, 0, &mut Vec::new()).expect("an entry") {
                ValueRef::Int8(v) => *values.entry(v).or_default() += 1,
                other => panic!("{other:?} is no bigint"),
            }
        }
        values
    }

    /// The column segments under their overlay.
    pub fn columns(&self) -> Rows {
        let segments = self.snapshot.generation.segments(self.table()).expect("readable").expect("columns are on");
        let overlay = self.snapshot.segment_overlay(&self.db, self.table(), &segments).expect("readable");
        let base = self.tree(None);
        assert_eq!(base.len() as u64, segments.rows, "segments have the rows of the tree");
        let (mut entries, mut start) = (Vec::new(), 0);
        for (position, segment) in segments.segments.iter().enumerate() {
            let rows = &base[start..start + segment.rows as usize];
            let hidden = overlay.as_ref().and_then(|overlay| overlay.hidden(position).expect("in memory"));
            let is_hidden = |row: usize| hidden.as_ref().is_some_and(|hidden| hidden.contains(&(row as u32)));
            entries.extend(rows.iter().enumerate().filter(|(row, _)| !is_hidden(*row)).map(|(_, row)| row.clone()));
            start += rows.len();
        }
        let mut rows = self.rows(&entries);
        let of_base = rows.len();
        let mut own = 0;
        for part in 0..overlay.as_ref().map_or(0, |overlay| overlay.parts()) {
            let batch = overlay.as_ref().expect("it has parts").rows(part, &[0, 1]).expect("in memory");
            let [ids, values] =
                [0, 1].map(|column| batch.columns[column].array().as_primitive::<Int64Type>().values().to_vec());
            own += ids.len();
            rows.extend(ids.into_iter().zip(values));
        }
        assert_eq!(rows.len(), of_base + own, "a row comes once");
        rows
    }
}
