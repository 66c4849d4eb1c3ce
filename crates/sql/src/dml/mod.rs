//! Statements that change rows: INSERT, UPDATE, DELETE and TRUNCATE inside of a transaction.
//!
//! ```text
//!   statement ─► query: which rows, and what becomes of them ─► batches ─► entries ─► RowWriter ─► delta
//!                (planned and run like any other, in the                               keys and unique indexes are
//!                 statement's own snapshot)                                            looked up in delta and base
//! ```
//!
//! All rows are found before any is changed, so that a statement never meets its own changes. What RETURNING says is worked out
//! on the new rows before they are written; if another transaction gets in the way, all of it is done again.

mod conflict;
mod copy;
mod delete;
mod finder;
mod insert;
mod lock;
mod query;
mod references;
mod returning;
mod search;
mod update;
mod writer;

use arrow_array::RecordBatch;

use crate::error::Result;
use crate::session::StatementResult;

pub(crate) use finder::Finder;
pub(crate) use query::StandIns;
pub(crate) use writer::RowWriter;

/// What a statement answers: a count, or what RETURNING said as well.
fn answer(tag: &str, rows: usize, returned: Option<RecordBatch>) -> Result<StatementResult> {
    Ok(match returned {
        None => StatementResult::done(tag, rows as u64),
        Some(batch) => StatementResult::returning(tag, rows as u64, batch),
    })
}
