//! Taking rows out of memory that are in the base.

use super::Database;
use crate::error::Error;
use crate::runner::Released;
use crate::table::Table;

impl Database {
    /// Takes the rows of a table over a base out of memory whose newest versions, bodies and deletes alike, were
    /// committed at or before `through`: they are in the base. In slices, so that transactions go on meanwhile, also
    /// those that have read such a row. Rows that are being written stay, and so do those whose indexed columns were
    /// changed just now. Of a table that is not over a base nothing goes.
    ///
    /// The caller promises that nobody, now and later, looks into this table with a snapshot before `through`.
    ///
    /// # Errors
    /// `TooManyParticipants`: it takes one while it lasts.
    ///
    /// # Panics
    /// If the table is another database's.
    pub fn release(&self, table: &Table, through: u64) -> Result<Released, Error> {
        assert!(
            table.inner().instance == self.shared().instance,
            "a table is good only in the database it was got from"
        );
        let mut released = Released::default();
        if !table.is_over_base() || table.is_dropped() {
            return Ok(released);
        }
        let mut runner = self.runner()?;
        let mut after = None;
        loop {
            let is_over = runner.pinned(|runner| runner.release_some(table, through, &mut after, &mut released));
            if is_over {
                return Ok(released);
            }
        }
    }

    /// Whether a commit later than `timestamp` has changed the table. Waits for those that have a timestamp and are not
    /// visible yet.
    pub fn changed_since(&self, table: &Table, timestamp: u64) -> bool {
        self.shared().epochs.wait_for_commits();
        table.inner().counters.last_commit() > timestamp
    }
}
