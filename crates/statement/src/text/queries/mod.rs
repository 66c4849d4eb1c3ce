//! Words of queries that the parser does not know, written as those that it does.

pub mod isnull;
pub mod key_locks;
pub mod numbers;
pub mod signs;
pub mod tables;
