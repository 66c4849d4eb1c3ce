//! PostgreSQL's side of SQL: how its statements are read, and what they mean where the planner would take them
//! otherwise. It knows nothing of how queries are planned.
//!
//! ```text
//!   text ─► `saki-statement` (ALTER TABLE, COPY, CREATE INDEX …: what the parser reads, as we carry it out)
//!     └───► dialect (names, literals, casts, operators, functions) ─► the planner
//!              └─► rewrite (what is said of `saki-system`, whose relations clients ask) ─► the planner
//! ```
//!
//! # Words
//! - *dialect*: what gives statements the meaning they have in PostgreSQL, before and after the planner reads them.
//!
//! # Invariants
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
pub mod rewrite;
#[cfg(test)]
mod statements;
#[cfg(test)]
mod system;

pub use dialect::Operators;
pub use rewrite::TypeNames;
pub use saki_statement as statement;
pub use saki_statement::types;
pub use statement::RelationName;
pub use statement::copy::{Copy, FileContent, FileFormat, Source};
pub use statement::create_index::NewIndex;
pub use statement::sequence::SequenceOptions;
pub use statement::table::alter_table::{Action, AlterTable};
pub use statement::table::column::{Generated, NewColumn};
pub use statement::table::constraint::{ColumnName, NewConstraint, NewConstraintKind, NewForeignKey};
pub use statement::table::create_table::{COLUMNS_MAX, NewTable, NewTableAs};
pub use statement::table::table_options::TableOptions;
