//! What can go wrong, by what the caller may do about it.

use std::fmt;

use saki_base::TableId;
use saki_log::LogError;

use crate::chain::Holder;

/// A row that two transactions write, or the key of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contended {
    pub table: TableId,
    pub key: Box<[u8]>,
}

/// Everything an operation of this crate may fail with.
#[derive(Clone, Debug)]
pub enum Error {
    /// Another transaction changed or is changing the row. Run the transaction again.
    Conflict {
        table: String,
        /// Who is changing it, if it has not ended yet: whom to wait for
        /// ([`Database::when_ended`](crate::Database::when_ended)).
        holder: Option<Holder>,
        row: Contended,
    },
    /// To wait for that transaction would be to wait for oneself: it waits, by way of others perhaps, for the one that
    /// asks. Abort the transaction, and run it again.
    Deadlock,
    /// What a serializable transaction read has changed before it could commit. Run the transaction again.
    Serialization,
    /// The key, or the columns of a unique index, are there already.
    Duplicate {
        table: String,
        index: String,
    },
    /// A handle of a row was used outside the transaction that got it.
    ForeignRow,
    /// The handle's row has been deleted in this transaction.
    NoRow {
        table: String,
    },
    /// A key, or an entry of an index.
    KeyTooLong {
        table: String,
        /// `None`: the primary key.
        index: Option<String>,
        bytes: usize,
        limit: usize,
    },
    RowTooLarge {
        table: String,
        bytes: usize,
        limit: usize,
    },
    /// A body is no row of its table, a key no key of it, or a value not of its column.
    Malformed {
        table: String,
        reason: String,
    },
    /// The log refuses it: full, failed, or the transaction is too large for it.
    Log(LogError),
    /// As many runners, moments and readers are there as the database was opened for.
    TooManyParticipants {
        limit: usize,
    },
    /// A stored procedure panicked; its transaction was aborted.
    Panicked {
        procedure: String,
        message: String,
    },
    /// A stored procedure gave up by itself; its transaction was aborted.
    Procedure {
        message: String,
    },
    /// There is no such table, index or procedure, or there is one of that name already.
    Name {
        message: String,
    },
    /// The catalog or a log cannot be used.
    Open {
        message: String,
    },
    /// The system gives no memory.
    Memory {
        message: String,
    },
}

impl Error {
    /// Whether the same transaction may succeed when it is run again: it has had no effect.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Serialization | Self::Deadlock)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { table, .. } => write!(
                f,
                "could not serialize access due to a concurrent update of a row of \"{table}\"; \
                 run the transaction again"
            ),
            Self::Serialization => f.write_str(
                "could not serialize access: what the transaction read was changed by another; \
                 run the transaction again",
            ),
            Self::Deadlock => {
                f.write_str("deadlock detected: transactions wait for each other's rows; run the transaction again")
            }
            Self::Duplicate { table, index } => {
                write!(f, "duplicate key value violates unique constraint \"{index}\" of table \"{table}\"")
            }
            Self::ForeignRow => f.write_str("a row handle is good only in the transaction that got it"),
            Self::NoRow { table } => write!(f, "the row of \"{table}\" was deleted earlier in this transaction"),
            Self::KeyTooLong { table, index, bytes, limit } => {
                write!(f, "index row size {bytes} exceeds maximum {limit} for ")?;
                match index {
                    Some(index) => write!(f, "index \"{index}\" of table \"{table}\""),
                    None => write!(f, "the primary key of table \"{table}\""),
                }
            }
            Self::RowTooLarge { table, bytes, limit } => {
                write!(f, "a row of table \"{table}\" takes {bytes} bytes; the limit is {limit}")
            }
            Self::Malformed { table, reason } => write!(f, "table \"{table}\": {reason}"),
            Self::Log(error) => error.fmt(f),
            Self::TooManyParticipants { limit } => {
                write!(f, "all {limit} runners, moments and readers are taken; end one, or open the database for more")
            }
            Self::Panicked { procedure, message } => {
                write!(f, "procedure \"{procedure}\" panicked and was aborted: {message}")
            }
            Self::Procedure { message }
            | Self::Name { message }
            | Self::Open { message }
            | Self::Memory { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}
