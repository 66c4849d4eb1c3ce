//! The simple protocol: a text of statements, run one after another until one fails.

mod shapes;

use std::sync::Arc;
use std::time::Instant;

use saki_sql::{Command, LoggedStatements, Parsed};

use super::Connection;
use super::statement::watched;
use super::work::{self, Outcome, Shape, Work};
use crate::failure::{Failure, Result};
use crate::message::{backend, formats};

use self::shapes::Shaped;

/// Bytes of a text from which it is read on the query threads.
const LONG_TEXT_BYTES: usize = 16 << 10;

impl Connection {
    /// Runs a text: one transaction, unless its statements say otherwise.
    ///
    /// # Errors
    /// What the client is told; statements before the one that failed have their replies.
    pub async fn simple_query(&mut self, sql: &str) -> Result<()> {
        // A portal or statement without a name does not outlive this.
        self.portals.remove("");
        self.statements.remove("");
        let _room = self.session.room_for(sql)?;
        let sql: Arc<str> = sql.into();
        self.text = Some(Arc::clone(&sql));
        let shaped = if self.pipelining { Shaped::Ordinary(None) } else { self.shaped_query(&sql).await? };
        let Shaped::Ordinary(logged) = shaped else { return Ok(()) };
        let statements = self.read_text(&sql).await?;
        if statements.is_empty() {
            backend::empty_query(&mut self.writer.buffer);
        }
        let together = self.pipelining || statements.len() > 1;
        let mut left = statements.len();
        let text_began = Instant::now();
        let by = |this: &Self| statements.iter().map(|parsed| this.logged_by(parsed)).min();
        let is_logged = match logged {
            Some(is_logged) => is_logged,
            None => self.begin(&sql, &watched(&sql), |this| by(this).unwrap_or(LoggedStatements::All)),
        };
        for parsed in statements {
            let (verb, began) = (parsed.verb(), Instant::now());
            if together && !parsed.is_transaction() {
                self.run_together().await?;
            }
            let result = self.simple_statement(parsed, &sql).await;
            self.count(verb, began, &result);
            let outcome = result?;
            left -= 1;
            if left == 0 {
                self.end_together().await?;
            }
            work::complete(&mut self.writer.buffer, verb, &outcome);
        }
        self.log_duration(&sql, text_began, is_logged);
        Ok(())
    }

    /// Tells of what PostgreSQL warns of before it does it.
    pub fn warn(&mut self, parsed: &Parsed) {
        let are_told = self.session.parameters().state().effective.warnings;
        if let Some(warning) = self.session.warning(parsed).filter(|_| are_told) {
            let warning = Failure::warning(warning.sqlstate(), warning.message);
            self.log_failure(&warning);
            backend::failure(&mut self.writer.buffer, &warning);
        }
    }

    async fn read_text(&mut self, sql: &Arc<str>) -> Result<Vec<Parsed>> {
        let read = if sql.len() < LONG_TEXT_BYTES {
            self.session.parse(sql)
        } else {
            let text = Arc::clone(sql);
            let reading = self.spawn(async move { saki_sql::parse(&text) });
            self.supervise(reading).await?
        };
        read.map_err(|error| Failure::of_statement(error, sql))
    }

    /// Runs a statement on this thread if it is compiled without a planner, and short.
    async fn compiled(&mut self, parsed: &Parsed, sql: &str) -> Result<Compiled> {
        if sql.len() >= LONG_TEXT_BYTES {
            return Ok(Compiled::Untried);
        }
        // Its values are in its text: no client gives it any.
        let compiled = self.session.compile(parsed).filter(|plan| plan.parameters.is_empty());
        let Some(plan) = compiled else { return Ok(Compiled::Planned) };
        if plan.is_long(&[]) {
            return Ok(Compiled::Untried);
        }
        let begun = self.writer.buffer.len();
        if let Some(schema) = plan.schema() {
            work::describe(&schema, &formats::of_columns(&[], schema.fields().len())?, &mut self.writer.buffer);
        }
        let done = self.execute_fast(&plan, &[], &[], sql).await;
        if !matches!(done, Ok(Some(_))) {
            self.writer.buffer.truncate(begun);
        }
        Ok(done?.map_or(Compiled::Planned, Compiled::Done))
    }

    async fn simple_statement(&mut self, parsed: Parsed, sql: &Arc<str>) -> Result<Outcome> {
        let command = parsed.command().map_err(|error| Failure::of_statement(error, sql))?;
        let mut kept = None;
        let work = match command {
            Command::Run => match self.compiled(&parsed, sql).await? {
                Compiled::Done(outcome) => return Ok(outcome),
                Compiled::Planned => {
                    kept = self.kept_shape(&parsed, sql).await?;
                    Work::Planned as fn(Parsed) -> Work
                }
                Compiled::Untried => Work::Statement,
            },
            _ => Work::Statement,
        };
        match command {
            Command::Run | Command::Transaction | Command::Parameter => {
                let short = !matches!(command, Command::Run);
                self.warn(&parsed);
                let bound = parsed.bound();
                let work = match kept {
                    Some((prepared, values)) => Work::Shaped { prepared, values },
                    None => work(parsed),
                };
                let outcome = self.execute(work, Shape::Rows { describe: true }, 0, sql, short).await;
                if let Ok(outcome) = &outcome {
                    self.pass(bound, outcome);
                }
                if short {
                    self.end_with(self.session.transaction_status());
                }
                outcome
            }
            command => self.utility(command, parsed, sql, &[], true).await,
        }
    }
}

/// What became of a text that may be compiled.
enum Compiled {
    Done(Outcome),
    /// It takes a plan.
    Planned,
    /// It takes long to find out, which is left to another thread.
    Untried,
}
