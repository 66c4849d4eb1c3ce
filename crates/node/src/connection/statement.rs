//! What a client has prepared: statements, and portals that run them with values.

use std::sync::Arc;

use saki_base::memory::{Pool, Reservation};
use saki_sql::{Prepared, ScalarValue, SqlError};

use super::work::Cursor;
use crate::failure::Result;
use crate::types::{Format, named_oid, wire_type};

/// A prepared statement.
pub struct Statement {
    pub sql: Arc<str>,
    pub prepared: Arc<Prepared>,
    /// Types of parameters, as the client stated or is told them.
    pub oids: Vec<u32>,
    pub verb: &'static str,
    /// Given back with it.
    _held: Reservation,
}

impl Statement {
    /// What a prepared statement takes, however short it is.
    const BYTES: usize = 8 << 10;
    /// And for each byte of its text: the text, and the tree that is made of it.
    const COPIES: usize = 16;

    /// # Errors
    /// 53200 if the server has no memory for it.
    pub fn new(sql: &str, prepared: Prepared, stated: &[u32], memory: &Arc<Pool>) -> Result<Self> {
        let held = memory.reserve(Self::BYTES + sql.len() * Self::COPIES).map_err(SqlError::from)?;
        let oid = |(index, found): (usize, &arrow_schema::DataType)| match stated.get(index) {
            Some(oid) if crate::types::arrow_type(*oid).is_some() => *oid,
            _ => prepared.names_of_types.get(&index).map_or_else(|| wire_type(found).oid, |name| named_oid(name)),
        };
        let oids = prepared.parameters.iter().enumerate().map(oid).collect();
        let verb = prepared.statement.as_ref().map_or("", saki_sql::Parsed::verb);
        Ok(Self { sql: sql.into(), prepared: Arc::new(prepared), oids, verb, _held: held })
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
    /// It outlives its transaction.
    pub hold: bool,
}

pub enum PortalState {
    New,
    Suspended(Box<Cursor>),
    Finished,
}
