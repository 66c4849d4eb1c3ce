//! What a statement does, apart from the connection that waits for it: it runs, and its rows become bytes.
//!
//! Rows are written where the query runs, so that the threads of the network only pass chunks on. A chunk waits when
//! the client is slow, and the query with it.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use bytes::BytesMut;
use futures::StreamExt;
use saki_base::memory::{Pool, Reservation};
use saki_sql::{Parsed, Prepared, ScalarValue, SendableRecordBatchStream, Session, StatementResult};
use tokio::sync::mpsc;

use super::wire::{SPILL_BYTES, Writer};
use crate::copy::RowWriter;
use crate::failure::{Failure, Result};
use crate::message::{backend, formats};
use crate::registry::Activity;
use crate::types::encode::{Column, Style, columns, style_of};
use crate::types::{Format, field_type, wire_type};

/// What to run.
pub enum Work {
    Statement(Parsed),
    /// A statement that has been tried compiled.
    Planned(Parsed),
    Prepared {
        prepared: Arc<Prepared>,
        values: Vec<ScalarValue>,
        formats: Vec<Format>,
    },
    /// A text as what was prepared of its shape, and its literals.
    Shaped {
        prepared: Arc<Prepared>,
        values: Vec<ScalarValue>,
    },
    /// The rest of a portal that was suspended.
    Rest(Box<Cursor>),
}

/// How rows leave.
pub enum Shape {
    /// As messages; described before if asked for.
    Rows { describe: bool },
    /// As COPY writes them.
    Copy(RowWriter),
    /// They are passed over.
    Nowhere,
}

/// What came of it.
pub enum Outcome {
    Done {
        tag: String,
        rows: u64,
    },
    /// So many rows were written; if there may be more, here they are.
    Rows {
        rows: u64,
        rest: Option<Box<Cursor>>,
    },
}

/// A result and the place in it.
pub struct Cursor {
    stream: SendableRecordBatchStream,
    formats: Vec<Format>,
    /// Columns as the client was told of them.
    described: SchemaRef,
    batch: Option<Page>,
    memory: Arc<Pool>,
    /// How the session's values look.
    style: Style,
}

/// A batch and the row that comes next.
struct Page {
    batch: RecordBatch,
    columns: Vec<Column>,
    rows: usize,
    next: usize,
    /// Of a large batch, for as long as it is here.
    _held: Option<Reservation>,
}

/// Batches that are not worth a reservation.
const SMALL_BYTES: usize = 4 << 20;

/// Where written rows go.
pub trait Sink {
    fn buffer(&mut self) -> &mut BytesMut;
    /// Passes on what has gathered, if it is enough.
    fn spill(&mut self) -> impl Future<Output = Result<()>> + Send;
}

impl Sink for Writer {
    fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    async fn spill(&mut self) -> Result<()> {
        Writer::spill(self).await
    }
}

/// A sink on another thread than the connection.
pub struct Remote {
    buffer: BytesMut,
    sender: mpsc::Sender<BytesMut>,
}

impl Remote {
    pub fn new(sender: mpsc::Sender<BytesMut>) -> Self {
        Self { buffer: BytesMut::new(), sender }
    }

    /// Passes on all that is left.
    async fn finish(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let gone = |_| Failure::fatal("08006", "the connection has ended");
        self.sender.send(self.buffer.split()).await.map_err(gone)
    }
}

impl Sink for Remote {
    fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    async fn spill(&mut self) -> Result<()> {
        if self.buffer.len() >= SPILL_BYTES { self.finish().await } else { Ok(()) }
    }
}

/// Runs `work` and writes at most `limit` rows; 0 is no limit.
///
/// # Errors
/// The statement's, with positions in `sql`.
pub async fn run(
    session: &Session,
    work: Work,
    shape: &mut Shape,
    limit: u64,
    sql: &str,
    (sink, sent): (&mut impl Sink, &Activity),
) -> Result<Outcome> {
    let told = |error| Failure::of_statement(error, sql);
    let (result, formats, described) = match work {
        Work::Rest(mut cursor) => {
            cursor.write_in(style(session))?;
            return rows(cursor, shape, limit, sql, (sink, sent)).await;
        }
        Work::Statement(parsed) => (session.run(parsed).await.map_err(told)?, Vec::new(), None),
        Work::Planned(parsed) => (session.run_planned(parsed).await.map_err(told)?, Vec::new(), None),
        Work::Shaped { prepared, values } => {
            (session.execute_prepared(&prepared, &values).await.map_err(told)?, Vec::new(), None)
        }
        Work::Prepared { prepared, values, formats } => {
            let result = session.execute_prepared(&prepared, &values).await.map_err(told)?;
            (result, formats, prepared.schema.clone())
        }
    };
    match result {
        StatementResult::Done { tag, rows } => Ok(Outcome::Done { tag, rows }),
        StatementResult::Returning { tag, rows, batch } => {
            let describe = matches!(shape, Shape::Rows { describe: true });
            let batch = match &described {
                Some(schema) => as_described(batch, schema)?,
                None => batch,
            };
            table(sink.buffer(), &batch, &formats, &style(session), describe)?;
            Ok(Outcome::Done { tag, rows })
        }
        StatementResult::Rows { schema, stream } => {
            let formats = match shape {
                Shape::Copy(writer) => vec![writer.values()],
                Shape::Rows { .. } | Shape::Nowhere => formats,
            };
            let formats = formats::of_columns(&formats, schema.fields().len())?;
            match shape {
                Shape::Rows { describe: true } => describe(&schema, &formats, sink.buffer()),
                Shape::Rows { describe: false } | Shape::Nowhere => {}
                Shape::Copy(writer) => writer.begin(&schema, sink.buffer()),
            }
            let described = described.unwrap_or(schema);
            let memory = Arc::clone(&session.database().memory);
            let style = style(session);
            let cursor = Box::new(Cursor { stream, formats, described, batch: None, memory, style });
            rows(cursor, shape, limit, sql, (sink, sent)).await
        }
    }
}

fn style(session: &Session) -> Style {
    session.parameters().ask_state(style_of)
}

/// Begins a query whose rows are asked for later, as text.
///
/// # Errors
/// The statement's, with positions in `sql`.
pub async fn open(session: &Session, prepared: &Prepared, sql: &str) -> Result<Box<Cursor>> {
    let told = |error| Failure::of_statement(error, sql);
    match session.execute_prepared(prepared, &[]).await.map_err(told)? {
        StatementResult::Rows { schema, stream } => {
            let formats = vec![Format::Text; schema.fields().len()];
            let described = prepared.schema.clone().unwrap_or(schema);
            let memory = Arc::clone(&session.database().memory);
            Ok(Box::new(Cursor { stream, formats, described, batch: None, memory, style: style(session) }))
        }
        _ => Err(Failure::new("42P11", "a cursor is for a query")),
    }
}

/// As [`run`], and passes all on to the connection.
///
/// # Errors
/// As [`run`].
pub async fn run_remote(
    session: Arc<Session>,
    work: Work,
    mut shape: Shape,
    limit: u64,
    sql: Arc<str>,
    (mut sink, sent): (Remote, Arc<Activity>),
) -> Result<Outcome> {
    let outcome = run(&session, work, &mut shape, limit, &sql, (&mut sink, &sent)).await;
    sink.finish().await?;
    outcome
}

/// Appends the description of a result.
pub fn describe(schema: &SchemaRef, formats: &[Format], out: &mut BytesMut) {
    let columns = schema.fields().iter().zip(formats);
    backend::row_description(out, columns.map(|(field, format)| (field.name().as_str(), field_type(field), *format)));
}

async fn rows(
    mut cursor: Box<Cursor>,
    shape: &mut Shape,
    limit: u64,
    sql: &str,
    (sink, sent): (&mut impl Sink, &Activity),
) -> Result<Outcome> {
    let mut written = 0;
    loop {
        if limit != 0 && written == limit {
            return Ok(Outcome::Rows { rows: written, rest: Some(cursor) });
        }
        if cursor.batch.is_none() {
            match cursor.stream.next().await {
                None => break,
                Some(batch) => {
                    let batch = batch.map_err(|error| Failure::of_statement(error.into(), sql))?;
                    cursor.batch = Some(cursor.page(batch)?);
                }
            }
        }
        if let Some(page) = &mut cursor.batch {
            let left = if limit == 0 { u64::MAX } else { limit - written };
            let more = page.write(shape, left, sink.buffer());
            written += more;
            sent.add_rows(more);
            if page.next == page.rows {
                cursor.batch = None;
            }
        }
        sink.spill().await?;
    }
    if let Shape::Copy(writer) = shape {
        writer.end(sink.buffer());
    }
    Ok(Outcome::Rows { rows: written, rest: None })
}

impl Cursor {
    /// A batch of the stream, in the types that the client was told of.
    fn page(&self, batch: RecordBatch) -> Result<Page> {
        let batch = as_described(batch, &self.described)?;
        let columns = columns(&batch, self.described.fields(), &self.formats, &self.style)?;
        // The batch, and its rows as they are sent.
        let held = match 2 * saki_sql::shown_bytes(&batch) {
            ..=SMALL_BYTES => None,
            much => Some(self.memory.reserve(much).map_err(saki_sql::SqlError::from)?),
        };
        Ok(Page { columns, rows: batch.num_rows(), batch, next: 0, _held: held })
    }

    /// From now on values are written so.
    ///
    /// # Errors
    /// If values cannot be converted to the type in which they are sent.
    pub fn write_as(&mut self, formats: Vec<Format>) -> Result<()> {
        if self.formats != formats {
            self.formats = formats;
            self.write_anew()?;
        }
        Ok(())
    }

    /// From now on values look so.
    fn write_in(&mut self, style: Style) -> Result<()> {
        if style.is_none() && self.style.is_none() {
            return Ok(());
        }
        self.style = style;
        self.write_anew()
    }

    fn write_anew(&mut self) -> Result<()> {
        if let Some(page) = &mut self.batch {
            page.columns = columns(&page.batch, self.described.fields(), &self.formats, &self.style)?;
        }
        Ok(())
    }
}

impl Page {
    /// Writes rows until the sink has enough, or `left` are written; how many.
    fn write(&mut self, shape: &mut Shape, left: u64, out: &mut BytesMut) -> u64 {
        let begin = self.next;
        while self.next < self.rows && ((self.next - begin) as u64) < left && out.len() < SPILL_BYTES {
            match shape {
                Shape::Rows { .. } => backend::data_row(&self.columns, self.next, out),
                Shape::Copy(writer) => writer.row(&self.columns, self.next, out),
                Shape::Nowhere => {}
            }
            self.next += 1;
        }
        (self.next - begin) as u64
    }
}

/// A batch with the types of `described`, where a table has changed since or a literal was typed otherwise.
fn as_described(batch: RecordBatch, described: &SchemaRef) -> Result<RecordBatch> {
    let wire = |data_type: &DataType| wire_type(data_type).oid;
    let schema = batch.schema();
    let same = schema.fields().len() == described.fields().len()
        && schema.fields().iter().zip(described.fields()).all(|(a, b)| wire(a.data_type()) == wire(b.data_type()));
    if same {
        return Ok(batch);
    }
    let changed = || Failure {
        // Drivers that prepare anew by themselves know the error by this.
        routine: Some("RevalidateCachedQuery"),
        ..Failure::new("0A000", "cached plan must not change result type").hint("prepare the statement anew")
    };
    if schema.fields().len() != described.fields().len() {
        return Err(changed());
    }
    let cast = batch.columns().iter().zip(described.fields()).map(|(array, field)| {
        let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
        arrow::compute::cast_with_options(array, field.data_type(), &options).map_err(|_| changed())
    });
    let arrays = cast.collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new(nullable(described), arrays).map_err(|_| changed())
}

fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    SchemaRef::new(arrow_schema::Schema::new(fields))
}

/// Appends a command's completion: of rows, those of the statement's own verb.
pub fn complete(out: &mut BytesMut, verb: &str, outcome: &Outcome) {
    match outcome {
        Outcome::Done { tag, .. } if tag.is_empty() => backend::empty_query(out),
        Outcome::Done { tag, rows } => backend::command_complete(out, tag, *rows),
        Outcome::Rows { rest: Some(_), .. } => backend::portal_suspended(out),
        Outcome::Rows { rows, rest: None } => backend::command_complete(out, verb, *rows),
    }
}

/// Appends a whole result that was made here.
fn table(out: &mut BytesMut, batch: &RecordBatch, formats: &[Format], style: &Style, describe_it: bool) -> Result<()> {
    let formats = formats::of_columns(formats, batch.num_columns())?;
    if describe_it {
        describe(&batch.schema(), &formats, out);
    }
    let columns = columns(batch, batch.schema_ref().fields(), &formats, style)?;
    (0..batch.num_rows()).for_each(|row| backend::data_row(&columns, row, out));
    Ok(())
}
