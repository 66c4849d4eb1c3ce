//! A client: a session, the steps of its script, and what it expects of each.

mod derived;
mod held;
mod perform;
mod reading;
mod shared;
mod transaction;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use futures::StreamExt;
use saki_sql::{Database, Session, SqlError, StatementResult};

use crate::change::{Change, Expected, Statement};
use crate::model::{Fate, Owner, Row, State};
use crate::run::Run;
use crate::script::Step;

pub use perform::numbers;
pub use reading::Look;

/// Bytes of stack of a thread that runs statements.
pub const STACK_BYTES: usize = 16 << 20;

/// One client in one world.
pub struct Client<'r> {
    run: &'r Run,
    /// Which rows are its own.
    owner: Owner,
    database: Arc<Database>,
    session: Session,
    /// `lock_timeout` of the session, in milliseconds.
    patience: Cell<u64>,
}

/// What a statement said.
pub struct Answer {
    /// Names of columns, if there are any.
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// How many rows it was about.
    pub count: u64,
}

/// A client cannot go on in this world: devices have failed, and what became of its transaction is not known; or it has
/// found something wrong, which has been told.
pub struct Stop;

impl<'r> Client<'r> {
    pub fn new(run: &'r Run, owner: Owner, database: &Arc<Database>) -> Self {
        let session = Session::new(database);
        Self { run, owner, database: Arc::clone(database), session, patience: Cell::new(0) }
    }

    /// Takes its steps until they are done.
    pub async fn work(&self) {
        while !self.run.has_failed() {
            let Some(step) = self.run.next_step(self.owner) else { return };
            self.tell(&format!("# step {} {}", step.number, step.kind.name()));
            if self.step(step).await.is_err() {
                return;
            }
        }
    }

    async fn step(&self, step: Step) -> Result<(), Stop> {
        self.perform(step).await?;
        if !self.run.model.lock().is_settled(self.owner) {
            self.find_out().await?;
        }
        Ok(())
    }

    fn tell(&self, line: &str) {
        self.run.tell(&format!("client {}: {line}", self.owner));
    }

    /// Something is wrong.
    fn fail(&self, what: &str) -> Stop {
        self.run.fail(&format!("client {}: {what}", self.owner));
        Stop
    }

    /// Runs a statement.
    pub async fn sql(&self, text: &str) -> Result<Answer, SqlError> {
        self.tell(&shortened(text));
        let outcome = self.execute(text).await;
        self.tell_outcome(&outcome);
        outcome
    }

    fn tell_outcome(&self, outcome: &Result<Answer, SqlError>) {
        match outcome {
            Ok(answer) if answer.rows.is_empty() => self.tell(&format!("  ok, {}", answer.count)),
            Ok(answer) => self.tell(&format!("  {} rows", answer.rows.len())),
            Err(error) => self.tell(&format!("  {}: {}", error.sqlstate(), error.message)),
        }
    }

    async fn execute(&self, text: &str) -> Result<Answer, SqlError> {
        let mut answer = Answer { columns: Vec::new(), rows: Vec::new(), count: 0 };
        for result in self.session.execute(text).await? {
            if let StatementResult::Done { rows, .. } | StatementResult::Returning { rows, .. } = &result {
                answer.count += rows;
            }
            if let StatementResult::Rows { schema, .. } = &result {
                answer.columns = schema.fields().iter().map(|field| field.name().clone()).collect();
            }
            for batch in result.collect().await? {
                answer.rows.extend(cells(&batch).map_err(SqlError::internal)?);
            }
        }
        Ok(answer)
    }

    /// Carries out a change, and looks whether it came out as it should have; what the owner has after it.
    async fn apply(&self, change: &Change) -> Result<State, Refused> {
        let outcome = match &change.statement {
            Statement::Sql(text) => self.sql(text).await,
            Statement::Copy { name, columns, rows } => self.copy(name, columns, rows).await,
        };
        match (outcome, &change.expected) {
            (Ok(answer), Expected::Done { count, after }) => match count.filter(|count| *count != answer.count) {
                Some(count) => {
                    Err(self.fail(&format!("the statement was about {count} rows, not {}", answer.count)).into())
                }
                None => Ok(after.clone()),
            },
            (Ok(_), Expected::Refused(codes)) => {
                Err(self.fail(&format!("the statement should have been refused with {codes:?}")).into())
            }
            (Err(error), Expected::Refused(codes)) if codes.contains(&error.sqlstate()) => Err(Refused::Expected),
            (Err(error), _) => Err(Refused::Error(error)),
        }
    }

    async fn copy(&self, name: &str, columns: &[&str], rows: &[(i64, Row)]) -> Result<Answer, SqlError> {
        self.tell(&format!("COPY {name}: {} rows", rows.len()));
        let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        let outcome = async {
            let target = self.session.copy_target(name, &columns)?;
            let text = |of: fn(&Row) -> &str| -> ArrayRef {
                Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, row)| of(row))))
            };
            let mut arrays: Vec<ArrayRef> =
                vec![Arc::new(Int32Array::from_iter_values(rows.iter().map(|(key, _)| *key as i32)))];
            if columns.iter().any(|column| column == "owner") {
                arrays.push(Arc::new(Int32Array::from_iter_values(rows.iter().map(|_| self.owner as i32))));
            }
            arrays.push(Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, row)| row.n))));
            arrays.push(text(|row| &row.tag));
            arrays.push(text(|row| &row.pad));
            if columns.last().is_some_and(|column| column == "link") {
                arrays.push(Arc::new(rows.iter().map(|(_, row)| row.link).collect::<Int64Array>()));
            }
            let arrays = arrays.into_iter().zip(target.schema.fields());
            let cast = arrays.map(|(array, field)| arrow_cast::cast(&array, field.data_type()));
            let batch = RecordBatch::try_new(Arc::clone(&target.schema), cast.collect::<Result<_, _>>()?)?;
            let batches = futures::stream::iter([Ok(batch)]).boxed();
            let count = self.session.copy_in(name, &columns, batches).await?;
            Ok(Answer { columns: Vec::new(), rows: Vec::new(), count })
        }
        .await;
        self.tell_outcome(&outcome);
        outcome
    }

    /// Whether a statement may say this, as things are.
    fn may_say(&self, error: &SqlError) -> bool {
        match error.sqlstate() {
            // Beside others: serialization, deadlock, a lock that was not had, what needs a table alone.
            "40001" | "40P01" | "55P03" | "55006" | "57014" => true,
            _ => self.run.station.excuses(error),
        }
    }

    /// An error that is expected has been told; any other is a failure.
    fn heard(&self, error: &SqlError) -> Result<(), Stop> {
        match self.may_say(error) {
            true => Ok(()),
            false => Err(self.fail(&format!("unexpected {}: {error}", error.sqlstate()))),
        }
    }

    /// The owner will have this, if what follows succeeds.
    fn begin(&self, state: &State) {
        self.run.model.lock().begin(self.owner, state.clone());
    }

    fn end(&self, fate: Fate) {
        self.run.model.lock().end(self.owner, fate);
        self.run.station.told(false);
    }

    fn state(&self) -> State {
        self.run.model.lock().state(self.owner).clone()
    }
}

/// Why a statement did not do what it was asked for.
pub enum Refused {
    Error(SqlError),
    /// As it had to be.
    Expected,
    Stop(Stop),
}

impl From<Stop> for Refused {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// A pause, in which others go on.
pub async fn pause(nanoseconds: u64) {
    tokio::time::sleep(Duration::from_nanos(nanoseconds)).await;
}

/// Cells as text, row by row.
fn cells(batch: &RecordBatch) -> Result<Vec<Vec<String>>, String> {
    let options = arrow_cast::display::FormatOptions::default();
    let columns: Result<Vec<_>, _> =
        batch.columns().iter().map(|column| arrow_cast::display::ArrayFormatter::try_new(column, &options)).collect();
    let columns = columns.map_err(|error| error.to_string())?;
    let row = |row: usize| columns.iter().map(|column| column.value(row).to_string()).collect();
    Ok((0..batch.num_rows()).map(row).collect())
}

/// A statement's text, without the long middles of its values.
fn shortened(text: &str) -> String {
    let mut short = String::new();
    for word in text.split_inclusive('\'') {
        match word.char_indices().nth(40) {
            Some((end, _)) if word.ends_with('\'') && !word.contains(' ') => short += &format!("{}…'", &word[..end]),
            _ => short += word,
        }
    }
    short
}
