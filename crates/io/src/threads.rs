//! Blocking reads and writes from a pool of threads.
//!
//! For hosts that forbid io_uring, and the baseline in benchmarks: with n
//! threads no more than n requests are ever at the device, and each costs a
//! context switch or two.
//!
//! ```text
//!  lane ──submit──► local queue ──flush──► pool queue ──► worker: pread / pwrite / fdatasync
//!   ▲                                                        │
//!   └─────────────────────── inbox ◄─────────────────────────┘
//! ```
//!
//! The buffer travels with the operation through the queues, so no memory is
//! ever shared: this module needs no `unsafe`.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use saki_base::{Arena, critical};

use crate::device::{Completion, Device, DeviceError, Lane, Operation, OperationKind, Partner, Wait, Waker};
use crate::file::DeviceFile;
use crate::in_flight::Inbox;

/// Threads used when nobody says how many.
pub const THREADS_DEFAULT: usize = 64;

/// A file served by a pool of threads.
pub(crate) struct ThreadsDevice {
    pool: Arc<Pool>,
}

impl ThreadsDevice {
    /// `threads` of 0 counts as 1.
    pub fn new(file: DeviceFile, threads: usize) -> Self {
        let work = Work { jobs: VecDeque::new(), idle: 0, closed: false };
        let shared = Arc::new(Shared { file, work: Mutex::new(work), arrived: Condvar::new() });
        let workers = Mutex::new(Vec::new());
        Self { pool: Arc::new(Pool { shared, workers, threads_max: threads.max(1) }) }
    }
}

impl Device for ThreadsDevice {
    fn name(&self) -> String {
        self.pool.shared.file.name().into()
    }

    fn length_bytes(&self) -> Result<u64, DeviceError> {
        Ok(self.pool.shared.file.length_bytes())
    }

    fn block_bytes(&self) -> usize {
        self.pool.shared.file.block_bytes()
    }

    fn read_only(&self) -> bool {
        self.pool.shared.file.read_only()
    }

    fn ensure_length(&self, bytes: u64) -> Result<(), DeviceError> {
        self.pool.shared.file.ensure_length(bytes)
    }

    fn open_lane(&self, _arena: Option<&Arc<Arena>>) -> Result<Box<dyn Lane>, DeviceError> {
        let own = Served { pool: Arc::clone(&self.pool), queued: Vec::new() };
        Ok(Box::new(ThreadsLane { served: vec![own], inbox: Inbox::new(), in_flight: 0 }))
    }

    fn partner(&self) -> Option<Partner> {
        Some(Partner(Box::new(Arc::clone(&self.pool))))
    }
}

struct Job {
    operation: Operation,
    inbox: Arc<Inbox>,
}

struct Work {
    jobs: VecDeque<Job>,
    /// Workers waiting for a job.
    idle: usize,
    closed: bool,
}

/// What workers and lanes share.
struct Shared {
    file: DeviceFile,
    work: Mutex<Work>,
    arrived: Condvar,
}

/// Owns the workers: held by the device and its lanes, joined when the last of them goes.
struct Pool {
    shared: Arc<Shared>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    threads_max: usize,
}

impl Pool {
    fn enqueue(&self, operations: &mut Vec<Operation>, inbox: &Arc<Inbox>) {
        let jobs = operations.drain(..).map(|operation| Job { operation, inbox: Arc::clone(inbox) });
        let wanted = {
            let mut work = self.shared.work.lock();
            work.jobs.extend(jobs);
            for _ in 0..work.idle.min(work.jobs.len()) {
                self.shared.arrived.notify_one();
            }
            work.jobs.len().saturating_sub(work.idle)
        };
        self.spawn(wanted);
    }

    /// Starts up to `wanted` more workers.
    fn spawn(&self, wanted: usize) {
        let mut workers = self.workers.lock();
        let more = wanted.min(self.threads_max - workers.len());
        for _ in 0..more {
            let shared = Arc::clone(&self.shared);
            match critical::spawn(std::thread::Builder::new().name("saki-io".into()), move || shared.run()) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    tracing::warn!("{}: no more I/O threads than {}: {error}", self.shared.file.name(), workers.len());
                    break;
                }
            }
        }
        if workers.is_empty() && more > 0 {
            // Not one thread to be had: the caller's does the work, late but whole.
            let mut work = self.shared.work.lock();
            let jobs = std::mem::take(&mut work.jobs);
            drop(work);
            jobs.into_iter().for_each(|job| self.shared.complete(job));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.work.lock().closed = true;
        self.shared.arrived.notify_all();
        for worker in self.workers.get_mut().drain(..) {
            // A panic of one would have ended the process.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// A worker's life: jobs until the pool closes and the queue is empty.
    fn run(&self) {
        loop {
            let job = {
                let mut work = self.work.lock();
                loop {
                    if let Some(job) = work.jobs.pop_front() {
                        break job;
                    }
                    if work.closed {
                        return;
                    }
                    work.idle += 1;
                    self.arrived.wait(&mut work);
                    work.idle -= 1;
                }
            };
            self.complete(job);
        }
    }

    fn complete(&self, mut job: Job) {
        let result = self.perform(&mut job.operation);
        job.inbox.put(job.operation.complete(result));
    }

    fn perform(&self, operation: &mut Operation) -> Result<(), DeviceError> {
        let file = self.file.file();
        let (kind, offset) = (operation.kind, operation.offset);
        let length = operation.length_bytes() as u64;
        let answer = match (kind, &mut operation.buffer) {
            (OperationKind::Flush, _) => file.sync_data(),
            (OperationKind::Read, Some(buffer)) => file.read_exact_at(buffer, offset),
            (OperationKind::Write, Some(buffer)) => file.write_all_at(buffer, offset),
            (_, None) => unreachable!("checked when the operation was accepted"),
        };
        answer.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => DeviceError::OutOfRange { device: self.file.name().into(), offset, length },
            _ => DeviceError::from_system(self.file.name(), kind.action(), offset, &error),
        })
    }
}

struct ThreadsLane {
    /// The lane's own device, and those that have joined it.
    served: Vec<Served>,
    inbox: Arc<Inbox>,
    in_flight: usize,
}

struct Served {
    pool: Arc<Pool>,
    queued: Vec<Operation>,
}

impl Lane for ThreadsLane {
    fn submit(&mut self, operation: Operation) {
        self.submit_to(0, operation);
    }

    fn submit_to(&mut self, file: u32, operation: Operation) {
        self.in_flight += 1;
        let served = &mut self.served[file as usize];
        match served.pool.shared.file.check(&operation) {
            Ok(()) => served.queued.push(operation),
            Err(error) => self.inbox.put(operation.complete(Err(error))),
        }
    }

    fn join(&mut self, partner: &Partner) -> Option<u32> {
        let pool = partner.0.downcast_ref::<Arc<Pool>>()?;
        let known = self.served.iter().position(|served| Arc::ptr_eq(&served.pool, pool));
        Some(known.unwrap_or_else(|| {
            self.served.push(Served { pool: Arc::clone(pool), queued: Vec::new() });
            self.served.len() - 1
        }) as u32)
    }

    fn flush_submissions(&mut self) {
        for served in self.served.iter_mut().filter(|served| !served.queued.is_empty()) {
            served.pool.enqueue(&mut served.queued, &self.inbox);
        }
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        self.flush_submissions();
        let count = self.inbox.take(wait.deadline(Instant::now()), completions);
        assert!(count <= self.in_flight, "{count} completions of {} operations", self.in_flight);
        self.in_flight -= count;
        count
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::clone(&self.inbox) as Arc<dyn Waker>
    }
}

impl Drop for ThreadsLane {
    /// Buffers travel with their jobs, so this is not for memory's sake: what
    /// was accepted is carried out, as with every other backend.
    fn drop(&mut self) {
        self.flush_submissions();
        let mut rest = Vec::new();
        while self.in_flight > 0 {
            let hour = Instant::now() + std::time::Duration::from_secs(3600);
            self.in_flight -= self.inbox.take(Some(hour), &mut rest);
            rest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::contract::{self, ScratchFile};
    use crate::{Backend, DeviceOptions, open_device};

    fn passes_with(threads: usize, direct: bool) {
        let scratch = ScratchFile::new(contract::DEVICE_BYTES);
        let options = DeviceOptions { backend: Backend::Threads(threads), direct, ..DeviceOptions::default() };
        contract::run_all(&*open_device(scratch.path(), options).unwrap());
    }

    #[test]
    fn passes_the_contract() {
        passes_with(16, true);
    }

    #[test]
    fn passes_the_contract_with_one_thread_and_buffered() {
        passes_with(1, false);
    }
}
