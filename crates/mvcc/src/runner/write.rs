//! One write of a transaction.

use std::ptr::NonNull;

use crate::chain::{Row, Version};
use crate::table::NumberedEntry;

/// One version that the transaction has made.
pub(crate) struct Write {
    pub row: NonNull<Row>,
    pub version: NonNull<Version>,
    /// The newest version before, its own or a committed one; `None` for a new row.
    pub before: Option<NonNull<Version>>,
    /// The newest committed version and when it began: what the log's patch is against.
    pub base: Option<(NonNull<Version>, u64)>,
    pub table: u32,
    /// What it did to secondary indexes, where it did anything.
    pub entries: Option<Box<Entries>>,
}

/// Entries of secondary indexes, each with the number of its index.
#[derive(Default)]
pub(crate) struct Entries {
    /// No longer right after a commit.
    pub stale: Vec<NumberedEntry>,
    /// Made for this version, wrong after an abort.
    pub made: Vec<NumberedEntry>,
}
