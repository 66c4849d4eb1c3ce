//! The database as PostgreSQL's clients look at it: `pg_catalog`, `information_schema`, the functions about them, and
//! the system views of schema `saki`.
//!
//! ```text
//!   catalog ─ source ─► objects ─► contents ─► SystemSchema (rows, made when a query names a relation)
//!                          └─────► functions (pg_get_indexdef, format_type, regclass…)
//!   statement ─► rewrite (text that the planner does not know) ─► plan ─► nested_loops (correlated subqueries)
//! ```
//!
//! # Invariants
//! - Every relation has the columns and types of PostgreSQL 15; those that describe what there is not are empty.
//! - Oids are made of ids that never change, so an object keeps its own.
//! - Functions answer from the newest snapshot, as PostgreSQL's do, whatever snapshot a query reads.
//! - Statements that name nothing of this are planned as if this module were not there.

mod contents;
mod definition;
mod describe;
mod functions;
mod objects;
mod rewrite;
mod rows;
mod schema;
mod session;
mod system;
pub mod types;
mod views;

pub use self::definition::{PG_COLUMN, PG_MODIFIER, PG_TABLE, PG_TYPE, is_letter};
pub use self::objects::relation_oid;
pub use self::rewrite::{TypeNames, array_elements, array_literal, is_type, rewrite};
pub use self::schema::SystemSchema;
pub use self::session::SessionFacts;
pub use self::system::{SYSTEM_SCHEMAS, SystemCatalog};
pub use self::types::{name_of as type_name, type_of};
pub use self::views::{Backends, SystemView, SystemViews};

/// Whether a name without a schema is that of a relation of `pg_catalog`.
pub fn is_system_relation(name: &str) -> bool {
    definition::find("pg_catalog", name).is_some()
}
