//! What the suites share: how long to run, simulated logs, and runners that a single thread can interleave.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use saki_io::{Device, SimDevice, SimOptions};
use saki_mvcc::placement::{Placement, Topology};
use saki_mvcc::{Catalog, Database, Error, Isolation, Options, Receipt, Runner, TableDefinition, Transaction};

/// How much of something to do: what the variable says, for long runs, or what fits into every run of the tests.
pub fn scaled(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

/// The first of the seeds of a test: another one each time if `SAKI_SEED` says so.
pub fn first_seed() -> u64 {
    scaled("SAKI_SEED", 0)
}

/// Options that take little: two logs of small extents.
pub fn options() -> Options {
    let placement = Placement::plan(&Topology::detect(), 2, Some(2));
    let mut options = Options { participants_max: 16, placement, ..Options::default() };
    options.log.extent_bytes = 64 << 10;
    options.log.write_bytes_max = 16 << 10;
    options
}

/// Logs in memory, which survive the database that is opened on them, and power losses.
pub struct SimLogs {
    pub catalog: Catalog,
    pub devices: Vec<Arc<SimDevice>>,
}

impl SimLogs {
    pub fn new(seed: u64, logs: usize, tables: &[TableDefinition]) -> Self {
        let mut catalog = Catalog::in_memory(7, logs);
        for table in tables {
            catalog.add(table.clone()).expect("a table");
        }
        let device = |log| {
            let options = SimOptions { seed: seed * 100 + log, length_bytes: 0, ..SimOptions::default() };
            SimDevice::new(options)
        };
        Self { catalog, devices: (0..logs as u64).map(device).collect() }
    }

    pub fn open(&self, options: Options) -> Result<Database, Error> {
        let devices = self.devices.iter().map(|device| Arc::clone(device) as Arc<dyn Device>).collect();
        Database::open_on(self.catalog.reopened(), devices, options, &|_| {})
    }

    /// While `true`, nothing that is written becomes durable.
    pub fn hold(&self, holding: bool) {
        self.devices.iter().for_each(|device| device.faults().hold(holding));
    }

    /// Lets through what was held, and wakes those who wait to write it.
    pub fn release(&self, database: &Database) {
        self.hold(false);
        database.finish_cut(0);
    }

    /// What a power loss now would leave, of one moment: taken again if something became durable in between.
    pub fn crash(&self, database: &Database, seed: u64) -> Self {
        self.hold(true);
        loop {
            let before = database.durable();
            let devices = self.devices.iter().zip(0..).map(|(device, log)| device.crash(seed + log)).collect();
            if database.durable() == before {
                return Self { catalog: self.catalog.reopened(), devices };
            }
        }
    }
}

/// A runner on a thread of its own that does one thing at a time, when told to: so one thread interleaves many
/// runners, and the same way every time.
pub struct Remote {
    jobs: Sender<Job>,
    thread: Option<JoinHandle<()>>,
}

type Body = Box<dyn FnOnce(&mut Transaction<'_>) + Send>;

enum Job {
    Begin(Isolation, Sender<u64>),
    Within(Body),
    Commit(Sender<Result<Receipt, Error>>),
    Abort(Sender<()>),
    Reclaim(Sender<()>),
}

impl Remote {
    pub fn new(runner: Runner) -> Self {
        let (jobs, todo) = channel();
        let thread = std::thread::spawn(move || serve(runner, &todo));
        Self { jobs, thread: Some(thread) }
    }

    fn ask<T>(&self, job: impl FnOnce(Sender<T>) -> Job) -> T {
        let (to, answer) = channel();
        self.jobs.send(job(to)).expect("the runner's thread lives");
        answer.recv().expect("the runner's thread panicked, see above")
    }

    /// Begins a transaction; its snapshot.
    pub fn begin(&self, isolation: Isolation) -> u64 {
        self.ask(|to| Job::Begin(isolation, to))
    }

    /// Does something in the transaction that was begun.
    pub fn within<T: Send + 'static>(&self, body: impl FnOnce(&mut Transaction<'_>) -> T + Send + 'static) -> T {
        self.ask(|to| Job::Within(Box::new(move |transaction| _ = to.send(body(transaction)))))
    }

    /// Commits without waiting for the disk.
    pub fn commit(&self) -> Result<Receipt, Error> {
        self.ask(Job::Commit)
    }

    pub fn abort(&self) {
        self.ask(Job::Abort);
    }

    /// For when no transaction is begun.
    pub fn reclaim(&self) {
        self.ask(Job::Reclaim);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        (self.jobs, _) = channel();
        let ended = self.thread.take().expect("joined once").join();
        assert!(ended.is_ok() || std::thread::panicking(), "the runner's thread panicked, see above");
    }
}

fn serve(mut runner: Runner, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Begin(isolation, to) => {
                let transaction = runner.begin(isolation);
                let _ = to.send(transaction.snapshot());
                serve_transaction(transaction, jobs);
            }
            Job::Reclaim(to) => {
                runner.reclaim();
                let _ = to.send(());
            }
            Job::Within(_) | Job::Commit(_) | Job::Abort(_) => panic!("no transaction was begun"),
        }
    }
}

fn serve_transaction(mut transaction: Transaction<'_>, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Within(body) => body(&mut transaction),
            Job::Commit(to) => {
                let _ = to.send(transaction.commit_early());
                return;
            }
            Job::Abort(to) => {
                transaction.abort();
                let _ = to.send(());
                return;
            }
            Job::Begin(..) | Job::Reclaim(_) => panic!("a transaction was begun already"),
        }
    }
}
