//! A database with one table of numbers, made without SQL.
#![allow(dead_code)]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use saki_base::{Column, DataType, TableId, ValueRef};
use saki_catalog::{Catalog, ColumnDetail, EntryEncoder, PUBLIC, Sequence, SequencePosition, Table, TableTier};
use saki_mvcc::Isolation;
use saki_store::{CreateOptions, Database, OpenOptions, Pace, PolicyKind};
use saki_tree::TreeRoot;
use tempfile::TempDir;

pub struct Sample {
    directory: TempDir,
    /// There but while it is opened again.
    db: Option<Arc<Database>>,
}

fn options() -> OpenOptions {
    OpenOptions {
        cache_bytes: 8 << 20,
        column_cache_bytes: 4 << 20,
        reactors: Some(1),
        direct: false,
        log_extent_bytes: 1 << 20,
        tier_policy: PolicyKind::None,
        ..OpenOptions::default()
    }
}

impl Sample {
    /// With rows from 0 on, all merged.
    pub fn new(rows: i64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let made = CreateOptions { open: options(), ..CreateOptions::default() };
        let db = Database::create(directory.path().join("sample"), made).expect("made");
        db.write(|writer| {
            let table = table(&mut writer.catalog);
            writer.catalog.put(table);
            let sequence = sequence(&mut writer.catalog);
            writer.catalog.put_sequence(sequence);
            Ok(())
        })
        .expect("a table");
        db.start_engine().expect("started");
        let sample = Self { directory, db: Some(db) };
        sample.add(0..rows);
        sample.db().checkpoint(&Pace::full()).expect("merged");
        sample
    }

    pub fn db(&self) -> &Arc<Database> {
        self.db.as_ref().expect("open")
    }

    /// Opens it again, as after a crash.
    pub fn reopen(&mut self) {
        self.db = None;
        self.db = Some(Database::open(self.path(), options()).expect("opens by recovery"));
    }

    /// Publishes something that is not in the logs.
    pub fn define(&self) {
        let comment = |writer: &mut saki_store::Writer<'_>| {
            let table = Table::clone(writer.catalog.table("t")?);
            let comment = format!("{}.", table.comment.clone().unwrap_or_default());
            writer.catalog.put(Table { comment: Some(comment), ..table });
            Ok(())
        };
        self.db().write(comment).expect("published");
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("sample")
    }

    /// The next value of a sequence.
    pub fn next_value(&self) -> i64 {
        next_value(self.db())
    }

    /// Sets the sequence back.
    pub fn restart_sequence(&self) {
        let restart = |writer: &mut saki_store::Writer<'_>| {
            let before = writer.catalog.sequence("s").map(|it| Sequence::clone(it)).expect("made");
            let position = SequencePosition { last_value: 1, is_called: false };
            writer.catalog.put_sequence(Sequence { version: before.version + 1, position, ..before });
            Ok(())
        };
        self.db().write(restart).expect("published");
    }

    /// Adds rows in one transaction.
    pub fn add(&self, ids: Range<i64>) {
        let generation = self.db().generation();
        let table = generation.catalog.table("t").expect("made");
        let delta = generation.delta(table).expect("an engine has started");
        let mut runner = self.db().engine().and_then(|engine| engine.runner()).expect("a runner");
        let mut transaction = runner.begin(Isolation::Snapshot);
        for id in ids {
            let mut encoder = EntryEncoder::new(table.primary_layout());
            // No two pages are alike.
            let v = id.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
            encoder.encode(&mut Vec::new(), |column| ValueRef::Int8([id, v][column])).expect("two numbers");
            delta.write(&mut transaction, &encoder.key, Some(&encoder.row)).expect("nobody is in the way");
        }
        transaction.commit().expect("committed");
    }
}

fn next_value(db: &Database) -> i64 {
    db.sequences.next(db, "s").expect("a value").1
}

/// The next value of the sequence in the database at a path.
pub fn next_value_of(path: &Path) -> i64 {
    next_value(&Database::open(path, options()).expect("opens by recovery"))
}

/// The table's comment in the database at a path.
pub fn comment_of(path: &Path) -> Option<String> {
    let db = Database::open(path, options()).expect("opens by recovery");
    let generation = db.generation();
    generation.catalog.table("t").expect("made").comment.clone()
}

/// Rows of the database at a path, which is whole.
pub fn rows_of(path: &Path) -> u64 {
    let db = Database::open(path, options()).expect("opens by recovery");
    db.checkpoint(&Pace::full()).expect("merged");
    let report = db.check(&mut |_| {}).expect("checked");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    report.rows
}

fn sequence(catalog: &mut Catalog) -> Sequence {
    Sequence {
        id: catalog.new_table_id(),
        name: "s".to_owned(),
        schema: PUBLIC.to_owned(),
        data_type: DataType::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cycle: false,
        cache: 1,
        owner: None,
        position: SequencePosition { last_value: 1, is_called: false },
        version: 0,
        comment: None,
    }
}

fn table(catalog: &mut Catalog) -> Table {
    let column = |name: &str| Column { name: name.to_owned(), data_type: DataType::Int8, nullable: false };
    Table {
        id: catalog.new_table_id(),
        name: "t".to_owned(),
        schema: PUBLIC.to_owned(),
        columns: vec![column("id"), column("v")],
        details: (0..2).map(|id| ColumnDetail { id, ..ColumnDetail::default() }).collect(),
        next_column_id: 2,
        stored: saki_catalog::StoredColumns::default(),
        layout_version: 0,
        primary_key: vec![0],
        primary_key_constraint: None,
        primary_key_comment: None,
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        resident: false,
        tier: TableTier::Auto,
        comment: None,
        next_row_id: 0,
        root: TreeRoot::empty(catalog.new_tree_id()),
        indexes: Vec::new(),
        segments: None,
        bloom: Vec::new(),
        statistics: None,
        delta: TableId(0),
        merged_through: 0,
    }
}
