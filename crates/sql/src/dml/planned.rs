//! A change that has been planned: its rows are found, what RETURNING says of them is worked out, and nothing is
//! written.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::change::Work;
use super::rows::see_to;
use saki_catalog::{Result, Table};
use saki_context::constraint::ActionRules;
use saki_context::statement::StatementResult;
use saki_context::transaction::{Change, Refusal};
use saki_store::Entry;

/// Writes the rows of a change.
type Write = dyn FnOnce(&mut Change<'_, '_>) -> Result<Written, Refusal> + Send;

/// What a statement is about to do with rows of one table.
pub struct PlannedChange {
    /// The command's name.
    pub tag: &'static str,
    /// What RETURNING says.
    pub returned: Option<RecordBatch>,
    /// Writes the rows.
    pub write: Box<Write>,
}

/// What was written; foreign keys have not been seen to.
pub struct Written {
    pub table: Arc<Table>,
    /// How many rows the statement concerned.
    pub rows: usize,
    /// Rows as they were, and as they are. Of a table without foreign keys new rows may be left out.
    pub pairs: Vec<(Option<Entry>, Option<Entry>)>,
    /// What becomes of rows that refer to what was changed.
    pub rules: ActionRules,
}

impl Written {
    /// Sees to the foreign keys.
    ///
    /// # Errors
    /// As [`see_to`].
    pub fn see_to(&self, change: &mut Change<'_, '_>) -> Result<(), Refusal> {
        let mut pairs = self.pairs.iter().map(|(old, new)| (old.as_ref(), new.as_ref()));
        see_to(change, &self.table, &self.rules, &mut pairs)
    }
}

impl PlannedChange {
    /// All there is to do for a statement that is nothing but this change.
    pub fn into_work(self) -> Work {
        Box::new(move |change: &mut Change<'_, '_>| {
            let written = (self.write)(change)?;
            written.see_to(change)?;
            Ok(answer(self.tag, written.rows, self.returned))
        })
    }
}

/// What a statement answers: a count, or what RETURNING said as well.
pub fn answer(tag: &str, rows: usize, returned: Option<RecordBatch>) -> StatementResult {
    match returned {
        None => StatementResult::done(tag, rows as u64),
        Some(batch) => StatementResult::returning(tag, rows as u64, batch),
    }
}
