//! Where a reactor and the caller's threads meet: results come out of a
//! [`PipelineStream`](crate::PipelineStream), outer rows go in through an [`InputSender`]. Both are bounded:
//! a full output stops the pipeline, a full input stops the sender.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use arrow_array::RecordBatch;
use parking_lot::Mutex;

use crate::error::ExecError;
use crate::rows::registers::OutputBatch;

/// Batches that wait on either side.
const QUEUE_MAX: usize = 4;

/// Wakes the reactor that runs a partition; set when it has been assigned.
pub(crate) type ReactorWaker = Arc<dyn saki_page::PageWaker>;

struct OutputState {
    queue: VecDeque<Result<OutputBatch, ExecError>>,
    finished: bool,
    consumer: Option<Waker>,
    /// The producer found the queue full and wants to be woken.
    producer_waits: bool,
}

/// The queue between a partition and its consumer.
pub(crate) struct Output {
    state: Mutex<OutputState>,
    pub(crate) cancelled: AtomicBool,
    reactor: ReactorWaker,
}

impl Output {
    pub(crate) fn new(reactor: ReactorWaker) -> Arc<Self> {
        let state = OutputState { queue: VecDeque::new(), finished: false, consumer: None, producer_waits: false };
        Arc::new(Self { state: Mutex::new(state), cancelled: AtomicBool::new(false), reactor })
    }

    /// Whether the consumer has enough to do; if so, the reactor is woken once it has less.
    pub(crate) fn is_full(&self) -> bool {
        let mut state = self.state.lock();
        let full = state.queue.len() >= QUEUE_MAX;
        state.producer_waits = full;
        full
    }

    pub(crate) fn push(&self, item: Result<OutputBatch, ExecError>) {
        let mut state = self.state.lock();
        state.queue.push_back(item);
        if let Some(waker) = state.consumer.take() {
            drop(state);
            waker.wake();
        }
    }

    /// The next batch; `None` after the last.
    pub(crate) fn poll_pop(&self, context: &mut Context<'_>) -> Poll<Option<Result<OutputBatch, ExecError>>> {
        let mut state = self.state.lock();
        match state.queue.pop_front() {
            Some(item) => {
                let wake = std::mem::take(&mut state.producer_waits);
                drop(state);
                if wake {
                    self.reactor.wake();
                }
                Poll::Ready(Some(item))
            }
            None if state.finished => Poll::Ready(None),
            None => {
                state.consumer = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The consumer takes no more.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.reactor.wake();
    }

    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        state.finished = true;
        if let Some(waker) = state.consumer.take() {
            drop(state);
            waker.wake();
        }
    }
}

#[derive(Default)]
struct InputState {
    queue: VecDeque<RecordBatch>,
    finished: bool,
    failed: Option<String>,
    sender: Option<Waker>,
    closed: bool,
}

/// The queue of outer rows into a partition.
pub(crate) struct Input {
    state: Mutex<InputState>,
    reactor: ReactorWaker,
}

/// What `pop` found.
pub(crate) enum Popped {
    Batch(RecordBatch),
    /// Nothing now; the reactor is woken when there is.
    Empty,
    End,
    /// The sender failed and says why.
    Failed(String),
}

impl Input {
    pub(crate) fn new(reactor: ReactorWaker) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(InputState::default()), reactor })
    }

    pub(crate) fn pop(&self) -> Popped {
        let mut state = self.state.lock();
        if let Some(reason) = state.failed.take() {
            return Popped::Failed(reason);
        }
        let popped = match state.queue.pop_front() {
            Some(batch) => Popped::Batch(batch),
            None if state.finished => Popped::End,
            None => Popped::Empty,
        };
        if let Some(waker) = state.sender.take() {
            drop(state);
            waker.wake();
        }
        popped
    }

    /// The partition takes no more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.queue.clear();
        if let Some(waker) = state.sender.take() {
            drop(state);
            waker.wake();
        }
    }
}

/// The way for outer rows into a partition. Dropping it without `finish` fails the partition:
/// half an input must not look like a whole one.
pub struct InputSender {
    pub(crate) input: Arc<Input>,
    pub(crate) done: bool,
}

/// The partition takes no more rows: it has been cancelled or has enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed;

impl InputSender {
    /// Ready when another batch may be sent.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        let mut state = self.input.state.lock();
        if state.closed {
            return Poll::Ready(Err(Closed));
        }
        if state.queue.len() < QUEUE_MAX {
            return Poll::Ready(Ok(()));
        }
        state.sender = Some(context.waker().clone());
        Poll::Pending
    }

    /// As `poll_ready`, to be awaited.
    pub fn ready(&mut self) -> impl Future<Output = Result<(), Closed>> + '_ {
        struct Ready<'s>(&'s mut InputSender);
        impl Future for Ready<'_> {
            type Output = Result<(), Closed>;
            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                self.0.poll_ready(context)
            }
        }
        Ready(self)
    }

    /// Sends a batch. The queue is bounded by the caller's waiting for `poll_ready`.
    pub fn send(&mut self, batch: RecordBatch) {
        let mut state = self.input.state.lock();
        if !state.closed {
            state.queue.push_back(batch);
        }
        drop(state);
        self.input.reactor.wake();
    }

    /// No more rows will come.
    pub fn finish(mut self) {
        self.done = true;
        self.input.state.lock().finished = true;
        self.input.reactor.wake();
    }

    /// The source of the rows failed: the partition ends with this error.
    pub fn fail(mut self, reason: String) {
        self.done = true;
        self.input.state.lock().failed = Some(reason);
        self.input.reactor.wake();
    }
}

impl Drop for InputSender {
    fn drop(&mut self) {
        if !self.done {
            self.input.state.lock().failed = Some("the source of outer rows went away".into());
            self.input.reactor.wake();
        }
    }
}
