//! Databases to measure: where their logs are, how they are opened and thrown away, how tables are filled.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use saki_mvcc::placement::{Placement, Topology, pin_current_thread};
use saki_mvcc::{Database, Durability, Error, Isolation, Receipt, Runner, Sabotage, Table};
use saki_report::Common;
use serde_json::{Value, json};

use crate::progress::Progress;

/// A device that memory backs, present on every Linux.
const MEMORY: &str = "/dev/shm";
/// Memory that a new database has ready for rows, so that what is measured is not how fast the system zeroes more.
const READY_BYTES: usize = 2 << 30;
/// Rows of one transaction when tables are filled.
const ROWS_TOGETHER: u64 = 100;

/// What shapes a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Engine {
    pub workers: usize,
    pub logs: usize,
    /// Whether the logs are in memory, and not flushed.
    pub log_memory: bool,
    pub speculation: bool,
    /// How far the logs' threads give way.
    pub niceness: u8,
}

impl Engine {
    /// One log for each worker, on disk.
    pub fn of(workers: usize) -> Self {
        let niceness = saki_log::Options::new(0).niceness;
        Self { workers, logs: workers, log_memory: false, speculation: true, niceness }
    }

    /// For rows of a report.
    pub fn to_json(self) -> Value {
        json!({
            "workers": self.workers, "logs": self.logs, "log_memory": self.log_memory, "speculation": self.speculation,
            "niceness": self.niceness,
        })
    }

    fn options(&self, memory_ready_bytes: usize) -> saki_mvcc::Options {
        let placement = Placement::plan(&Topology::detect(), self.workers, Some(self.logs));
        let speculation = self.speculation;
        let mut options = saki_mvcc::Options { placement, speculation, memory_ready_bytes, ..Default::default() };
        options.log.flush = !self.log_memory;
        options.log.niceness = self.niceness;
        options
    }

    /// A new database in a directory of its own.
    ///
    /// # Errors
    /// What the engine says.
    pub fn create(&self, common: &Common, name: &str) -> Result<(Database, Home), String> {
        self.create_hooked(common, name, None)
    }

    /// The same with something that the engine does in the middle of commits.
    ///
    /// # Errors
    /// What the engine says.
    pub fn create_hooked(
        &self,
        common: &Common,
        name: &str,
        hook: Option<Sabotage>,
    ) -> Result<(Database, Home), String> {
        let home = Home::new(common, name, self.log_memory)?;
        let database = self.open_with(&home, if common.small { 0 } else { READY_BYTES }, hook)?;
        Ok((database, home))
    }

    /// The database that is in a directory, recovered.
    ///
    /// # Errors
    /// What the engine says.
    pub fn open(&self, home: &Home) -> Result<Database, String> {
        self.open_with(home, 0, None)
    }

    fn open_with(&self, home: &Home, memory_ready_bytes: usize, hook: Option<Sabotage>) -> Result<Database, String> {
        let progress = Progress::new("recovery");
        let read = (0..self.logs.max(1)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let report = |of: saki_mvcc::Progress| {
            if let Some(read) = read.get(of.log) {
                read.store(of.bytes_read, Ordering::Relaxed);
            }
            progress.at(|| {
                let bytes: u64 = read.iter().map(|read| read.load(Ordering::Relaxed)).sum();
                format!("{} MB of log read", bytes / 1_000_000)
            });
        };
        let options = saki_mvcc::Options { sabotage: hook, ..self.options(memory_ready_bytes) };
        let database = Database::open(&home.path, options, &report).map_err(|error| error.to_string())?;
        progress.done();
        Ok(database)
    }
}

/// A database's directory, removed when dropped.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    fn new(common: &Common, name: &str, in_memory: bool) -> Result<Self, String> {
        let root = if in_memory { Path::new(MEMORY) } else { &common.data };
        let path = root.join(format!("saki-oltp-{name}-{}", std::process::id()));
        if path.exists() {
            fs::remove_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("{} stays behind: {error}", self.path.display());
        }
    }
}

/// Runs `body` on every worker's place, pinned, with a runner of its own; what each returned, by worker.
///
/// # Errors
/// The first error, with the number of its worker.
pub fn on_workers<T: Send>(
    database: &Database,
    body: impl Fn(usize, &mut Runner) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, String> {
    let places = database.placement().workers();
    let body = &body;
    std::thread::scope(|scope| {
        let threads: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(worker, place)| {
                scope.spawn(move || {
                    // Where the system does not let a thread be pinned, it runs all the same.
                    let _ = pin_current_thread(place.core);
                    body(worker, &mut database.runner_at(place)?)
                })
            })
            .collect();
        let join = |(worker, thread): (usize, std::thread::ScopedJoinHandle<'_, Result<T, Error>>)| {
            thread.join().expect("a worker does not panic").map_err(|error| format!("worker {worker}: {error}"))
        };
        threads.into_iter().enumerate().map(join).collect()
    })
}

/// Adds the rows of a range, many in a transaction, without waiting for the disk. `row` puts key and body of each into
/// the buffers, which come empty.
///
/// # Errors
/// What the engine says.
pub fn fill(
    runner: &mut Runner,
    table: &Table,
    rows: Range<u64>,
    progress: &Progress,
    mut row: impl FnMut(u64, &mut Vec<u8>, &mut Vec<u8>),
) -> Result<(), Error> {
    let (mut key, mut body) = (Vec::new(), Vec::new());
    let mut next = rows.start;
    while next < rows.end {
        let mut transaction = runner.begin_with(Isolation::Snapshot, Durability::Relaxed);
        let end = rows.end.min(next + ROWS_TOGETHER);
        for number in next..end {
            key.clear();
            body.clear();
            row(number, &mut key, &mut body);
            transaction.insert(table, &key, &body)?;
        }
        // Whoever comes later waits for more than this.
        let _ = transaction.commit_early()?;
        next = end;
        progress.at(|| format!("{} of {} rows of {}", next - rows.start, rows.end - rows.start, table.name()));
    }
    Ok(())
}

/// Waits until everything committed is durable: where commits are not speculative, nobody sees it before.
///
/// # Errors
/// What the engine says.
pub fn settle(database: &Database) -> Result<(), String> {
    let everything = Receipt { timestamp: None, through: database.now() };
    database.wait(everything).map_err(|error| error.to_string())
}

/// The part of `count` things that is `part`'s of `parts`.
pub const fn share(count: u64, part: usize, parts: usize) -> Range<u64> {
    count * part as u64 / parts as u64..count * (part as u64 + 1) / parts as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_of_it() {
        for (count, parts) in [(10, 3), (2, 5), (0, 1), (100, 2)] {
            let all: Vec<u64> = (0..parts).flat_map(|part| share(count, part, parts)).collect();
            assert!(all.into_iter().eq(0..count));
        }
    }
}
