//! What can end an execution before its last row.

use std::fmt;

use saki_columns::ColumnsError;
use saki_page::{PageError, StoreError};
use saki_vector::VectorError;

#[derive(Clone, Debug)]
pub enum ExecError {
    /// A page of `tree` could not be had.
    Page { tree: String, error: PageError },
    /// A page of `tree` has the right checksum and the wrong content: a bug, or a forged file.
    Malformed { tree: String, page: u64, reason: String },
    /// A column of a segment could not be had.
    Segment { table: String, segment: usize, column: String, error: Box<ColumnsError> },
    /// A value that SQL has an error for.
    Vector(VectorError),
    /// A filter supplied by the planner failed (a division by zero, say).
    Filter(String),
    /// No lane could be opened for a reactor.
    Lane(StoreError),
    /// A thread could not be started.
    Thread(String),
    /// An input batch does not have the types that the pipeline was planned for.
    Input(String),
    /// The execution was cancelled, or the executor is shutting down.
    Cancelled,
    /// What lies over a tree or over segments could not be read.
    Overlay(String),
    /// A broken invariant of ours; the execution ends, the process goes on.
    Internal(String),
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page { tree, error } => write!(f, "{tree}: {error}"),
            Self::Malformed { tree, page, reason } => {
                write!(f, "{tree}: page {page} is malformed: {reason}; run `saki check`")
            }
            Self::Segment { table, segment, column, error } => {
                write!(f, "{table}: column {column} of segment {segment}: {error}")
            }
            Self::Vector(error) => error.fmt(f),
            Self::Filter(reason) => f.write_str(reason),
            Self::Lane(error) => write!(f, "cannot open a lane to the storage: {error}"),
            Self::Thread(reason) => write!(f, "cannot start a reactor: {reason}"),
            Self::Input(reason) => write!(f, "input of a pipeline: {reason}"),
            Self::Cancelled => f.write_str("query cancelled"),
            Self::Overlay(reason) => write!(f, "rows newer than the published ones: {reason}"),
            Self::Internal(reason) => write!(f, "internal error in execution: {reason}; please report it"),
        }
    }
}

impl std::error::Error for ExecError {}
