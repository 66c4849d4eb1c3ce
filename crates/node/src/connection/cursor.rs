//! Cursors: DECLARE, FETCH, MOVE and CLOSE. A cursor is a portal; one that the client has bound by a message of the
//! protocol begins to run with the first FETCH or MOVE.

use std::collections::HashSet;
use std::sync::Arc;

use saki_sql::{Bound, Command, Parsed, Prepared, TransactionStatus};

use super::Connection;
use super::statement::{Portal, PortalState, Statement};
use super::work::{self, Outcome, Shape, Work};
use crate::failure::{Failure, Result};
use crate::message::formats;
use crate::types::Format;

impl Connection {
    /// Begins a query whose rows are fetched later.
    ///
    /// # Errors
    /// 25P01 outside of a transaction, unless it shall outlive it; 42P03 for a name that is taken; the query's.
    pub async fn declare(&mut self, name: String, query: Parsed, hold: bool, sql: &Arc<str>) -> Result<Outcome> {
        let is_alone = self.session.transaction_status() == TransactionStatus::Idle;
        if !hold && !self.pipelining && is_alone {
            return Err(Failure::new("25P01", "DECLARE CURSOR can only be used in transaction blocks")
                .hint("BEGIN first, or declare it WITH HOLD"));
        }
        if self.portals.contains_key(&name) {
            return Err(Failure::new("42P03", format!("cursor {name:?} already exists")));
        }
        let (session, text) = (Arc::clone(&self.session), Arc::clone(sql));
        let opened = self.spawn(async move {
            let told = |error| Failure::of_statement(error, &text);
            let prepared = session.prepare_parsed(query, &[]).await.map_err(told)?;
            let cursor = work::open(&session, &prepared, &text).await?;
            Ok::<_, Failure>((prepared, cursor))
        });
        let (prepared, cursor) = self.supervise(opened).await??;
        let statement = Arc::new(Statement::new(sql, prepared, &[], &self.shared.database.memory)?);
        self.portals.insert(name, Portal::declared(statement, cursor, hold, hold && is_alone));
        Ok(Outcome::Done { tag: "DECLARE CURSOR".into(), rows: 0 })
    }

    /// A transaction has come to a bound: cursors that were declared behind a savepoint go with what is undone, and
    /// those that are to outlive the transaction do so if it has committed.
    pub fn pass(&mut self, bound: Option<Bound>, outcome: &Outcome) {
        let find = |savepoints: &[(String, HashSet<String>)], name: &str| {
            savepoints.iter().rposition(|(savepoint, _)| savepoint == name)
        };
        match bound {
            Some(Bound::Savepoint(name)) => {
                let there = self.portals.keys().cloned().collect();
                self.savepoints.push((name, there));
            }
            Some(Bound::RollbackTo(name)) => {
                if let Some(at) = find(&self.savepoints, &name) {
                    self.savepoints.truncate(at + 1);
                    let there = &self.savepoints[at].1;
                    self.portals.retain(|name, _| there.contains(name));
                }
            }
            Some(Bound::Release(name)) => {
                if let Some(at) = find(&self.savepoints, &name) {
                    self.savepoints.truncate(at);
                }
            }
            Some(Bound::End) => {
                self.savepoints.clear();
                let has_committed = matches!(outcome, Outcome::Done { tag, .. } if tag == "COMMIT");
                self.portals.values_mut().for_each(|portal| portal.kept |= portal.hold && has_committed);
                self.portals.retain(|_, portal| portal.kept);
            }
            None => {}
        }
    }

    /// Sends the next rows of a cursor.
    ///
    /// # Errors
    /// 34000 for one that is not there; the query's.
    pub async fn fetch(&mut self, name: &str, count: Option<u64>, given: &[Format], describe: bool) -> Result<Outcome> {
        let statement = Arc::clone(&self.portals.get(name).ok_or_else(|| no_cursor(name))?.statement);
        let columns = statement.prepared.schema.as_ref().map_or(0, |schema| schema.fields().len());
        let formats = formats::of_columns(given, columns)?;
        if let Some(schema) = statement.prepared.schema.as_ref().filter(|_| describe) {
            work::describe(schema, &formats, &mut self.writer.buffer);
        }
        let rows = self.advance(name, count, formats, Shape::Rows { describe: false }).await?;
        Ok(Outcome::Done { tag: "FETCH".into(), rows })
    }

    /// Passes over the next rows of a cursor.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub async fn move_by(&mut self, name: &str, count: Option<u64>) -> Result<Outcome> {
        let rows = self.advance(name, count, Vec::new(), Shape::Nowhere).await?;
        Ok(Outcome::Done { tag: "MOVE".into(), rows })
    }

    /// Runs a cursor on for `count` rows; how many there were.
    async fn advance(&mut self, name: &str, count: Option<u64>, formats: Vec<Format>, shape: Shape) -> Result<u64> {
        let portal = self.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
        let statement = Arc::clone(&portal.statement);
        let work = match std::mem::replace(&mut portal.state, PortalState::Finished) {
            PortalState::Finished => return Ok(0),
            PortalState::New => {
                let (values, prepared) = (std::mem::take(&mut portal.values), Arc::clone(&statement.prepared));
                Work::Prepared { prepared, values, formats }
            }
            PortalState::Suspended(mut cursor) => {
                if !matches!(shape, Shape::Nowhere) {
                    cursor.write_as(formats)?;
                }
                Work::Rest(cursor)
            }
        };
        match self.execute(work, shape, count.unwrap_or(0), &statement.sql, false).await? {
            Outcome::Rows { rows, rest } => {
                if let (Some(cursor), Some(portal)) = (rest, self.portals.get_mut(name)) {
                    portal.state = PortalState::Suspended(cursor);
                }
                Ok(rows)
            }
            Outcome::Done { rows, .. } => Ok(rows),
        }
    }

    /// Closes a cursor, or all of them.
    ///
    /// # Errors
    /// 34000 for one that is not there.
    pub fn close(&mut self, name: Option<&str>) -> Result<Outcome> {
        let tag = match name {
            Some(name) => {
                self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
                "CLOSE CURSOR"
            }
            None => {
                self.portals.clear();
                "CLOSE CURSOR ALL"
            }
        };
        Ok(Outcome::Done { tag: tag.into(), rows: 0 })
    }

    /// What FETCH gives is what its cursor gives.
    pub fn describe_fetch(&self, prepared: &mut Prepared) -> Result<()> {
        let Some(parsed) = &prepared.statement else { return Ok(()) };
        if let Command::Fetch { name, .. } = parsed.command()? {
            let portal = self.portals.get(&name).ok_or_else(|| no_cursor(&name))?;
            prepared.schema = portal.statement.prepared.schema.clone();
        }
        Ok(())
    }
}

fn no_cursor(name: &str) -> Failure {
    Failure::new("34000", format!("cursor {name:?} does not exist"))
}
