//! TPC-H databases for the benchmarks: made once, kept, and opened as often as one likes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use saki::tpch;
use saki_base::PageSize;
use saki_sql::{CreateOptions, Database, OpenOptions, Session, SqlError};
use tokio::runtime::Runtime;

use saki_report::{Common, Report};

/// Which database.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub scale: f64,
    pub page_bytes: u32,
    /// An existing database, instead of one in the data directory.
    pub path: Option<PathBuf>,
}

impl Wanted {
    fn path(&self, common: &Common) -> PathBuf {
        let name = || common.data.join(format!("tpch-{}-{}.saki", self.scale, self.page_bytes));
        self.path.clone().unwrap_or_else(name)
    }
}

/// The database's path, after making it if it is not there.
pub fn prepare(wanted: &Wanted, common: &Common, runtime: &Runtime) -> Result<PathBuf, String> {
    let path = wanted.path(common);
    if path.exists() {
        return Ok(path);
    }
    // Renamed when it is whole, so that what exists is complete.
    let unfinished = path.with_extension("unfinished");
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", unfinished.display()));
        }
        _ => {}
    }
    eprintln!("loading TPC-H, scale factor {}, into {}", wanted.scale, path.display());
    let loaded = load(&unfinished, wanted.scale, wanted.page_bytes, true, runtime)?;
    drop(loaded.database);
    let seconds = loaded.elapsed.as_secs_f64();
    eprintln!("  took {seconds:.1} s");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::write(load_seconds_path(&path), seconds.to_string()).map_err(failed)?;
    std::fs::rename(&unfinished, &path).map_err(failed)?;
    Ok(path)
}

/// What loading a database took that [`prepare`] made, now or in an earlier run.
pub fn load_seconds(path: &Path) -> Option<f64> {
    std::fs::read_to_string(load_seconds_path(path)).ok()?.parse().ok()
}

fn load_seconds_path(database: &Path) -> PathBuf {
    database.with_extension("load-seconds")
}

/// A fresh database with all eight tables.
pub struct Loaded {
    pub database: Arc<Database>,
    pub elapsed: Duration,
    /// Rows by table.
    pub rows: Vec<(&'static str, u64)>,
}

/// Makes a database at `path` and loads every table.
pub fn load(path: &Path, scale: f64, page_bytes: u32, indexes: bool, runtime: &Runtime) -> Result<Loaded, String> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let page_size = PageSize::new(page_bytes).map_err(|error| error.to_string())?;
    let started = Instant::now();
    let database = Database::create(path, CreateOptions { page_size, ..CreateOptions::default() }).map_err(text)?;
    let mut rows = Vec::new();
    for table in &tpch::TABLES {
        let loaded = runtime.block_on(tpch::load(&database, table, scale, indexes, |_| {})).map_err(text)?;
        rows.push((table.name, loaded.rows));
    }
    Ok(Loaded { database, elapsed: started.elapsed(), rows })
}

/// Opens a database and says in the report on what it lies.
pub fn open(path: &Path, model: Option<&str>, report: &mut Report) -> Result<Arc<Database>, String> {
    let options = OpenOptions { model: model.map(String::from), read_only: true, ..OpenOptions::default() };
    report.configure("cache_bytes", options.cache_bytes);
    let database = Database::open(path, options).map_err(text)?;
    report.configure("page_bytes", database.page_size().bytes());
    Ok(database)
}

/// The threads that run plans; pages are visited by the database's own.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads for a runtime")
}

/// A query's rows, to the last one.
pub async fn rows_of(session: &Session, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let mut batches = Vec::new();
    for result in session.execute(sql).await.map_err(text)? {
        batches.extend(result.collect().await.map_err(text)?);
    }
    Ok(batches)
}

/// Rows as text, a line each: what two runs are compared by.
pub fn lines(batches: &[RecordBatch]) -> Result<Vec<String>, String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Result<Vec<_>, _> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options)).collect();
        let columns = columns.map_err(|error| error.to_string())?;
        lines.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")),
        );
    }
    Ok(lines)
}

/// Names a result, whatever the order of its rows.
pub fn result_hash(lines: &[String]) -> String {
    let sum = lines.iter().fold(lines.len() as u64, |sum, line| sum.wrapping_add(saki_base::checksum(line.as_bytes())));
    format!("{sum:016x}")
}

/// An error's whole text.
pub fn text(error: SqlError) -> String {
    error.to_string()
}
