//! Texts that are new but for their literals: the statement that their shape was compiled to runs, with these as values.
//! Neither parser nor compiler has anything to do then. Of queries that take a plan, one is kept for all whole numbers
//! that columns are compared with.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use saki_base::memory::{Pool, Reservation};
use saki_sql::{LiteralKind, Parsed, Prepared, ScalarValue, Session, Shape, kept_weight};

use crate::connection::statement::watched;
use crate::connection::{Connection, work};
use crate::failure::Result;
use crate::message::formats;
use crate::types::{Format, decode};

/// Shapes that a connection knows at most.
const SHAPES_MAX: usize = 128;

/// How often a shape goes the ordinary way before it is looked at again.
const ORDINARY_TIMES: u32 = 64;

/// What a connection knows of the shapes of its texts.
#[derive(Default)]
pub struct Shapes {
    compiled: Kept,
    /// By their keys alone ([`Shape::of_keys`]).
    planned: Kept,
}

type Kept = HashMap<(String, Vec<LiteralKind>), Known>;

/// What is known of one.
enum Known {
    /// It has come once: it is prepared when it comes again.
    Seen,
    Prepared {
        prepared: Arc<Prepared>,
        /// Given back with it.
        _held: Reservation,
    },
    /// It takes a plan, or does not mean the same; so many more times that is taken for granted.
    Ordinary(u32),
}

/// What came of a text.
pub enum Shaped {
    Done,
    /// It has to go the ordinary way; whether the log has it already.
    Ordinary(Option<bool>),
}

impl Shapes {
    /// The compiled statement of a text, and its literals as values.
    fn find(&mut self, sql: &str, session: &Session, memory: &Arc<Pool>) -> Option<(Arc<Prepared>, Vec<ScalarValue>)> {
        let shape = Shape::of(sql)?;
        let prepared = match look(&mut self.compiled, &shape) {
            Looked::Prepared(prepared) if session.still_compiles(&prepared) => prepared,
            Looked::Ordinary => return None,
            Looked::Prepared(_) | Looked::Again => {
                keep(&mut self.compiled, &shape, session.prepare_shape(sql, &shape), memory)?
            }
        };
        let values = values_of(&shape, &prepared, session)?;
        Some((prepared, values))
    }

    /// A text had to go the ordinary way after all: its table has changed, or its rows are too many.
    fn leave(&mut self, sql: &str) {
        if let Some(shape) = Shape::of(sql) {
            self.compiled.insert((shape.text, shape.kinds), Known::Ordinary(ORDINARY_TIMES));
        }
    }
}

/// What is to be done with a shape.
enum Looked {
    Prepared(Arc<Prepared>),
    /// It came before, and is to be prepared.
    Again,
    Ordinary,
}

fn look(known: &mut Kept, shape: &Shape) -> Looked {
    if known.len() >= SHAPES_MAX {
        known.clear();
    }
    let key = (shape.text.clone(), shape.kinds.clone());
    let next = match known.get(&key) {
        Some(Known::Prepared { prepared, .. }) => return Looked::Prepared(Arc::clone(prepared)),
        Some(Known::Seen) => return Looked::Again,
        Some(Known::Ordinary(left)) => left.checked_sub(1).map_or(Known::Seen, Known::Ordinary),
        None => Known::Seen,
    };
    known.insert(key, next);
    Looked::Ordinary
}

/// Keeps what was prepared of a shape, or that nothing was.
fn keep(known: &mut Kept, shape: &Shape, prepared: Option<Prepared>, memory: &Arc<Pool>) -> Option<Arc<Prepared>> {
    let key = (shape.text.clone(), shape.kinds.clone());
    let Some(prepared) = prepared.map(Arc::new) else {
        known.insert(key, Known::Ordinary(ORDINARY_TIMES));
        return None;
    };
    // Without memory it is read each time, as it would be if nothing were kept.
    let _held = memory.reserve(kept_weight(&shape.text)).ok()?;
    known.insert(key, Known::Prepared { prepared: Arc::clone(&prepared), _held });
    Some(prepared)
}

/// The literals as values; `None` if one is no value of its type, which the ordinary way tells, with its place in the
/// text.
fn values_of(shape: &Shape, prepared: &Prepared, session: &Session) -> Option<Vec<ScalarValue>> {
    let time = session.parameters().time();
    let value = |(data_type, literal): (_, &String)| {
        decode::value(data_type, Format::Text, Some(literal.as_bytes()), &time).ok()
    };
    prepared.parameters.iter().zip(&shape.literals).map(value).collect()
}

impl Connection {
    /// What was prepared of a query's shape, and its literals, if one plan serves many of them.
    ///
    /// # Errors
    /// What stopped it.
    pub async fn kept_shape(
        &mut self,
        parsed: &Parsed,
        sql: &Arc<str>,
    ) -> Result<Option<(Arc<Prepared>, Vec<ScalarValue>)>> {
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
