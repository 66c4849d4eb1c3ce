//! Tables, indexes and what else there is coming and going.
//!
//! ```text
//!   statement ─► plain change of a catalog (constraint, column, alter, …)
//!                  ├─ tried on the snapshot's catalog: what it asks of rows is checked by queries (validate)
//!                  └─ made on the writer's catalog, with trees built or given back: in one publication, or within a
//!                     transaction on the catalog that is its own until it commits (`saki_store::Draft`)
//! ```

mod alter;
mod comment;
mod create;
mod dependents;
mod drop;
mod lock_table;
mod names;
mod rename;
mod schema;
mod trees;
mod truncate;
mod upkeep;

pub use alter::{alter_index, alter_table};
pub use comment::comment;
pub use create::{create_external_table, create_index, create_sequence, create_table, create_view};
pub use drop::{drop_index_concurrently, drop_objects};
pub use lock_table::lock_table;
pub use schema::create_schema;
pub use truncate::truncate;
pub use upkeep::{DeviceCall, analyze, backup, backup_target, change_devices, checkpoint, vacuum};
