//! One statement: run, watched, cancelled by Ctrl-C, its rows written as they come.

use std::cell::RefCell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use futures::StreamExt;
use indicatif::ProgressBar;
use saki::{Database, SqlError, StatementResult};

use super::state::State;
use crate::cli::output::Format;
use crate::cli::progress;

/// When a statement is not done by then, a line says that it is at work.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a statement did not come to its end.
pub enum Stopped {
    Failed(SqlError),
    Cancelled,
    /// The reader of the output has gone, or its disk is full.
    Output(io::Error),
}

impl From<SqlError> for Stopped {
    fn from(error: SqlError) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Runs the one statement of `sql`.
pub fn statement(state: &State<'_>, sql: &str) -> Result<(), Stopped> {
    let started = Instant::now();
    let watch = Watch::new(state);
    let outcome = state.runtime.block_on(async {
        tokio::select! {
            // Dropping the statement stops its reads and gives back its memory.
            outcome = execute(state, sql, &watch) => outcome,
            _ = tokio::signal::ctrl_c() => Err(Stopped::Cancelled),
        }
    });
    watch.clear();
    if state.timing && outcome.is_ok() {
        let text = format!("Time: {}", progress::seconds(started.elapsed().as_secs_f64()));
        // Beside the rows of a table; out of the way of rows that a program reads.
        if state.style.format == Format::Table { say!("{text}") } else { eprintln!("{text}") }
    }
    outcome
}

async fn execute(state: &State<'_>, sql: &str, watch: &Watch<'_>) -> Result<(), Stopped> {
    let results = watch.during(state.session.execute(sql)).await?;
    for result in results {
        match result {
            StatementResult::Done { tag, rows } => {
                if state.style.format == Format::Table {
                    say!("{}", tag_line(&tag, rows));
                }
            }
            StatementResult::Returning { tag, rows, batch } => {
                let mut writer = state.style.writer(&batch.schema());
                let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
                writer.write(&mut out, &batch)?;
                writer.finish(&mut out)?;
                out.flush()?;
                if state.style.format == Format::Table {
                    say!("{}", tag_line(&tag, rows));
                }
            }
            StatementResult::Rows { schema, mut stream, .. } => {
                let mut writer = state.style.writer(&schema);
                let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
                while let Some(batch) = watch.during(stream.next()).await {
                    let batch = batch.map_err(SqlError::from)?;
                    writer.write(&mut out, &batch)?;
                }
                watch.clear();
                writer.finish(&mut out)?;
                out.flush()?;
            }
        }
    }
    Ok(())
}

/// A command's name with the rows it concerned, where it concerns rows.
fn tag_line(tag: &str, rows: u64) -> String {
    let counts = rows > 0 || matches!(tag, "INSERT" | "COPY" | "UPDATE" | "DELETE");
    if counts { format!("{tag} {rows}") } else { tag.to_owned() }
}

/// Shows a line with what has been done while a statement takes long.
struct Watch<'s> {
    database: &'s Database,
    started: Instant,
    /// Of the volume when it began.
    reads: u64,
    line: RefCell<Option<ProgressBar>>,
}

impl<'s> Watch<'s> {
    fn new(state: &'s State<'s>) -> Self {
        let database = state.session.database();
        Self { database, started: Instant::now(), reads: database.volume().reads(), line: RefCell::default() }
    }

    /// Waits for `work`, updating the line meanwhile.
    async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        if !progress::is_watched() {
            return work.await;
        }
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(Duration::from_millis(200), &mut work).await {
                Ok(done) => return done,
                Err(_) if self.started.elapsed() < PATIENCE => {}
                Err(_) => self.show(),
            }
        }
    }

    fn show(&self) {
        let pages = self.database.volume().reads() - self.reads;
        let rate = pages as f64 / self.started.elapsed().as_secs_f64();
        let in_flight = self.database.volume().governor().in_flight();
        let message = format!("{pages} pages read, {rate:.0}/s, {in_flight} in flight; Ctrl-C cancels");
        let mut line = self.line.borrow_mut();
        match line.as_ref() {
            Some(line) => line.set_message(message),
            None => *line = Some(progress::line(message).with_elapsed(self.started.elapsed())),
        }
    }

    fn clear(&self) {
        if let Some(line) = self.line.take() {
            line.finish_and_clear();
        }
    }
}
