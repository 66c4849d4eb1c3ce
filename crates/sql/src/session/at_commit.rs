//! What a session does when a transaction commits.

use saki_base::TableId;

/// What is done with a temporary table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtCommit {
    pub table: TableId,
    /// It goes; else its rows do.
    pub is_dropped: bool,
}
