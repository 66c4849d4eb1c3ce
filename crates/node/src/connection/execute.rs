//! Running work while listening: a statement stops when its client asks for it or has gone, when its time is over, and
//! when the server ends.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::FutureExt;
use saki_sql::Stop;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::wire::{Reader, Writer};
use super::work::{self, Outcome, Remote, Shape, Work};
use super::{Connection, STOP_PATIENCE, Stage, stopped, terminated};
use crate::failure::{Failure, Result};
use crate::registry::Place;

/// Chunks that wait between a query and the connection.
const CHUNKS: usize = 4;

/// A task that ends with whoever waits for it.
pub struct Task<T> {
    handle: JoinHandle<T>,
    /// Ends what computes without waiting for anything, as planning does.
    stop: Stop,
}

impl<T: Send + 'static> Task<T> {
    /// What came of it.
    ///
    /// # Errors
    /// If it panicked.
    pub async fn join(&mut self) -> Result<T> {
        (&mut self.handle).await.map_err(|error| match error.is_panic() {
            true => Failure::internal(),
            false => Failure::new("57014", "the statement was cancelled"),
        })
    }

    /// Stops it, and waits until it has let go of everything; but not for one that computes on and on without
    /// looking up, which ends when it does.
    async fn stop(mut self) {
        self.end();
        let _ = tokio::time::timeout(STOP_PATIENCE, &mut self.handle).await;
    }
}

impl<T> Task<T> {
    fn end(&self) {
        self.stop.tell();
        self.handle.abort();
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Connection {
    /// Starts something on the query threads.
    pub fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        let stop = Stop::default();
        Task { handle: self.shared.queries.spawn(saki_sql::stoppable(stop.clone(), future)), stop }
    }

    /// Runs `work`; its rows are in the writer, or sent already. `short` work runs here.
    ///
    /// # Errors
    /// The statement's, or why it was stopped.
    pub async fn execute(
        &mut self,
        work: Work,
        mut shape: Shape,
        limit: u64,
        sql: &Arc<str>,
        short: bool,
    ) -> Result<Outcome> {
        let (session, rows_sent) = (Arc::clone(&self.session), Arc::clone(&self.place.activity));
        let timeout = session.parameters().ask_state(|state| state.effective.statement_timeout);
        if short {
            let Self { writer, .. } = self;
            let work = work::run(&session, work, &mut shape, limit, sql, (writer, &rows_sent));
            return until_ended(&self.place, timeout, &mut self.reader, &mut self.stage, work).await;
        }
        let (sender, mut chunks) = mpsc::channel(CHUNKS);
        let remote = work::run_remote(session, work, shape, limit, Arc::clone(sql), (Remote::new(sender), rows_sent));
        let mut task = self.spawn(remote);
        let Self { writer, .. } = self;
        let finished = async {
            pass_on(&mut chunks, writer).await?;
            task.join().await?
        };
        match until_stopped(&self.place, timeout, &mut self.reader, &mut self.stage, finished).await {
            Ok(outcome) => outcome,
            Err(why) => {
                // A query that waits for room must not wait for ever.
                drop(chunks);
                // One that ends with its connection is not waited for.
                if !why.is_fatal() {
                    task.stop().await;
                }
                Err(why)
            }
        }
    }

    /// Waits for a task as [`Self::execute`] does for work.
    ///
    /// # Errors
    /// Why it was stopped.
    pub async fn supervise<T: Send + 'static>(&mut self, mut task: Task<T>) -> Result<T> {
        let timeout = self.session.parameters().ask_state(|state| state.effective.statement_timeout);
        let Self { place, reader, stage, .. } = self;
        match until_stopped(place, timeout, reader, stage, task.join()).await {
            Ok(made) => made,
            Err(why) => {
                task.stop().await;
                Err(why)
            }
        }
    }

    /// Commits the transaction of a message or pipeline.
    ///
    /// # Errors
    /// The session's, or why it was stopped: nothing has been committed then.
    pub async fn end_message(&mut self) -> Result<()> {
        let session = Arc::clone(&self.session);
        let timeout = session.parameters().ask_state(|state| state.effective.statement_timeout);
        let work = async { Ok(session.end_message().await?) };
        until_ended(&self.place, timeout, &mut self.reader, &mut self.stage, work).await
    }

    /// Counts a statement that has ended.
    pub fn count(&self, verb: &'static str, began: Instant, result: &Result<Outcome>) {
        self.shared.metrics.statement(verb, began.elapsed());
        if let Ok(Outcome::Rows { rows, .. }) = result {
            self.shared.metrics.rows.inc_by(*rows);
        }
    }
}

/// Takes chunks until the query has no more. A client that reads slowly holds this up, and this the query.
async fn pass_on(chunks: &mut mpsc::Receiver<bytes::BytesMut>, writer: &mut Writer) -> Result<()> {
    while let Some(chunk) = chunks.recv().await {
        match writer.buffer.is_empty() {
            true => writer.buffer = chunk,
            false => writer.buffer.extend_from_slice(&chunk),
        }
        writer.spill().await?;
    }
    Ok(())
}

/// Waits for `work` that may commit. What stops it asks it to end, and waits for what comes of that: a commit that is
/// under way then comes to its end, and the client is told so. Only a connection that ends does not wait.
///
/// # Errors
/// Those of the work, and what stopped it.
async fn until_ended<T>(
    place: &Place,
    mut timeout: Duration,
    reader: &mut Reader,
    stage: &mut watch::Receiver<Stage>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let (stop, mut why) = (Stop::default(), None);
    let work = std::panic::AssertUnwindSafe(saki_sql::stoppable(stop.clone(), work)).catch_unwind();
    let mut work = std::pin::pin!(work.map(|made| made.unwrap_or_else(|_| Err(Failure::internal()))));
    loop {
        let stopped = match until_stopped(place, timeout, reader, stage, work.as_mut()).await {
            Ok(ended) => return ended.map_err(|failure| why.filter(|_| failure.code == "57014").unwrap_or(failure)),
            Err(stopped) if stopped.is_fatal() => return Err(stopped),
            Err(stopped) => stopped,
        };
        stop.request();
        why.get_or_insert(stopped);
        timeout = Duration::ZERO;
    }
}

/// Waits for `work`, unless something stops it before: `timeout` does too, if it is not zero.
///
/// # Errors
/// What stopped it.
pub async fn until_stopped<T>(
    place: &Place,
    timeout: Duration,
    reader: &mut Reader,
    stage: &mut watch::Receiver<Stage>,
    work: impl Future<Output = T>,
) -> Result<T> {
    let requested = place.interrupt.requested();
    let _running = place.interrupt.running();
    // What fails here fails for this statement alone.
    let mut work = std::pin::pin!(std::panic::AssertUnwindSafe(work).catch_unwind());
    // Most statements end here, before it is worth while to listen to anybody.
    if let Poll::Ready(made) = futures::poll!(work.as_mut()) {
        return made.map_err(|_| Failure::internal());
    }
    tokio::select! {
        biased;
        made = work => made.map_err(|_| Failure::internal()),
        () = place.interrupt.ended() => Err(terminated()),
        () = requested => Err(Failure::new("57014", "canceling statement due to user request")),
        () = tokio::time::sleep(timeout), if !timeout.is_zero() => {
            Err(Failure::new("57014", "canceling statement due to statement timeout"))
        }
        () = reader.gone() => Err(Failure::fatal("08006", "the client has gone")),
        _ = stage.wait_for(|stage| *stage == Stage::Ending) => Err(stopped()),
    }
}
