//! Texts that are new but for their literals: what their shapes were compiled to. Of queries that take a plan, one is
//! kept for all whole numbers that columns are compared with.

use std::collections::HashMap;
use std::sync::Arc;

use saki_base::memory::{Pool, Reservation};
use saki_sql::{LiteralKind, Prepared, ScalarValue, Session, Shape, kept_weight};

use crate::types::{Format, decode};

/// A prepared shape, and a text's literals as its values.
pub type Filled = (Arc<Prepared>, Vec<ScalarValue>);

/// Shapes that a connection knows at most.
const SHAPES_MAX: usize = 128;

/// How often a shape goes the ordinary way before it is looked at again.
const ORDINARY_TIMES: u32 = 64;

/// What a connection knows of the shapes of its texts.
#[derive(Default)]
pub struct Shapes {
    pub compiled: Kept,
    /// By their keys alone ([`Shape::of_keys`]).
    pub planned: Kept,
}

pub type Kept = HashMap<(String, Vec<LiteralKind>), Known>;

/// What is known of one.
pub enum Known {
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

impl Shapes {
    /// The compiled statement of a text, and its literals as values.
    pub fn find(&mut self, sql: &str, session: &Session, memory: &Arc<Pool>) -> Option<Filled> {
        let whole = Shape::of(sql)?;
        let found = self.find_shape(sql, &whole, session, memory);
        found.or_else(|| {
            let condition = Shape::of_condition(sql).filter(|condition| condition.text != whole.text)?;
            self.find_shape(sql, &condition, session, memory)
        })
    }

    fn find_shape(&mut self, sql: &str, shape: &Shape, session: &Session, memory: &Arc<Pool>) -> Option<Filled> {
        let prepared = match look(&mut self.compiled, shape) {
            Looked::Prepared(prepared) if session.still_compiles(&prepared) => prepared,
            Looked::Ordinary => return None,
            Looked::Prepared(_) | Looked::Again => {
                keep(&mut self.compiled, shape, session.prepare_shape(sql, shape), memory)?
            }
        };
        let values = values_of(shape, &prepared, session)?;
        Some((prepared, values))
    }

    /// A text had to go the ordinary way after all: its table has changed, or its rows are too many.
    pub fn leave(&mut self, sql: &str) {
        for shape in [Shape::of(sql), Shape::of_condition(sql)].into_iter().flatten() {
            self.compiled.insert((shape.text, shape.kinds), Known::Ordinary(ORDINARY_TIMES));
        }
    }
}

/// What is to be done with a shape.
pub enum Looked {
    Prepared(Arc<Prepared>),
    /// It came before, and is to be prepared.
    Again,
    Ordinary,
}

pub fn look(known: &mut Kept, shape: &Shape) -> Looked {
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
pub fn keep(known: &mut Kept, shape: &Shape, prepared: Option<Prepared>, memory: &Arc<Pool>) -> Option<Arc<Prepared>> {
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
pub fn values_of(shape: &Shape, prepared: &Prepared, session: &Session) -> Option<Vec<ScalarValue>> {
    let time = session.parameters().time();
    let value = |(data_type, literal): (_, &String)| {
        // Labels may have come, or have other names, since the shape was read.
        let data_type = session.current_type(data_type);
        decode::value(&data_type, Format::Text, Some(literal.as_bytes()), &time).ok()
    };
    prepared.parameters.iter().zip(&shape.literals).map(value).collect()
}
