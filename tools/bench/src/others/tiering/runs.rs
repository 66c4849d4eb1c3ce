//! One run: the sequence of queries under one policy, on a fast device of one size.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use saki::tpch::{QUERIES, Query};
use saki_base::{CHUNK_BYTES, DeviceId};
use saki_sql::{Database, DeviceClass, DeviceSpec, DeviceStatus, OpenOptions, PolicyKind, Session};
use tokio::runtime::Runtime;

use crate::data::tpch::{lines, result_hash, rows_of};

/// The paper's.
pub const QUERY_NUMBERS: [usize; 9] = [3, 4, 5, 7, 8, 9, 10, 20, 21];
const SLOW: DeviceId = DeviceId(0);

/// On what, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way {
    pub storage: String,
    /// What the slow device does.
    pub model: &'static str,
    pub access_path: String,
}

pub struct Run {
    pub way: Way,
    pub policy: PolicyKind,
    pub share: u64,
    /// Of each query.
    pub seconds: Vec<f64>,
    /// Requests that reached the slow device, those for copies among them, and their bytes.
    pub slow_reads: u64,
    pub slow_bytes: u64,
    pub fast_reads: u64,
    /// Bytes written to the fast device: the second time, and the whole placement of `static`.
    pub fast_written: u64,
    /// Chunks that were read, wherever they lay.
    pub chunks: u64,
    pub hashes: Vec<String>,
    /// Copies that were not what they should be.
    pub distrusted: u64,
    /// Copies that were there after a restart, of those before.
    pub warm_share: Option<f64>,
}

impl Run {
    pub fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    pub fn of_query(&self, number: usize) -> f64 {
        QUERY_NUMBERS.iter().position(|query| *query == number).map_or(f64::NAN, |place| self.seconds[place])
    }
}

/// The database that all runs are on.
pub struct Bench<'r> {
    path: PathBuf,
    runtime: &'r Runtime,
    /// Memory for pages, and as much for columns.
    pub cache_bytes: usize,
}

impl<'r> Bench<'r> {
    /// On a copy of a database, which goes with the result.
    pub fn new(path: PathBuf, from: &Path, runtime: &'r Runtime) -> Result<Self, String> {
        let bench = Self { path, runtime, cache_bytes: 1 << 30 };
        bench.remove();
        std::fs::copy(from, &bench.path).map_err(|error| format!("{}: {error}", bench.path.display()))?;
        Ok(bench)
    }

    fn fast(&self) -> PathBuf {
        self.path.with_extension("fast")
    }

    fn remove(&self) {
        // What is not there need not go.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.fast());
        let _ = std::fs::remove_dir_all(self.path.with_extension("log"));
        let _ = std::fs::remove_file(self.path.with_extension("copies"));
    }

    fn open(&self, model: Option<&str>) -> Result<Arc<Database>, String> {
        let options = OpenOptions {
            cache_bytes: self.cache_bytes,
            column_cache_bytes: self.cache_bytes,
            model: model.map(|model| format!("modeled:{model}")),
            tier_policy: PolicyKind::None,
            ..OpenOptions::default()
        };
        Database::open(&self.path, options).map_err(text)
    }

    fn session(database: &Arc<Database>, way: &Way) -> Result<Session, String> {
        let session = Session::new(database);
        let (access_path, index_join) = match way.access_path.as_str() {
            "lookups" => ("rows", "always"),
            other => (other, "auto"),
        };
        session.set("access_path", access_path).map_err(text)?;
        session.set("index_join", index_join).map_err(text)?;
        Ok(session)
    }

    /// Bytes of the chunks that the queries read, each once.
    pub fn read_cold(&self, way: &Way) -> Result<usize, String> {
        let database = self.open(None)?;
        self.sequence(&Self::session(&database, way)?)?;
        Ok(chunks_read(&database) as usize * CHUNK_BYTES)
    }

    /// The sequence for the second time, on a fast device with room for so many chunks; `share`: what that is of all.
    pub fn run(&self, way: &Way, policy: PolicyKind, share: u64, chunks: u64) -> Result<Run, String> {
        let database = self.open(Some(way.model))?;
        if chunks > 0 {
            let bytes = Some((chunks + 1) * CHUNK_BYTES as u64);
            let fast = DeviceSpec { path: self.fast(), bytes, class: DeviceClass::Fast };
            database.add_device(&fast).map_err(text)?;
        }
        let session = Self::session(&database, way)?;
        // Each goes by what it has seen once, and begins with the copies that it has chosen.
        let watching = if policy == PolicyKind::Static { PolicyKind::None } else { policy };
        database.set_tier_policy(watching).map_err(text)?;
        self.sequence(&session)?;
        let chosen = database.devices();
        if policy == PolicyKind::Static {
            database.set_tier_policy(policy).map_err(text)?;
            while database.tier().step() {}
        }
        database.drop_caches();
        let before = database.devices();
        let (seconds, hashes) = self.sequence(&session)?.into_iter().unzip();
        let after = database.devices();
        let slow = |of: fn(&DeviceStatus) -> u64| sum(&after, true, of) - sum(&before, true, of);
        let fast = |of: fn(&DeviceStatus) -> u64| sum(&after, false, of) - sum(&before, false, of);
        let written = |device: &DeviceStatus| device.written_bytes;
        let mut run = Run {
            way: way.clone(),
            policy,
            share,
            seconds,
            slow_reads: slow(|device| device.reads.requests),
            slow_bytes: slow(|device| device.reads.bytes),
            fast_reads: fast(|device| device.reads.requests),
            fast_written: sum(&after, false, written) - sum(&chosen, false, written),
            chunks: chunks_read(&database),
            hashes,
            distrusted: database.volume().copies_distrusted(),
            warm_share: None,
        };
        drop(session);
        if chunks > 0 {
            run.warm_share = self.restart(database, way)?;
        }
        Ok(run)
    }

    /// Closes and opens the database, and takes its fast device away; which share of its copies was there again.
    fn restart(&self, database: Arc<Database>, way: &Way) -> Result<Option<f64>, String> {
        database.set_tier_policy(PolicyKind::None).map_err(text)?;
        database.close().map_err(text)?;
        let copies = database.volume().copies().len();
        drop(database);
        let database = self.open(Some(way.model))?;
        let warm = database.volume().copies().len();
        database.remove_device(&self.fast().display().to_string()).map_err(text)?;
        drop(database);
        let _ = std::fs::remove_file(self.fast());
        Ok((copies > 0).then(|| warm as f64 / copies as f64))
    }

    /// Each query's seconds, and what its rows are.
    fn sequence(&self, session: &Session) -> Result<Vec<(f64, String)>, String> {
        let timed = |query: &Query| {
            let began = Instant::now();
            let batches = self.runtime.block_on(rows_of(session, query.sql))?;
            let seconds = began.elapsed().as_secs_f64();
            Ok((seconds, result_hash(&lines(&batches)?)))
        };
        queries().map(timed).collect()
    }

    /// Lines of EXPLAIN ANALYZE of each query, run cold in turn.
    pub fn explained(&self, way: &Way) -> Result<Vec<Vec<String>>, String> {
        let database = self.open(None)?;
        let bytes = Some(4 * CHUNK_BYTES as u64);
        let fast = DeviceSpec { path: self.fast(), bytes, class: DeviceClass::Fast };
        database.add_device(&fast).map_err(text)?;
        database.set_tier_policy(PolicyKind::Plan).map_err(text)?;
        let session = Self::session(&database, way)?;
        let explained = |query: &Query| {
            database.drop_caches();
            lines(&self.runtime.block_on(rows_of(&session, &format!("EXPLAIN ANALYZE {}", query.sql)))?)
        };
        let told = queries().map(explained).collect();
        drop(session);
        self.restart(database, way)?;
        told
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

/// An error's whole text.
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn queries() -> impl Iterator<Item = &'static Query> {
    QUERY_NUMBERS.iter().filter_map(|number| QUERIES.iter().find(|query| query.number == *number))
}

fn chunks_read(database: &Database) -> u64 {
    let mut chunks = 0;
    database.volume().chunk_reads(|_, _| chunks += 1);
    chunks
}

/// Over the slow device, or over all others.
fn sum(devices: &[DeviceStatus], slow: bool, of: fn(&DeviceStatus) -> u64) -> u64 {
    devices.iter().filter(|device| (device.entry.number == SLOW) == slow).map(of).sum()
}
