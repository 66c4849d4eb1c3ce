//! Statements that are about the connection itself: its parameters, what it has prepared, COPY over it.

use std::sync::Arc;

use arrow_array::ArrayRef;
use saki_sql::{Command, Discarded, Parsed, ScalarValue, TransactionStatus};

use super::Connection;
use super::statement::Statement;
use super::statement::shapes::Shapes;
use super::work::{self, Outcome, Shape, Work};
use crate::copy::RowWriter;
use crate::failure::{Failure, Result};
use crate::message::formats;
use crate::types::{Format, decode};

fn done(tag: &str) -> Outcome {
    Outcome::Done { tag: tag.into(), rows: 0 }
}

impl Connection {
    /// Carries a command out; `parsed` is the statement that it was.
    ///
    /// # Errors
    /// What the client is told.
    pub async fn utility(
        &mut self,
        command: Command,
        parsed: Parsed,
        sql: &Arc<str>,
        formats: &[Format],
        describe: bool,
    ) -> Result<Outcome> {
        if self.session.transaction_status() == TransactionStatus::Failed {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(Failure::new("25P02", message));
        }
        match command {
            Command::Prepare { name, types, statement } => {
                let types = types.into_iter().map(|spelled| self.session.type_named(spelled));
                let types = types.collect::<saki_sql::Result<_>>()?;
                self.prepare(name, types, statement, sql).await?;
                Ok(done("PREPARE"))
            }
            Command::Execute { name, arguments } => self.execute_named(&name, arguments, sql, formats, describe).await,
            Command::Deallocate(Some(name)) => {
                self.statement(&name)?;
                self.statements.remove(&name);
                Ok(done("DEALLOCATE"))
            }
            Command::Deallocate(None) => {
                self.statements.clear();
                Ok(done("DEALLOCATE ALL"))
            }
            Command::Declare { name, query, hold } => self.declare(name, query, hold, sql).await,
            Command::Fetch { name, count } => self.fetch(&name, count, formats, describe).await,
            Command::Move { name, count } => self.move_by(&name, count).await,
            Command::Close(name) => self.close(name.as_deref()),
            Command::Unlisten => Ok(done("UNLISTEN")),
            Command::Discard(what) => self.discard(what).await,
            Command::CopyIn { table, columns, format } => self.copy_in(&table, columns, format, sql).await,
            Command::CopyOut { query, format } => {
                let shape = Shape::Copy(RowWriter::new(&format));
                let outcome = self.execute(Work::Statement(query), shape, 0, sql, false).await?;
                let (Outcome::Rows { rows, .. } | Outcome::Done { rows, .. }) = outcome;
                Ok(Outcome::Done { tag: "COPY".into(), rows })
            }
            Command::Parameter | Command::Run | Command::Transaction => {
                self.execute(Work::Statement(parsed), Shape::Rows { describe }, 0, sql, true).await
            }
        }
    }

    async fn prepare(
        &mut self,
        name: String,
        types: Vec<arrow_schema::DataType>,
        statement: Parsed,
        sql: &Arc<str>,
    ) -> Result<()> {
        if self.statements.contains_key(&name) {
            return Err(Failure::new("42P05", format!("prepared statement {name:?} already exists")));
        }
        let declared: Vec<_> = types.into_iter().map(Some).collect();
        let session = Arc::clone(&self.session);
        let prepared = self.spawn(async move { session.prepare_parsed(statement, &declared).await });
        let prepared = self.supervise(prepared).await?.map_err(|error| Failure::of_statement(error, sql))?;
        self.statements.insert(name, Arc::new(Statement::new(sql, prepared, &[], &self.shared.database.memory)?));
        Ok(())
    }

    async fn execute_named(
        &mut self,
        name: &str,
        arguments: Option<Parsed>,
        sql: &Arc<str>,
        formats: &[Format],
        describe: bool,
    ) -> Result<Outcome> {
        let statement = Arc::clone(self.statement(name)?);
        let types: Vec<_> = statement.prepared.parameters.iter().map(|of| self.session.current_type(of)).collect();
        let given = match arguments {
            Some(query) => self.arguments(query, sql).await?,
            None => Vec::new(),
        };
        if given.len() != types.len() {
            let message = format!("wrong number of parameters for prepared statement {name:?}");
            return Err(Failure::new("42601", message).hint(format!("{} are expected", types.len())));
        }
        let time = self.session.parameters().time();
        let typed = given.into_iter().zip(&types).map(|(value, data_type)| match &value {
            ScalarValue::Utf8(Some(text)) => decode::value(data_type, Format::Text, Some(text.as_bytes()), &time),
            value if data_type.is_decimal() => Ok(value.clone()),
            value => value.cast_to(data_type).map_err(|error| Failure::new("22P02", error.to_string())),
        });
        let values = typed.collect::<Result<Vec<_>>>()?;
        if let Some(schema) = statement.prepared.schema.as_ref().filter(|_| describe) {
            let formats = formats::of_columns(formats, schema.fields().len())?;
            work::describe(schema, &formats, &mut self.writer.buffer);
        }
        let outcome = Box::pin(self.execute_new(&statement, values, formats.to_vec(), 0)).await?;
        Ok(match outcome {
            Outcome::Rows { rows, .. } => Outcome::Done { tag: statement.verb.into(), rows },
            done @ Outcome::Done { .. } => done,
        })
    }

    /// The values of a query's one row.
    async fn arguments(&mut self, query: Parsed, sql: &Arc<str>) -> Result<Vec<ScalarValue>> {
        let session = Arc::clone(&self.session);
        let row = self.spawn(async move { session.run(query).await?.collect().await });
        let batches = self.supervise(row).await?.map_err(|error| Failure::of_statement(error, sql))?;
        let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(Vec::new()) };
        let internal = |error: &dyn std::fmt::Display| Failure::new("XX000", error.to_string());
        let value = |array: &ArrayRef| ScalarValue::try_from_array(array, 0).map_err(|error| internal(&error));
        batch.columns().iter().map(value).collect()
    }

    async fn discard_temporary(&mut self) -> Result<()> {
        let session = Arc::clone(&self.session);
        let discarded = self.spawn(async move { session.discard_temporary().await });
        Ok(self.supervise(discarded).await??)
    }

    async fn discard(&mut self, what: Discarded) -> Result<Outcome> {
        match what {
            Discarded::Kept => return Ok(done("DISCARD PLANS")),
            Discarded::Sequences => {
                self.session.discard_sequences();
                return Ok(done("DISCARD SEQUENCES"));
            }
            Discarded::Temporary => {
                self.discard_temporary().await?;
                return Ok(done("DISCARD TEMP"));
            }
            Discarded::All => {}
        }
        if self.pipelining || self.session.transaction_status() != TransactionStatus::Idle {
            return Err(Failure::new("25001", "DISCARD ALL cannot run inside a transaction block"));
        }
        self.statements.clear();
        self.portals.clear();
        self.session.release_advisory_locks();
        self.session.discard_sequences();
        self.shapes = Shapes::default();
        self.discard_temporary().await?;
        let parameters = self.session.parameters();
        parameters.set(saki_sql::SESSION, None, false)?;
        parameters.set(saki_sql::ROLE, None, false)?;
        parameters.reset_all();
        parameters.commit();
        Ok(done("DISCARD ALL"))
    }
}
