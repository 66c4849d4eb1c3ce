//! Texts that are new but for their literals: the statement that their shape was compiled to runs, with these as values.
//! Neither parser nor compiler has anything to do then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use saki_sql::{LiteralKind, Prepared, ScalarValue, Session, Shape};

use crate::connection::statement::watched;
use crate::connection::{Connection, work};
use crate::failure::Result;
use crate::message::formats;
use crate::types::{Format, decode};

/// Shapes that a connection knows at most.
const SHAPES_MAX: usize = 256;

/// What a connection knows of the shapes of its texts.
#[derive(Default)]
pub struct Shapes(HashMap<(String, Vec<LiteralKind>), Known>);

/// What is known of one.
enum Known {
    /// It has come once: it is compiled when it comes again.
    Seen,
    Compiled(Arc<Prepared>),
    /// It takes a plan, or does not mean the same.
    Ordinary,
}

/// What came of a text.
pub enum Shaped {
    Done,
    /// It has to go the ordinary way; whether the log has it already.
    Ordinary(Option<bool>),
}

impl Shapes {
    /// The compiled statement of a text, and its literals as values.
    fn find(&mut self, sql: &str, session: &Session) -> Option<(Arc<Prepared>, Vec<ScalarValue>)> {
        let shape = Shape::of(sql)?;
        if self.0.len() >= SHAPES_MAX {
            self.0.clear();
        }
        let key = (shape.text.clone(), shape.kinds.clone());
        let prepared = match self.0.get(&key) {
            Some(Known::Compiled(prepared)) if session.still_compiles(prepared) => Arc::clone(prepared),
            Some(Known::Ordinary) => return None,
            None => {
                self.0.insert(key, Known::Seen);
                return None;
            }
            Some(Known::Seen | Known::Compiled(_)) => match session.prepare_shape(sql, &shape) {
                Some(prepared) => {
                    let prepared = Arc::new(prepared);
                    self.0.insert(key, Known::Compiled(Arc::clone(&prepared)));
                    prepared
                }
                None => {
                    self.0.insert(key, Known::Ordinary);
                    return None;
                }
            },
        };
        let time = session.parameters().time();
        let value = |(data_type, literal): (_, &String)| {
            // What is no value of the type is told by the ordinary way, with its place in the text.
            decode::value(data_type, Format::Text, Some(literal.as_bytes()), &time).ok()
        };
        let values = prepared.parameters.iter().zip(&shape.literals).map(value).collect::<Option<_>>()?;
        Some((prepared, values))
    }
}

impl Connection {
    /// Runs a text by what its shape was compiled to, if it was.
    ///
    /// # Errors
    /// The statement's, or what stopped it.
    pub async fn shaped_query(&mut self, sql: &Arc<str>) -> Result<Shaped> {
        let Some((prepared, values)) = self.shapes.find(sql, &self.session) else { return Ok(Shaped::Ordinary(None)) };
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
            Ok(None) => return Ok(Shaped::Ordinary(Some(is_logged))),
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
