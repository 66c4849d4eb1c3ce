//! Stored procedures: registered closures that workers run from begin to commit without leaving the thread.
//!
//! ```text
//!   clients            queues             workers, each pinned to its core            logs
//!   call ──► Call ┐
//!   call ──► Call ┼──► [ job job job ] ──► begin, run, commit_early, next job …   ──► durable ──► the call is answered
//!   call ──► Call ┘
//! ```
//!
//! A worker does not wait for the disk: it goes on with the next job when a transaction has committed, and the logs
//! answer the call when that is durable. A procedure that another transaction got in the way of is run again, one that
//! panics is aborted and its worker lives on.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, RwLock};
use saki_base::critical;

use super::Database;
use crate::error::Error;
use crate::placement::{WorkerPlace, pin_current_thread};
use crate::runner::{Isolation, Receipt, Runner, until_undisturbed};
use crate::transaction::Transaction;

/// What a procedure does: reads and writes by way of the transaction, an answer out of an argument. It may be run
/// several times for one call, so it should have no effect but by the transaction.
pub type Procedure = dyn Fn(&mut Transaction<'_>, &[u8]) -> Result<Vec<u8>, Error> + Send + Sync;

/// Jobs that one worker may have waiting: beyond, calls wait.
const QUEUE_MAX: usize = 1024;

/// Threads that run procedures. Dropped, they finish what was called and end.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    next: AtomicUsize,
}

struct Shared {
    procedures: RwLock<HashMap<String, Arc<Procedure>>>,
    queues: Vec<Queue>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    /// Signalled when a job comes, a job goes, or the end is near.
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    is_closed: bool,
}

struct Job {
    name: String,
    procedure: Arc<Procedure>,
    argument: Vec<u8>,
    answer: Arc<Answer>,
}

/// Where a call's answer arrives.
#[derive(Default)]
struct Answer {
    outcome: Mutex<Option<Result<Vec<u8>, Error>>>,
    arrived: Condvar,
}

/// A call on its way.
#[must_use = "the answer says whether it was committed"]
pub struct Call(Arc<Answer>);

impl Call {
    /// Waits for the answer: the procedure's, and its transaction is durable.
    ///
    /// # Errors
    /// The procedure's; `Panicked`; `Log` as of a commit.
    pub fn wait(self) -> Result<Vec<u8>, Error> {
        let mut outcome = self.0.outcome.lock();
        loop {
            match outcome.take() {
                Some(outcome) => return outcome,
                None => self.0.arrived.wait(&mut outcome),
            }
        }
    }
}

impl Answer {
    fn give(&self, outcome: Result<Vec<u8>, Error>) {
        *self.outcome.lock() = Some(outcome);
        self.arrived.notify_one();
    }
}

impl Database {
    /// Starts one worker for each place of the plan the database was opened with.
    ///
    /// # Errors
    /// `TooManyParticipants`, `Memory` if the system starts no thread.
    pub fn start_workers(&self) -> Result<Workers, Error> {
        let places = self.placement().workers().to_vec();
        let queues = places.iter().map(|_| Queue::default()).collect();
        let shared = Arc::new(Shared { procedures: RwLock::default(), queues });
        let mut workers = Workers { shared: Arc::clone(&shared), threads: Vec::new(), next: AtomicUsize::new(0) };
        for (index, place) in places.into_iter().enumerate() {
            let runner = self.runner_at(&place)?;
            let (shared, database) = (Arc::clone(&shared), self.clone());
            let run = move || work(&database, runner, &place, index, &shared.queues[index]);
            let thread = critical::spawn(std::thread::Builder::new().name(format!("saki-worker-{index}")), run);
            let memory = |error: std::io::Error| Error::Memory { message: format!("cannot start a worker: {error}") };
            workers.threads.push(thread.map_err(memory)?);
        }
        Ok(workers)
    }
}

impl Workers {
    /// Gives a procedure its name. Calls already made run what the name meant then.
    pub fn register(
        &self,
        name: &str,
        procedure: impl Fn(&mut Transaction<'_>, &[u8]) -> Result<Vec<u8>, Error> + Send + Sync + 'static,
    ) {
        self.shared.procedures.write().insert(name.into(), Arc::new(procedure));
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Has the next worker in turn run a procedure.
    ///
    /// # Errors
    /// `Name` if there is no such procedure.
    pub fn call(&self, name: &str, argument: &[u8]) -> Result<Call, Error> {
        self.call_on(self.next.fetch_add(1, Ordering::Relaxed) % self.count(), name, argument)
    }

    /// Has the given worker run a procedure: the one that works on the rows concerned, if the caller knows. Waits while
    /// that worker has too much to do.
    ///
    /// # Errors
    /// `Name` if there is no such procedure or worker.
    pub fn call_on(&self, worker: usize, name: &str, argument: &[u8]) -> Result<Call, Error> {
        let procedure = self.shared.procedures.read().get(name).cloned();
        let procedure =
            procedure.ok_or_else(|| Error::Name { message: format!("there is no procedure \"{name}\"") })?;
        let queue = self.shared.queues.get(worker);
        let queue = queue.ok_or_else(|| Error::Name { message: format!("there is no worker {worker}") })?;
        let answer = Arc::<Answer>::default();
        let job = Job { name: name.into(), procedure, argument: argument.into(), answer: Arc::clone(&answer) };
        let mut jobs = queue.jobs.lock();
        while jobs.waiting.len() >= QUEUE_MAX {
            queue.changed.wait(&mut jobs);
        }
        jobs.waiting.push_back(job);
        queue.changed.notify_all();
        Ok(Call(answer))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for queue in &self.shared.queues {
            queue.jobs.lock().is_closed = true;
            queue.changed.notify_all();
        }
        for thread in self.threads.drain(..) {
            // A worker catches what procedures panic with; other panics would have ended the process.
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// The next job; `None` when there is none and will be none.
    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                if jobs.waiting.len() == QUEUE_MAX - 1 {
                    self.changed.notify_all();
                }
                return Some(job);
            }
            if jobs.is_closed {
                return None;
            }
            self.changed.wait(&mut jobs);
        }
    }
}

fn work(database: &Database, mut runner: Runner, place: &WorkerPlace, index: usize, queue: &Queue) {
    if let Err(error) = pin_current_thread(place.core) {
        tracing::warn!("worker {index} stays where the system puts it: {error}");
    }
    while let Some(job) = queue.next() {
        let (receipt, answer) = match until_undisturbed(|| run_once(&mut runner, &job)) {
            Ok((receipt, answer)) => (receipt, Ok(answer)),
            // That too may tell of rows.
            Err(error) => (runner.receipt(), Err(error)),
        };
        let to = Arc::clone(&job.answer);
        database.when_durable(receipt, move |outcome| to.give(outcome.and(answer)));
    }
}

fn run_once(runner: &mut Runner, job: &Job) -> Result<(Receipt, Vec<u8>), Error> {
    let mut transaction = runner.begin(Isolation::Serializable);
    // The transaction is dropped, hence aborted, if the procedure panics; the runner has no state between
    // transactions.
    let outcome = catch_unwind(AssertUnwindSafe(|| (job.procedure)(&mut transaction, &job.argument)));
    let answer = outcome
        .unwrap_or_else(|panic| Err(Error::Panicked { procedure: job.name.clone(), message: message_of(&*panic) }))?;
    transaction.commit_early().map(|receipt| (receipt, answer))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
