//! COPY … FROM STDIN: what the client sends goes to a task that makes rows of it and stores them.

use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::{Buf, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use saki_base::memory::Reservation;
use saki_sql::{CopyFormat, CopyKind, ErrorKind, SqlError, TableName};
use tokio::sync::mpsc;

use super::Connection;
use super::execute::Task;
use super::statement::Portal;
use super::work::Outcome;
use super::{Stage, stopped};
use crate::copy::RowReader;
use crate::failure::{Failure, Result};
use crate::message::backend;
use crate::message::frontend::Frontend;
use crate::types::Format;

/// Messages that wait for the task.
const QUEUE: usize = 16;
/// Bytes of a message before what it carries.
const HEADER_BYTES: usize = 5;

/// What the task is given.
enum Incoming {
    Data(BytesMut),
    End,
    Failed(String),
}

impl Connection {
    /// Takes rows from the client.
    ///
    /// # Errors
    /// What the client is told; nothing was stored then.
    pub async fn copy_in(
        &mut self,
        table: &TableName,
        columns: Vec<String>,
        format: CopyFormat,
        sql: &Arc<str>,
    ) -> Result<Outcome> {
        let told = |error| Failure::of_statement(error, sql);
        let table = &*self.session.table_name(table).map_err(told)?;
        let target = self.session.copy_target(table, &columns).map_err(told)?;
        let values = if format.kind == CopyKind::Binary { Format::Binary } else { Format::Text };
        backend::copy_response(&mut self.writer.buffer, b'G', values, target.columns.len());
        self.writer.flush().await?;
        // Only now, as PostgreSQL does: a client that reads its data from a script passes it by then.
        let freeze = format.freeze;
        if freeze && self.portals.values().any(Portal::is_open) {
            return Err(Failure::new("25000", "cannot perform COPY FREEZE because of prior transaction activity")
                .hint("close all cursors first"));
        }
        let (sender, incoming) = mpsc::channel(QUEUE);
        let pending = self.shared.database.memory.reserve(0).map_err(SqlError::from)?;
        let rows = batches(incoming, RowReader::new(&target, &format), pending);
        let (session, table) = (Arc::clone(&self.session), table.to_owned());
        let mut task = self.spawn(async move {
            if freeze {
                session.expect_fresh(&table).await?;
            }
            session.copy_in(&table, &columns, rows).await
        });
        let rows = self.feed(sender, &mut task).await?.map_err(told)?;
        Ok(Outcome::Done { tag: "COPY".into(), rows })
    }

    /// Passes messages on until the client has no more, and waits for what comes of them.
    async fn feed(
        &mut self,
        sender: mpsc::Sender<Incoming>,
        task: &mut Task<Result<u64, SqlError>>,
    ) -> Result<Result<u64, SqlError>> {
        let interrupt = Arc::clone(&self.place.interrupt);
        let requested = interrupt.requested();
        let _running = interrupt.running();
        let max = self.shared.options.message_bytes_max;
        let (reader, stage) = (&mut self.reader, &mut self.stage);
        let passed = async {
            loop {
                let gone = || Failure::fatal("08006", "unexpected EOF on client connection with an open COPY");
                let mut message = reader.message(max).await?.ok_or_else(gone)?;
                let passed = match Frontend::read(&message)? {
                    Frontend::CopyData(_) => {
                        message.advance(HEADER_BYTES);
                        Incoming::Data(message)
                    }
                    Frontend::CopyDone => Incoming::End,
                    Frontend::CopyFail(why) => Incoming::Failed(why.to_owned()),
                    Frontend::Flush | Frontend::Sync => continue,
                    _ => return Err(Failure::fatal("08P01", "unexpected message during COPY from stdin")),
                };
                let last = !matches!(passed, Incoming::Data(_));
                // A task that has ended says why itself.
                if sender.send(passed).await.is_err() || last {
                    return Ok(());
                }
            }
        };
        let finished = async {
            tokio::select! {
                biased;
                passed = passed => passed?,
                ended = task.join() => return ended,
            }
            task.join().await
        };
        tokio::select! {
            biased;
            finished = finished => finished,
            () = requested => Err(Failure::new("57014", "canceling statement due to user request")),
            _ = stage.wait_for(|stage| *stage == Stage::Ending) => Err(stopped()),
        }
    }
}

/// What the client sends as batches; an error if it does not come to its end.
fn batches(
    incoming: mpsc::Receiver<Incoming>,
    reader: RowReader,
    pending: Reservation,
) -> BoxStream<'static, Result<RecordBatch, SqlError>> {
    let state = Some((incoming, reader, pending));
    stream::try_unfold(state, async |state| {
        let Some((mut incoming, mut reader, mut pending)) = state else { return Ok(None) };
        loop {
            match incoming.recv().await {
                Some(Incoming::Data(data)) => {
                    if let Some(batch) = reader.push(&data).map_err(error)? {
                        return Ok(Some((batch, Some((incoming, reader, pending)))));
                    }
                    hold(&mut pending, reader.pending_bytes())?;
                }
                Some(Incoming::End) => return Ok(reader.finish().map_err(error)?.map(|batch| (batch, None))),
                Some(Incoming::Failed(why)) => {
                    return Err(SqlError::data(format!("COPY from stdin failed: {why}")).code("57014"));
                }
                None => return Err(SqlError::data("COPY from stdin was cancelled").code("57014")),
            }
        }
    })
    .boxed()
}

/// Reserves what a row takes whose end has not come, if that is much: its bytes, and room to grow.
fn hold(pending: &mut Reservation, bytes: usize) -> Result<(), SqlError> {
    const MUCH: usize = 1 << 20;
    let wanted = if bytes < MUCH { 0 } else { 2 * bytes };
    match wanted.checked_sub(pending.bytes()) {
        Some(more) => pending.grow(more)?,
        None => pending.clear(),
    }
    Ok(())
}

fn error(failure: Failure) -> SqlError {
    SqlError::new(ErrorKind::Data, failure.message).code(failure.code)
}
