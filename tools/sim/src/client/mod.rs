//! A client: a session, the steps of its script, and what it expects of each.

mod perform;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use futures::StreamExt;
use saki_sql::{Database, Session, SqlError, StatementResult};

use crate::change::{Change, Statement};
use crate::model::{Fate, Owner, Row, Rows, TableNumber, Window};
use crate::run::Run;
use crate::script::Step;
use crate::tables::Filter;

pub use perform::numbers;

/// Bytes of stack of a thread that runs statements.
pub const STACK_BYTES: usize = 16 << 20;

/// One client in one world.
pub struct Client<'r> {
    run: &'r Run,
    /// Which rows are its own.
    owner: Owner,
    session: Session,
}

/// What a statement said.
pub struct Answer {
    pub rows: Vec<Vec<String>>,
    /// How many rows it was about.
    pub count: u64,
}

/// A client cannot go on in this world: devices have failed, and what became of its transaction is not known; or it has
/// found something wrong, which has been told.
pub struct Stop;

impl<'r> Client<'r> {
    pub fn new(run: &'r Run, owner: Owner, database: &Arc<Database>) -> Self {
        Self { run, owner, session: Session::new(database) }
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
        let mut answer = Answer { rows: Vec::new(), count: 0 };
        for result in self.session.execute(text).await? {
            if let StatementResult::Done { rows, .. } | StatementResult::Returning { rows, .. } = &result {
                answer.count += rows;
            }
            for batch in result.collect().await? {
                answer.rows.extend(cells(&batch).map_err(SqlError::internal)?);
            }
        }
        Ok(answer)
    }

    /// Carries out a change, and looks whether it was about as many rows as it should have been.
    async fn apply(&self, change: &Change) -> Result<(), Refused> {
        let outcome = match &change.statement {
            Statement::Sql(text) => self.sql(text).await,
            Statement::Copy { table, rows } => self.copy(*table, rows).await,
        };
        let answer = outcome.map_err(Refused::Error)?;
        let counts = !matches!(&change.statement, Statement::Sql(text) if text.starts_with("TRUNCATE"));
        if counts && answer.count != change.count {
            return Err(Refused::Stop(
                self.fail(&format!("the statement was about {} rows, not {}", change.count, answer.count)),
            ));
        }
        Ok(())
    }

    async fn copy(&self, table: TableNumber, rows: &[(i64, Row)]) -> Result<Answer, SqlError> {
        let name = self.run.tables.name(table);
        self.tell(&format!("COPY {name}: {} rows", rows.len()));
        let columns: Vec<String> = self.run.tables.columns(table).split(", ").map(str::to_owned).collect();
        let outcome = async {
            let target = self.session.copy_target(&name, &columns)?;
            let text = |of: fn(&Row) -> &str| -> ArrayRef {
                Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, row)| of(row))))
            };
            let mut arrays: Vec<ArrayRef> =
                vec![Arc::new(Int32Array::from_iter_values(rows.iter().map(|(key, _)| *key as i32)))];
            if self.run.tables.owner_of(table).is_none() {
                arrays.push(Arc::new(Int32Array::from_iter_values(rows.iter().map(|_| self.owner as i32))));
            }
            arrays.push(Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, row)| row.n))));
            arrays.push(text(|row| &row.tag));
            arrays.push(text(|row| &row.pad));
            let arrays = arrays.into_iter().zip(target.schema.fields());
            let cast = arrays.map(|(array, field)| arrow_cast::cast(&array, field.data_type()));
            let batch = RecordBatch::try_new(Arc::clone(&target.schema), cast.collect::<Result<_, _>>()?)?;
            let batches = futures::stream::iter([Ok(batch)]).boxed();
            let count = self.session.copy_in(&name, &columns, batches).await?;
            Ok(Answer { rows: Vec::new(), count })
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
            // Of indexes and columns that come and go.
            "42P07" | "42701" | "42703" | "42704" => true,
            // A statement that cannot be part of a transaction.
            "25001" => true,
            code => {
                self.run.station.has_stormed() && (code.starts_with("53") || code.starts_with("58") || code == "XX001")
            }
        }
    }

    /// An error that is expected has been told; any other is a failure.
    fn heard(&self, error: &SqlError) -> Result<(), Stop> {
        match self.may_say(error) {
            true => Ok(()),
            false => Err(self.fail(&format!("unexpected {}: {error}", error.sqlstate()))),
        }
    }

    /// Reads what a filter lets pass of a table. `own`: what its own rows are, inside of its transaction.
    pub async fn read(
        &self,
        table: TableNumber,
        filter: &Filter,
        window: &mut Window,
        own: Option<&Rows>,
    ) -> Result<(), Refused> {
        let text = self.run.tables.select(table, filter);
        let answer = self.sql(&text).await.map_err(Refused::Error)?;
        let tables = self.run.tables;
        let mut found = vec![Vec::new(); tables.owners];
        for cells in &answer.rows {
            let (owner, key, row) =
                tables.row_of(table, cells).map_err(|error| Refused::Stop(self.fail(&format!("{text}: {error}"))))?;
            found[owner].push((key, row));
        }
        found.iter_mut().for_each(|rows| rows.sort());
        let explains = |owner: Owner, rows: &Rows| {
            tables.filtered(table, owner, rows, filter).eq(found[owner].iter().map(|(key, row)| (*key, row)))
        };
        if let Some(rows) = own
            && !explains(self.owner, rows)
        {
            let expected: Vec<_> = tables.filtered(table, self.owner, rows, filter).collect();
            let found = &found[self.owner];
            return Err(Refused::Stop(self.fail(&format!(
                "{text}: its own rows are wrong inside of its transaction\n  found {found:?}\n  expected {expected:?}"
            ))));
        }
        let mut model = self.run.model.lock();
        let seen = model.seen(window, own.map(|_| self.owner), explains);
        if let Err(what) = seen {
            let described: Vec<String> = (0..tables.owners)
                .map(|owner| {
                    let found: String =
                        found[owner].iter().map(|(key, row)| format!("    key {key}: {row}\n")).collect();
                    format!("owner {owner}, found:\n{found} possible:\n{}", model.describe(owner, window))
                })
                .collect();
            drop(model);
            return Err(Refused::Stop(self.fail(&format!("{text}: {what}\n{}", described.join("\n")))));
        }
        model.told(window);
        Ok(())
    }

    /// What became of its last transaction: that was told neither way.
    async fn find_out(&self) -> Result<(), Stop> {
        self.session.fail().await;
        // Whatever transaction is open.
        let _ = self.sql("ROLLBACK").await;
        let mut window = self.run.model.lock().look();
        for table in
            self.run.tables.all().filter(|table| self.run.tables.owner_of(*table).is_none_or(|of| of == self.owner))
        {
            match self.read(table, &Filter::Owner(self.owner), &mut window, None).await {
                Ok(()) => {}
                Err(Refused::Stop(stop)) => return Err(stop),
                Err(Refused::Error(error)) => {
                    self.heard(&error)?;
                    return Err(Stop);
                }
            }
        }
        self.run.model.lock().settle(&window, [self.owner]);
        Ok(())
    }

    /// The owner's rows will be these, if what follows succeeds.
    fn begin(&self, rows: &Rows) {
        self.run.model.lock().begin(self.owner, rows.clone());
    }

    fn end(&self, fate: Fate) {
        self.run.model.lock().end(self.owner, fate);
    }

    fn rows(&self) -> Rows {
        self.run.model.lock().rows(self.owner)
    }
}

/// Why a statement did not do what it was asked for.
pub enum Refused {
    Error(SqlError),
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
