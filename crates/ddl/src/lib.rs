//! Statements that define something: tables, indexes, views, sequences, types and schemas that come, go and change, and
//! what keeps them in order, from ANALYZE to backups.
//!
//! ```text
//!   statement ─► plain change of a catalog (constraint, column, alter, …)
//!                  ├─ tried on the snapshot's catalog: what it asks of rows is checked by queries (validate)
//!                  └─ made on the writer's catalog, with trees built or given back: in one publication, or within a
//!                     transaction on the catalog that is its own until it commits (`saki_store::Draft`)
//! ```
//!
//! # Words
//! - *catalog*: what there is, and how it looks; it is data like rows, and a statement changes a copy of it.
//! - *dependent*: what cannot be without something else, as a view without its table.
//!
//! # Invariants
//! - What a statement finds out before it has its locks it finds out again when it has them.
//! - New trees and segments lie in fresh chunks until the catalog that names them is published.
//!
//! # Failure model
//! A statement that fails, or is told to stop, leaves the catalog as it was. An error says what, where in the text, and
//! what to do.
#![forbid(unsafe_code)]

mod alter;
mod comment;
mod create;
mod dependents;
mod drop;
mod index;
mod lock_table;
mod names;
mod rename;
mod schema;
mod trees;
mod truncate;
mod upkeep;

pub use alter::{alter_index, alter_table, alter_type};
pub use comment::comment;
pub use create::{create_external_table, create_sequence, create_table, create_type, create_view};
pub use drop::{drop_index_concurrently, drop_objects, sweep_temporary};
pub use index::create_index;
pub use lock_table::lock_table;
pub use names::quoted_relation;
pub use schema::create_schema;
pub use truncate::truncate;
pub use upkeep::{DeviceCall, analyze, backup, backup_target, change_devices, checkpoint, vacuum};
