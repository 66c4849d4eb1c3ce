//! What a client has prepared: statements, and portals that run them with values.

pub mod shapes;

use std::sync::Arc;

use saki_base::memory::{Pool, Reservation};
use saki_sql::{Prepared, ScalarValue, SqlError, kept_weight, without_passwords};

use super::work::Cursor;
use crate::failure::Result;
use crate::types::{Format, named_oid, wire_type};

/// A text for those who watch what others do.
pub fn watched(sql: &Arc<str>) -> Arc<str> {
    without_passwords(sql).map_or_else(|| Arc::clone(sql), Arc::from)
}

/// A prepared statement.
pub struct Statement {
    pub sql: Arc<str>,
    /// The same for those who watch.
    pub watched: Arc<str>,
    pub prepared: Arc<Prepared>,
    /// Types of parameters, as the client stated or is told them.
    pub oids: Vec<u32>,
    pub verb: &'static str,
    /// Given back with it.
    _held: Reservation,
}

impl Statement {
    /// # Errors
    /// 53200 if the server has no memory for it.
    pub fn new(sql: &str, prepared: Prepared, stated: &[u32], memory: &Arc<Pool>) -> Result<Self> {
        let held = memory.reserve(kept_weight(sql)).map_err(SqlError::from)?;
        let oid = |(index, found): (usize, &arrow_schema::DataType)| match stated.get(index) {
            Some(oid) if crate::types::arrow_type(*oid).is_some() => *oid,
            _ => prepared.names_of_types.get(&index).map_or_else(|| wire_type(found).oid, |name| named_oid(name)),
        };
        let oids = prepared.parameters.iter().enumerate().map(oid).collect();
        let verb = prepared.statement.as_ref().map_or("", saki_sql::Parsed::verb);
        let sql = Arc::<str>::from(sql);
        Ok(Self { watched: watched(&sql), sql, prepared: Arc::new(prepared), oids, verb, _held: held })
    }

    /// Whether it is about the transaction itself.
    pub fn is_transaction(&self) -> bool {
        self.prepared.statement.as_ref().is_some_and(saki_sql::Parsed::is_transaction)
    }
}

/// A statement with its values.
pub struct Portal {
    pub statement: Arc<Statement>,
    pub values: Vec<ScalarValue>,
    pub formats: Vec<Format>,
    pub state: PortalState,
    /// It outlives its transaction, once that has committed.
    pub hold: bool,
    /// That has committed.
    pub kept: bool,
    /// Memory of its values, given back with it; `None` of what is soon gone and small.
    _held: Option<Reservation>,
}

impl Portal {
    /// What a portal takes, however few values it has.
    const BYTES: usize = 1 << 10;
    /// Values of the unnamed portal that are not counted: the next statement takes its place.
    const SMALL_BYTES: usize = 16 << 10;

    /// One that the client has bound.
    pub fn bound(
        statement: Arc<Statement>,
        values: Vec<ScalarValue>,
        formats: Vec<Format>,
        held: Option<Reservation>,
    ) -> Self {
        Self { statement, values, formats, state: PortalState::New, hold: false, kept: false, _held: held }
    }

    /// One of a cursor that has been declared.
    pub fn declared(statement: Arc<Statement>, cursor: Box<Cursor>, hold: bool, kept: bool) -> Self {
        let (values, formats) = Default::default();
        Self { statement, values, formats, state: PortalState::Suspended(cursor), hold, kept, _held: None }
    }

    /// Whether it may give rows yet, or, as in PostgreSQL, has given them and is there still.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, PortalState::Finished) || self.statement.prepared.schema.is_some()
    }

    /// Memory for the values of a portal, of which the client has sent so many bytes.
    ///
    /// # Errors
    /// 53200 if the server has not so much.
    pub fn room_for(name: &str, bytes: usize, memory: &Arc<Pool>) -> Result<Option<Reservation>> {
        if name.is_empty() && bytes <= Self::SMALL_BYTES {
            return Ok(None);
        }
        Ok(Some(memory.reserve(Self::BYTES + bytes).map_err(SqlError::from)?))
    }

    /// The same once the values are read, which may be larger than what was sent.
    ///
    /// # Errors
    /// 53200 if the server has not so much.
    pub fn grow_to(held: &mut Option<Reservation>, values: &[ScalarValue]) -> Result<()> {
        let Some(held) = held else { return Ok(()) };
        let bytes: usize = values.iter().map(ScalarValue::size).sum();
        Ok(held.grow((Self::BYTES + bytes).saturating_sub(held.bytes())).map_err(SqlError::from)?)
    }
}

pub enum PortalState {
    New,
    Suspended(Box<Cursor>),
    Finished,
}
