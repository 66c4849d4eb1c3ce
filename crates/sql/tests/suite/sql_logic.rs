//! Runs every file of `tests/sql` at the repository's root, under several configurations.
//!
//! A file states what SQL means; a configuration states how it is executed. Answers must never depend on
//! the latter: not on the page size, the cache, the order of page visits, or the plan.
//!
//! The first two configurations run all files. Of the others each runs its third of them, so that every file meets a
//! third of the configurations; `SLT=.slt` runs all by all.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{PageSize, VolumeNumber};
use saki_sql::{CreateOptions, Database, OpenOptions, Session, SqlError, StatementResult};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

use super::dump::Dump;
use super::support::text_rows;

const DATABASE: &str = "database";

/// When deltas are merged into their bases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Merge {
    /// After every change: queries read bases.
    Always,
    /// After every other change: queries read both.
    Sometimes,
    /// Queries read deltas.
    Never,
}

/// One way of executing everything.
#[derive(Clone, Copy)]
struct Configuration {
    name: &'static str,
    page_bytes: u32,
    cache_bytes: usize,
    segment_rows: u32,
    merge: Merge,
    settings: &'static [(&'static str, &'static str)],
    /// Whether databases are opened again in the end: where they store something in another way than others do.
    reopens: bool,
}

const DEFAULT: Configuration = Configuration {
    name: "",
    page_bytes: 8 << 10,
    cache_bytes: 16 << 20,
    segment_rows: saki_columns::SEGMENT_ROWS,
    merge: Merge::Always,
    settings: &[],
    reopens: false,
};

impl Configuration {
    fn options(self) -> OpenOptions {
        OpenOptions {
            cache_bytes: self.cache_bytes,
            segment_rows: self.segment_rows,
            reactors: Some(2),
            ..OpenOptions::default()
        }
    }
}

/// A session as the test runner wants it.
struct Connection {
    session: Session,
    /// Merges, whatever role the session has taken.
    merging: Session,
    merge: Merge,
    changes: usize,
}

impl Connection {
    fn new(session: Session, merge: Merge) -> Self {
        let merging = Session::new(session.database());
        Self { session, merging, merge, changes: 0 }
    }

    /// Merges what a statement has changed, if it is time.
    async fn merge(&mut self) -> Result<(), SqlError> {
        self.changes += 1;
        match self.merge {
            Merge::Sometimes if self.changes.is_multiple_of(2) => {}
            Merge::Never => {}
            Merge::Always | Merge::Sometimes => drop(self.merging.execute("CHECKPOINT").await?),
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl AsyncDB for Connection {
    type Error = SqlError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, SqlError> {
        let mut results = self.session.execute(sql).await?;
        let is_change = results.iter().any(|result| match result {
            StatementResult::Done { tag, rows } => *rows > 0 && tag != "COPY",
            StatementResult::Returning { .. } => true,
            StatementResult::Rows { .. } => false,
        });
        if is_change {
            self.merge().await?;
        }
        match results.pop() {
            None => Ok(DBOutput::StatementComplete(0)),
            Some(StatementResult::Done { rows, .. }) => Ok(DBOutput::StatementComplete(rows)),
            Some(rows) => {
                let columns = match &rows {
                    StatementResult::Rows { schema, .. } => schema.fields().len(),
                    StatementResult::Returning { batch, .. } => batch.num_columns(),
                    StatementResult::Done { .. } => 0,
                };
                let types = vec![DefaultColumnType::Any; columns];
                Ok(DBOutput::Rows { types, rows: text_rows(rows).await? })
            }
        }
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "saki"
    }
}

fn create(configuration: Configuration, directory: &Path) -> Arc<Database> {
    let options = CreateOptions {
        page_size: PageSize::new(configuration.page_bytes).unwrap(),
        // Small pages have the longest addresses there are.
        volume_number: VolumeNumber(if configuration.page_bytes == 4 << 10 { u16::MAX } else { 0 }),
        open: configuration.options(),
        ..CreateOptions::default()
    };
    Database::create(directory.join(DATABASE), options).unwrap()
}

fn session(database: &Arc<Database>, configuration: Configuration) -> Session {
    let session = Session::new(database);
    // They are the planner's, which statements over small tables do without.
    if !configuration.settings.is_empty() {
        session.set("compiled", "off").unwrap();
    }
    for (name, value) in configuration.settings {
        session.set(name, value).unwrap();
    }
    session
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let only = std::env::var("SLT").ok();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .filter(|path| only.as_ref().is_none_or(|only| path.to_string_lossy().contains(only)))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no .slt files in {}", directory.display());
    files
}

/// Runs a file in a database of its own, and looks at what it leaves; what is wrong.
async fn run_file(configuration: Configuration, file: &Path) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let database = create(configuration, directory.path());
    let mut faults = Vec::new();
    let mut runner =
        Runner::new(|| async { Ok(Connection::new(session(&database, configuration), configuration.merge)) });
    runner.set_var("DIR".into(), directory.path().display().to_string());
    if let Err(error) = runner.run_file_async(file).await {
        faults.push(error.to_string());
    }
    drop(runner);
    check(&database, "after the file", &mut faults);
    if configuration.reopens {
        let before = Dump::of(&database).await.unwrap();
        until_alone(&database).await;
        drop(database);
        let database = Database::open(directory.path().join(DATABASE), configuration.options()).unwrap();
        let after = Dump::of(&database).await.unwrap();
        faults.extend(before.differences(&after).iter().map(|what| format!("after opening it again: {what}")));
        check(&database, "after opening it again", &mut faults);
    }
    faults
}

fn check(database: &Database, when: &str, faults: &mut Vec<String>) {
    let report = database.check(&mut |_| {}).unwrap();
    faults.extend(report.faults.iter().map(|fault| format!("{when}: {fault}")));
}

/// Waits for what sessions that have ended leave to others to do.
async fn until_alone(database: &Arc<Database>) {
    let began = Instant::now();
    while Arc::strong_count(database) > 1 {
        assert!(began.elapsed() < Duration::from_secs(20), "somebody has the database open");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Configurations that run every file; each of the others runs one of so many.
const WHOLE: [&str; 2] = ["default_configuration", "deltas"];
const SHARE: usize = 3;

/// The files that a configuration runs.
fn share(configuration: Configuration) -> Vec<PathBuf> {
    let files = files();
    if WHOLE.contains(&configuration.name) || std::env::var("SLT").is_ok() {
        return files;
    }
    let number: usize = configuration.name.bytes().map(usize::from).sum();
    files
        .into_iter()
        .enumerate()
        .filter(|(place, _)| (place + number).is_multiple_of(SHARE))
        .map(|(_, file)| file)
        .collect()
}

/// Runs its files under one configuration.
fn run(configuration: Configuration) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut failures = String::new();
    for file in share(configuration) {
        for fault in runtime.block_on(run_file(configuration, &file)) {
            let _ = writeln!(failures, "[{}] {}: {fault}", configuration.name, file.display());
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

macro_rules! configurations {
    ($($test:ident: { $($how:tt)* })*) => {
        $(#[test]
        fn $test() {
            run(Configuration { name: stringify!($test), $($how)* ..DEFAULT });
        })*
    };
}

configurations! {
    default_configuration: { reopens: true, }
    deltas: { merge: Merge::Never, reopens: true, }
    deltas_of_planned_changes: { merge: Merge::Sometimes, settings: &[("compiled", "off")], }
    deltas_over_bases: { merge: Merge::Sometimes, page_bytes: 4 << 10, reopens: true, }
    deltas_over_columns: { merge: Merge::Sometimes, segment_rows: 3, settings: &[("access_path", "columns")], }
    deltas_over_indexes: { merge: Merge::Sometimes, settings: &[("index_join", "always"), ("access_path", "index")], }
    deltas_in_order: { cache_bytes: 1, merge: Merge::Sometimes, settings: &[("execution", "in_order")], }
    tiny_cache: { page_bytes: 4 << 10, cache_bytes: 1, }
    large_pages_one_request_in_flight: { page_bytes: 128 << 10, settings: &[("max_in_flight", "1")], }
    in_order: { settings: &[("execution", "in_order")], }
    index_joins_always: { settings: &[("index_join", "always"), ("access_path", "index")], }
    scans_and_hash_joins_only: { settings: &[("index_join", "never"), ("access_path", "scan")], }
    index_joins_in_order: {
        page_bytes: 4 << 10,
        settings: &[("index_join", "always"), ("execution", "in_order"), ("batch_rows", "3")],
    }
    joins_as_written: { settings: &[("join_order", "as_written"), ("partitions", "4"), ("dynamic_filters", "off")], }
    operators_of_datafusion: { settings: &[("operators", "datafusion"), ("index_join", "never")], }
    native_joins_in_small_batches: { settings: &[("index_join", "never"), ("batch_rows", "3"), ("partitions", "3")], }
    no_native_filters_and_joins: {
        settings: &[("native_filter", "off"), ("native_join", "off"), ("index_join", "never")],
    }
    rows_and_no_native_aggregates: { settings: &[("access_path", "rows"), ("native_aggregate", "off")], }
    columns_and_hash_joins_only: {
        settings: &[("access_path", "columns"), ("index_join", "never"), ("partitions", "3"), ("batch_rows", "7")],
    }
    columns_of_small_segments: { segment_rows: 3, settings: &[("access_path", "columns")], reopens: true, }
}
