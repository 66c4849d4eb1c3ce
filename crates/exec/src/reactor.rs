//! Reactors: one thread each, with its own port to the pages, running the
//! partitions assigned to it turn by turn. A reactor blocks only in its port's poll, where
//! arrivals and wake-ups reach it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use saki_base::panics::{self, Place};
use saki_base::{PageSize, critical};
use saki_page::{Arrival, CacheReader, PageCache, PagePort, PageStore, PageWaker};

use crate::error::ExecError;
use crate::instance::{Instance, Turn};

/// How long an idle reactor sleeps; wake-ups end it at once.
const IDLE: Duration = Duration::from_secs(1);
/// How long a reactor waits before it asks a busy governor again when nothing of its own is in flight.
const RETRY: Duration = Duration::from_micros(50);

/// How to start an executor.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// Threads, each with its own lanes.
    pub reactors: usize,
    /// Pin reactor `n` to core `n`.
    pub pin: bool,
}

impl Default for ExecutorOptions {
    fn default() -> Self {
        Self { reactors: std::thread::available_parallelism().map_or(1, |n| n.get()), pin: false }
    }
}

/// The reactors of a database.
pub struct Executor {
    reactors: Vec<Reactor>,
    next: AtomicUsize,
    page_size: PageSize,
}

impl Executor {
    /// Starts the reactors; each opens its lanes to `store`.
    pub fn start(
        cache: Arc<PageCache>,
        store: Arc<dyn PageStore>,
        options: ExecutorOptions,
    ) -> Result<Arc<Self>, ExecError> {
        let start = |index| Reactor::spawn(index, &cache, &store, options.pin);
        let reactors = (0..options.reactors.max(1)).map(start).collect::<Result<_, _>>()?;
        Ok(Arc::new(Self { reactors, next: AtomicUsize::new(0), page_size: cache.page_size() }))
    }

    /// Lets the next execution begin at another reactor.
    pub(crate) fn begin_execution(&self) {
        self.next.fetch_add(1, Ordering::Relaxed);
    }

    /// Of the pages that it reads.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    pub fn reactors(&self) -> usize {
        self.reactors.len()
    }

    /// Partitions of one execution go to different reactors; executions with a single partition take turns.
    pub(crate) fn reactor(&self, partition: usize) -> &Reactor {
        let first = self.next.load(Ordering::Relaxed);
        &self.reactors[(first + partition) % self.reactors.len()]
    }
}

struct Inbox {
    instances: Mutex<Vec<Instance>>,
    stop: AtomicBool,
}

pub(crate) struct Reactor {
    inbox: Arc<Inbox>,
    waker: Arc<dyn PageWaker>,
    thread: Option<JoinHandle<()>>,
}

impl Reactor {
    fn spawn(index: usize, cache: &Arc<PageCache>, store: &Arc<dyn PageStore>, pin: bool) -> Result<Self, ExecError> {
        let inbox = Arc::new(Inbox { instances: Mutex::new(Vec::new()), stop: AtomicBool::new(false) });
        let (sender, receiver) = std::sync::mpsc::channel();
        let (cache, store, in_thread) = (Arc::clone(cache), Arc::clone(store), Arc::clone(&inbox));
        let body = move || {
            if pin {
                core_affinity::set_for_current(core_affinity::CoreId { id: index });
            }
            // Opened here: a ring belongs to the thread that submits to it.
            match PagePort::new(&cache, &store) {
                Ok(port) => {
                    sender.send(Ok(port.waker())).expect("the starter waits");
                    Loop { port, reader: cache.reader(), inbox: in_thread, instances: Vec::new(), next_id: 0 }.run();
                }
                Err(error) => sender.send(Err(ExecError::Lane(error))).expect("the starter waits"),
            }
        };
        let thread =
            std::thread::Builder::new().name(format!("reactor-{index}")).stack_size(saki_base::stack::STACK_BYTES);
        let thread = critical::spawn(thread, body).map_err(|error| ExecError::Thread(error.to_string()))?;
        let waker = receiver.recv().map_err(|_| ExecError::Internal("a reactor died at its start".into()))??;
        Ok(Self { inbox, waker, thread: Some(thread) })
    }

    pub(crate) fn waker(&self) -> Arc<dyn PageWaker> {
        Arc::clone(&self.waker)
    }

    /// Hands a partition over.
    pub(crate) fn start(&self, instance: Instance) {
        self.inbox.instances.lock().push(instance);
        self.waker.wake();
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.inbox.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // The last owner may be a task running on the reactor's own output; it never joins itself.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// The state of a reactor's thread.
struct Loop {
    port: PagePort,
    reader: CacheReader,
    inbox: Arc<Inbox>,
    instances: Vec<(u32, Instance)>,
    /// Ids are not reused soon: an arrival for an instance that has ended is recognised and dropped.
    next_id: u32,
}

impl Loop {
    fn run(mut self) {
        let mut arrivals: Vec<Arrival> = Vec::new();
        while !self.inbox.stop.load(Ordering::Acquire) {
            self.adopt();
            let wait = self.take_turns();
            let before = Instant::now();
            self.port.poll(wait, &mut arrivals);
            self.account(wait, before.elapsed());
            for arrival in arrivals.drain(..) {
                let id = (arrival.token >> 32) as u32;
                if let Some((_, instance)) = self.instances.iter_mut().find(|(other, _)| *other == id) {
                    instance.arrived(arrival);
                }
            }
        }
        for (_, mut instance) in self.instances.drain(..) {
            instance.fail(ExecError::Cancelled);
        }
    }

    fn adopt(&mut self) {
        let mut inbox = self.inbox.instances.lock();
        for mut instance in inbox.drain(..) {
            // The top bit stays clear, so that no token is the port's own.
            self.next_id = (self.next_id + 1) & 0x7fff_ffff;
            instance.assign(self.next_id);
            self.instances.push((self.next_id, instance));
        }
    }

    /// Gives every instance a turn; returns how long the port may wait.
    fn take_turns(&mut self) -> Option<Duration> {
        let mut wait = Some(IDLE);
        let Self { instances, port, reader, .. } = self;
        instances.retain_mut(|(_, instance)| {
            let turn = catch_unwind(AssertUnwindSafe(|| {
                panics::pass(Place::Querying);
                instance.turn(port, reader)
            }));
            match turn {
                Ok(Ok(Turn::Done)) => return false,
                Ok(Ok(Turn::More)) => wait = None,
                Ok(Ok(Turn::Waiting)) => {}
                Ok(Ok(Turn::Refused)) => wait = wait.map(|wait| wait.min(RETRY)),
                Ok(Err(error)) => {
                    instance.fail(error);
                    return false;
                }
                Err(panic) => {
                    instance.fail(ExecError::Internal(panic_message(&*panic)));
                    return false;
                }
            }
            true
        });
        wait
    }

    /// Charges the time in the port's poll to whoever waited there.
    fn account(&mut self, wait: Option<Duration>, elapsed: Duration) {
        for (_, instance) in &mut self.instances {
            instance.account(wait.is_some(), elapsed);
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a reactor panicked")
        .to_owned()
}
