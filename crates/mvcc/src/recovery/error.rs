//! Why a log cannot be replayed.

use std::fmt;

use crate::record::{Change, MalformedRecord};

/// Why a record cannot be applied.
#[derive(Debug)]
pub(super) enum ReplayError {
    Malformed(MalformedRecord),
    NoTable(u32),
    /// A key or a body that no row has.
    TooLong {
        table: u32,
        what: &'static str,
        bytes: usize,
        limit: usize,
    },
    /// A patch that does not fit the version it is against.
    Misfit {
        table: u32,
        timestamp: u64,
    },
    Memory(std::io::Error),
}

impl ReplayError {
    pub(super) fn misfit(change: &Change<'_>, timestamp: u64) -> Self {
        Self::Misfit { table: change.table, timestamp }
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::NoTable(id) => write!(f, "it changes table {id}, which the catalog does not have"),
            Self::TooLong { table, what, bytes, limit } => {
                write!(f, "it has a {what} of table {table} of {bytes} bytes; the limit is {limit}")
            }
            Self::Misfit { table, timestamp } => {
                write!(f, "the record of timestamp {timestamp} patches a row of table {table} that is not as it says")
            }
            Self::Memory(error) => write!(f, "the system gives no memory for its rows: {error}"),
        }
    }
}

impl std::error::Error for ReplayError {}
