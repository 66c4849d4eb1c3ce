//! Runs texts that are new but for their literals by what is kept of their shapes: neither parser nor compiler has
//! anything to do then.

use std::sync::Arc;
use std::time::Instant;

use saki_sql::{Parsed, Shape};

use crate::connection::statement::shapes::{Filled, Looked, keep, look, values_of};
use crate::connection::statement::watched;
use crate::connection::{Connection, work};
use crate::failure::Result;
use crate::message::formats;

/// What came of a text.
pub enum Shaped {
    Done,
    /// It has to go the ordinary way; whether the log has it already.
    Ordinary(Option<bool>),
}

impl Connection {
    /// What was prepared of a query's shape, and its literals, if one plan serves many of them.
    ///
    /// # Errors
    /// What stopped it.
    pub async fn kept_shape(&mut self, parsed: &Parsed, sql: &Arc<str>) -> Result<Option<Filled>> {
        let Some(shape) = Some(sql).filter(|_| parsed.verb() == "SELECT").and_then(|sql| Shape::of_keys(sql)) else {
            return Ok(None);
        };
        let prepared = match look(&mut self.shapes.planned, &shape) {
            Looked::Prepared(prepared) if self.session.is_current(&prepared) => Some(prepared),
            Looked::Ordinary => None,
            Looked::Prepared(_) | Looked::Again => {
                let (session, text, asked) = (Arc::clone(&self.session), Arc::clone(sql), shape.clone());
                let preparing = self.spawn(async move { session.prepare_keys(&text, &asked).await });
                let prepared = self.supervise(preparing).await?;
                keep(&mut self.shapes.planned, &shape, prepared, &self.shared.database.memory)
            }
        };
        let Some(prepared) = prepared else { return Ok(None) };
        Ok(values_of(&shape, &prepared, &self.session).map(|values| (prepared, values)))
    }

    /// Runs a text by what its shape was compiled to, if it was.
    ///
    /// # Errors
    /// The statement's, or what stopped it.
    pub async fn shaped_query(&mut self, sql: &Arc<str>) -> Result<Shaped> {
        let Some((prepared, values)) = self.shapes.find(sql, &self.session, &self.shared.database.memory) else {
            return Ok(Shaped::Ordinary(None));
        };
        let (Some(plan), Some(parsed)) = (&prepared.fast, &prepared.statement) else {
            return Ok(Shaped::Ordinary(None));
        };
        if plan.is_long(&values) {
            return Ok(Shaped::Ordinary(None));
        }
        let (verb, began) = (parsed.verb(), Instant::now());
        let is_logged = self.begin(sql, &watched(sql), |this| this.logged_by(parsed));
        let begun = self.writer.buffer.len();
        if let Some(schema) = &prepared.schema {
            let formats = formats::of_columns(&[], schema.fields().len())?;
            work::describe(schema, &formats, &mut self.writer.buffer);
        }
        let done = self.execute_fast(plan, &values, &[], sql).await;
        if !matches!(done, Ok(Some(_))) {
            self.writer.buffer.truncate(begun);
        }
        let result = match done {
            Ok(None) => {
                self.shapes.leave(sql);
                return Ok(Shaped::Ordinary(Some(is_logged)));
            }
            Ok(Some(outcome)) => Ok(outcome),
            Err(failure) => Err(failure),
        };
        self.count(verb, began, &result);
        let outcome = result?;
        self.end_together().await?;
        work::complete(&mut self.writer.buffer, verb, &outcome);
        self.log_duration(sql, began, is_logged);
        Ok(Shaped::Done)
    }
}
