//! The database as PostgreSQL's clients look at it: `pg_catalog`, `information_schema`, the functions about them, and
//! the system views of schema `saki`.
//!
//! ```text
//!   catalog ─ source ─► objects ─► contents ─► SystemSchema (rows, made when a query names a relation)
//!                          └─────► functions (pg_get_indexdef, format_type, regclass…)
//! ```
//!
//! # Words
//! - *system relation*: one of `pg_catalog`, `information_schema` or `saki`. Its rows are made when it is asked.
//! - *system view*: a relation of schema `saki` whose rows somebody above makes.
//!
//! # Invariants
//! - Every relation has the columns and types of PostgreSQL 15; those that describe what there is not are empty.
//! - Oids are made of ids that never change, so an object keeps its own.
//! - Functions answer from the newest snapshot, as PostgreSQL's do, whatever snapshot a query reads.
//!
//! # Failure model
//! A function that is asked about what is not there gives NULL or PostgreSQL's condition, as PostgreSQL's does.
#![forbid(unsafe_code)]

mod contents;
pub mod definition;
mod describe;
pub mod functions;
mod objects;
mod rows;
mod schema;
mod session;
mod system;
pub mod types;
mod views;

pub use self::definition::{PG_COLUMN, PG_MODIFIER, PG_TABLE, PG_TYPE, is_letter};
pub use self::objects::relation_oid;
pub use self::schema::SystemSchema;
pub use self::session::SessionFacts;
pub use self::system::{SYSTEM_SCHEMAS, SystemCatalog};
pub use self::types::{name_of as type_name, type_of};
pub use self::views::{Backends, SystemView, SystemViews};

/// Whether a name without a schema is that of a relation of `pg_catalog`.
pub fn is_system_relation(name: &str) -> bool {
    definition::find("pg_catalog", name).is_some()
}
