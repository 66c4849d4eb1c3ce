//! PostgreSQL's side of SQL: how its statements are read, what they mean where the planner would take them otherwise,
//! and the system relations through which its clients see a database. It knows nothing of how queries are planned.
//!
//! ```text
//!   text ─► `saki-statement` (ALTER TABLE, COPY, CREATE INDEX …: what the parser reads, as we carry it out)
//!     └───► dialect (names, literals, casts, operators, functions) ─► the planner
//!   catalogue ─► pg_catalog, information_schema, saki.* ─► relations and functions that clients ask
//! ```
//!
//! # Words
//! - *dialect*: what gives statements the meaning they have in PostgreSQL, before and after the planner reads them.
//! - *system view*: a relation of schema `saki` whose rows somebody makes when it is asked.
//!
//! # Invariants
//! - Every system relation has the columns and types of PostgreSQL 15; those that describe what does not exist here are
//!   empty.
//! - Statements that mean the same here and there are left as they were written.
//!
//! # Failure model
//! What cannot be read or is not supported is refused with PostgreSQL's condition, its place in the text, and what to
//! do instead.
#![forbid(unsafe_code)]

mod column_names;
pub mod dialect;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod functions;
pub mod pg_catalog;
#[cfg(test)]
mod statements;

pub use dialect::Operators;
pub use pg_catalog::{
    Backends, PG_COLUMN, PG_MODIFIER, PG_TABLE, PG_TYPE, SessionFacts, SystemCatalog, SystemSchema, SystemView,
    SystemViews,
};
pub use saki_statement as statement;
pub use saki_statement::types;
pub use statement::RelationName;
pub use statement::copy::{Copy, FileFormat, Source};
pub use statement::create_index::NewIndex;
pub use statement::sequence::SequenceOptions;
pub use statement::table::alter_table::{Action, AlterTable};
pub use statement::table::column::{Generated, NewColumn};
pub use statement::table::constraint::{ColumnName, NewConstraint, NewConstraintKind, NewForeignKey};
pub use statement::table::create_table::{COLUMNS_MAX, NewTable, NewTableAs};
pub use statement::table::table_options::TableOptions;
