//! The extended protocol: Parse, Bind, Describe, Execute and Close, each a step of its own.

use std::sync::Arc;
use std::time::Instant;

use saki_sql::{Command, LoggedStatements, ScalarValue};

use super::Connection;
use super::statement::{Portal, PortalState, Statement};
use super::work::{self, Outcome, Shape, Work};
use crate::failure::{Failure, Result};
use crate::message::frontend::{Frontend, Numbers, Target, Values};
use crate::message::{backend, formats};
use crate::types::{Format, arrow_type, decode};

impl Connection {
    /// Carries one step out.
    ///
    /// # Errors
    /// What the client is told; nothing is heard until Sync then.
    pub async fn extended(&mut self, message: Frontend<'_>) -> Result<()> {
        self.text = None;
        match message {
            Frontend::Parse { name, sql, types } => {
                let stated: Vec<u32> = types.iter().collect();
                if let Err(failure) = self.parse(name, sql, &stated).await {
                    self.text = Some(sql.into());
                    return Err(failure);
                }
                backend::parse_complete(&mut self.writer.buffer);
            }
            Frontend::Bind { portal, statement, formats, values, results } => {
                self.bind(portal, statement, formats, values, results)?;
                backend::bind_complete(&mut self.writer.buffer);
            }
            Frontend::Describe(target) => self.describe(target)?,
            Frontend::Execute { portal, limit } => self.execute_portal(portal, limit).await?,
            Frontend::Close(target) => {
                match target {
                    Target::Statement(name) => drop(self.statements.remove(name)),
                    Target::Portal(name) => drop(self.portals.remove(name)),
                }
                backend::close_complete(&mut self.writer.buffer);
            }
            _ => {}
        }
        Ok(())
    }

    async fn parse(&mut self, name: &str, sql: &str, stated: &[u32]) -> Result<()> {
        if name.is_empty() {
            self.statements.remove(name);
        } else if self.statements.contains_key(name) {
            return Err(Failure::new("42P05", format!("prepared statement {name:?} already exists")));
        }
        let declared = |oid: &u32| arrow_type(*oid).or_else(|| self.session.type_of_oid(*oid));
        let declared: Vec<_> = stated.iter().map(declared).collect();
        let memory = Arc::clone(&self.shared.database.memory);
        if let Some(prepared) = self.session.prepare_fast(sql, &declared) {
            self.statements.insert(name.to_owned(), Arc::new(Statement::new(sql, prepared, stated, &memory)?));
            return Ok(());
        }
        let _room = self.session.room_for(sql)?;
        let (session, text) = (Arc::clone(&self.session), sql.to_owned());
        let prepared = self.spawn(async move { session.prepare(&text, &declared).await });
        let mut prepared = self.supervise(prepared).await?.map_err(|error| Failure::of_statement(error, sql))?;
        self.describe_fetch(&mut prepared)?;
        self.statements.insert(name.to_owned(), Arc::new(Statement::new(sql, prepared, stated, &memory)?));
        Ok(())
    }

    fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        codes: Numbers<'_, 2>,
        values: Values<'_>,
        results: Numbers<'_, 2>,
    ) -> Result<()> {
        let statement = Arc::clone(self.statement(statement)?);
        if portal.is_empty() {
            self.portals.remove(portal);
        } else if self.portals.contains_key(portal) {
            return Err(Failure::new("42P03", format!("portal {portal:?} already exists")));
        }
        let wanted = statement.prepared.parameters.len();
        if values.len() != wanted {
            let message = format!("bind message supplies {} parameters, but {wanted} are required", values.len());
            return Err(Failure::new("08P01", message));
        }
        let given = formats::of_columns(&formats::read(codes)?, wanted)?;
        // Labels may have come since the statement was read.
        let types = statement.prepared.parameters.iter().map(|of| self.session.current_type(of)).zip(given);
        let time = self.session.parameters().time();
        let sent = values.iter().flatten().map(<[u8]>::len).sum();
        let mut held = Portal::room_for(portal, sent, &self.shared.database.memory)?;
        let values = types
            .zip(values.iter())
            .map(|((data_type, format), bytes)| decode::value(&data_type, format, bytes, &time))
            .collect::<Result<Vec<ScalarValue>>>()?;
        Portal::grow_to(&mut held, &values)?;
        let formats = formats::read(results)?;
        if let Some(schema) = &statement.prepared.schema {
            formats::of_columns(&formats, schema.fields().len())?;
        }
        self.portals.insert(portal.to_owned(), Portal::bound(statement, values, formats, held));
        Ok(())
    }

    pub fn statement(&self, name: &str) -> Result<&Arc<Statement>> {
        let missing = || match name.is_empty() {
            true => Failure::new("26000", "unnamed prepared statement does not exist"),
            false => Failure::new("26000", format!("prepared statement {name:?} does not exist")),
        };
        self.statements.get(name).ok_or_else(missing)
    }

    fn describe(&mut self, target: Target<'_>) -> Result<()> {
        let (statement, formats) = match target {
            Target::Statement(name) => (Arc::clone(self.statement(name)?), Vec::new()),
            Target::Portal(name) => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                (Arc::clone(&portal.statement), portal.formats.clone())
            }
        };
        let out = &mut self.writer.buffer;
        if matches!(target, Target::Statement(_)) {
            backend::parameter_description(out, statement.oids.iter().copied());
        }
        match &statement.prepared.schema {
            Some(schema) => work::describe(schema, &formats::of_columns(&formats, schema.fields().len())?, out),
            None => backend::no_data(out),
        }
        Ok(())
    }

    async fn execute_portal(&mut self, name: &str, limit: u32) -> Result<()> {
        if !self.portals.get(name).is_some_and(|portal| portal.statement.is_transaction())
            && (self.pipelining || !self.syncs_next().await?)
        {
            self.run_together().await?;
        }
        let portal = self.portals.get_mut(name).ok_or_else(|| no_portal(name))?;
        let statement = Arc::clone(&portal.statement);
        let state = std::mem::replace(&mut portal.state, PortalState::Finished);
        let (values, formats) = match state {
            PortalState::New => (std::mem::take(&mut portal.values), portal.formats.clone()),
            _ => (Vec::new(), portal.formats.clone()),
        };
        let began = Instant::now();
        let by = |this: &Self| statement.prepared.statement.as_ref().map(|parsed| this.logged_by(parsed));
        let is_logged =
            self.begin(&statement.sql, &statement.watched, |this| by(this).unwrap_or(LoggedStatements::All));
        let result = match state {
            PortalState::New => self.execute_new(&statement, values, formats, limit).await,
            PortalState::Suspended(mut cursor) => {
                // A FETCH may have asked for other formats.
                let columns = statement.prepared.schema.as_ref().map_or(0, |schema| schema.fields().len());
                cursor.write_as(formats::of_columns(&formats, columns)?)?;
                let shape = Shape::Rows { describe: false };
                self.execute(Work::Rest(cursor), shape, limit.into(), &statement.sql, false).await
            }
            PortalState::Finished if statement.prepared.schema.is_some() => Ok(Outcome::Rows { rows: 0, rest: None }),
            PortalState::Finished => {
                Err(Failure::new("55000", format!("portal {name:?} cannot be run")).hint("bind it anew"))
            }
        };
        self.count(statement.verb, began, &result);
        let outcome = result?;
        self.log_duration(&statement.sql, began, is_logged);
        work::complete(&mut self.writer.buffer, statement.verb, &outcome);
        if let (Outcome::Rows { rest: Some(cursor), .. }, Some(portal)) = (outcome, self.portals.get_mut(name)) {
            portal.state = PortalState::Suspended(cursor);
        }
        Ok(())
    }

    /// Whether Sync follows, so that what runs now is a transaction by itself. Waits for it: until the client says
    /// more, it cannot expect an answer.
    async fn syncs_next(&mut self) -> Result<bool> {
        loop {
            match self.reader.next_kind() {
                Some(kind) => return Ok(kind == b'S'),
                None if !self.more().await? => return Ok(true),
                None => {}
            }
        }
    }

    /// Runs a statement with its values for the first time.
    pub async fn execute_new(
        &mut self,
        statement: &Arc<Statement>,
        values: Vec<ScalarValue>,
        formats: Vec<Format>,
        limit: u32,
    ) -> Result<Outcome> {
        let Some(parsed) = &statement.prepared.statement else {
            return Ok(Outcome::Done { tag: String::new(), rows: 0 });
        };
        let command = parsed.command().map_err(|error| Failure::of_statement(error, &statement.sql))?;
        match command {
            Command::Run | Command::Transaction | Command::Parameter => {
                if limit == 0
                    && let Some(fast) = &statement.prepared.fast
                    && self.session.is_current(&statement.prepared)
                    && let Some(outcome) = self.execute_fast(fast, &values, &formats, &statement.sql).await?
                {
                    return Ok(outcome);
                }
                let short = !matches!(command, Command::Run);
                self.warn(parsed);
                let work = Work::Prepared { prepared: Arc::clone(&statement.prepared), values, formats };
                let shape = Shape::Rows { describe: false };
                let outcome = self.execute(work, shape, limit.into(), &statement.sql, short).await;
                if let Ok(outcome) = &outcome {
                    self.pass(parsed.bound(), outcome);
                }
                if short {
                    self.end_with(self.session.transaction_status());
                }
                outcome
            }
            command => Box::pin(self.utility(command, parsed.clone(), &statement.sql, &formats, false)).await,
        }
    }
}

fn no_portal(name: &str) -> Failure {
    Failure::new("34000", format!("portal {name:?} does not exist"))
}
