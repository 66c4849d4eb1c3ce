//! What a statement runs in: the database with the plans kept over it, the session's transaction, the planner that
//! knows the names of the statement's snapshot, and the rules of tables that every change of rows obeys. The statements
//! themselves are in `sql`, each in a module that takes a [`StatementContext`].
//!
//! ```text
//!   StatementContext ─┬─► Database ──► saki_store::Database, PlanCache, SystemViews
//!                     ├─► SessionTransactions ──► a transaction of mvcc, locks of tables, savepoints
//!                     ├─► Planner ──► names: tables of the snapshot, views, system relations
//!                     └─► Settings, sequences, progress, files
//!   constraint: defaults, checks, foreign keys          statement: texts in, results out
//! ```
//!
//! # Words
//! - *statement*: what is carried out as one; it keeps the read view it began with.
//! - *change*: the part of a statement that writes rows: all of it stays, or none.
//!
//! # Invariants
//! - Whoever is no superuser is asked before a statement runs ([`access`]) and where a query is planned (`demands`);
//!   what a statement reads for itself afterwards is not asked again.
//! - A transaction's locks go after its commit is visible.
//! - What a client is told, rows, counts or errors, rests on durable commits ([`SessionTransactions::once_durable`]).
//! - A plan that reads for a serializable transaction is tracked before it runs; otherwise it does not compile.
//!
//! # Failure model
//! A statement that is dropped or fails is undone back to where it began; its transaction has failed then, until
//! ROLLBACK or an earlier savepoint.
#![forbid(unsafe_code)]

pub mod access;
pub mod constraint;
mod context;
pub mod database;
mod demands;
mod feed;
pub mod planner;
pub mod query;
pub mod statement;
pub mod transaction;
pub mod values;
mod view;

pub use context::StatementContext;
pub use feed::feed;
pub use saki_plan::shown_bytes;
