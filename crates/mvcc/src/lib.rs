//! Rows in memory: version chains, ordered indexes, transactions with speculative commit, workers.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

#[allow(unsafe_code)]
mod arena;
mod catalog;
#[allow(unsafe_code)]
mod chain;
mod database;
#[allow(unsafe_code)]
pub mod epoch;
mod error;
#[allow(unsafe_code)]
pub mod index;
#[allow(unsafe_code)]
pub mod placement;
#[allow(unsafe_code)]
mod prefetch;
mod procedure;
#[allow(unsafe_code)]
mod reclaim;
pub mod record;
#[allow(unsafe_code)]
mod recovery;
mod session;
mod sync;
#[allow(unsafe_code)]
mod table;
#[allow(unsafe_code)]
mod transaction;

pub use catalog::Catalog;
#[doc(hidden)]
pub use database::Sabotage;
pub use database::{Database, Options};
pub use error::Error;
pub use index::KEY_BYTES_MAX;
pub use procedure::{Call, Procedure, Workers};
pub use saki_log::{LogError, LogStatistics, Progress, RecoveryReport};
pub use session::Session;
pub use table::{BODY_BYTES_MAX, IndexDefinition, IndexId, Table, TableDefinition};
pub use transaction::{Direction, Durability, Found, Isolation, KeyRange, Receipt, RowId, Savepoint, Transaction};
