//! SQL over out-of-order pipelines: the catalog, the statements, and the plans that turn a query
//! into page visits. DataFusion parses, plans and runs the relational work above the pipelines;
//! this crate and those above it are the only ones that name it.
//!
//! ```text
//!   text ─► statement ─┬─► ours: ddl, data (INSERT, COPY, ANALYZE), settings
//!                      └─► query ─► join_order ─► provider ─► index_join ─► PipelineExec
//!                                   (logical)     path: which tree   fuse    │ chain, lowered
//!                                                 of a table?                ▼
//!   catalog ◄─ snapshot ◄─ database ──► volume, cache             executor: page visits
//! ```
//!
//! # Words
//! - *dialect*: what gives statements the meaning they have in PostgreSQL, before and after the planner reads them.
//! - *snapshot*: a published generation and its catalog; a statement keeps the one it began with.
//! - *access*: a tree of a table (primary or index), and which table column each of its columns is.
//! - *column test*: a condition of one column with constants: what storage can decide on encoded bytes.
//! - *path*: a way to a table's rows: a tree, key ranges in it, and perhaps a fetch from the primary tree.
//! - *chain*: a pipeline in symbols: an origin and *links*, one lookup each; joins fuse by adding links.
//! - *publication*: a change; writers take turns, and each publishes trees and catalog together or not at all.
//!
//! # Invariants
//! - A plan refers to one snapshot, in which every primary key it relies on holds.
//! - A column is in the key or in the row of an entry, never in both; an index entry carries the primary key.
//! - Changes never go through DataFusion: its statement tree is refused before it is planned.
//! - Statistics only choose plans; no answer depends on them. The count in a tree's root is exact.
//!
//! # Failure model
//! A statement that fails changes nothing: nothing is visible before its publication has committed. An
//! error says what, where in the text, and what to do. A page that is rotten or cannot be read fails
//! the query with the tree's name; it never gives a wrong row. A dropped stream stops its pipelines.
#![forbid(unsafe_code)]

mod access;
mod append;
mod base_reader;
mod bind;
mod catalog;
mod chain;
mod check;
mod column_scan;
mod column_test;
mod columns;
mod command;
mod constraint;
mod convert;
mod copy_in;
mod cost;
mod csv;
mod data;
mod database;
mod ddl;
mod delta;
mod described;
mod dialect;
mod dml;
mod entries;
mod error;
mod explain;
mod fast;
mod feed;
mod files;
mod implied;
mod index_join;
mod join_graph;
mod join_order;
mod join_sides;
mod key_range;
mod load;
mod memory;
mod merge;
mod native;
mod open_query;
mod path;
mod pg_catalog;
mod pipeline_exec;
mod plan_cache;
mod prepared;
mod progress;
mod provider;
mod query_env;
mod query_memory;
mod relation;
mod segments;
mod sequence;
mod session;
mod settings;
mod snapshot;
mod stated_types;
mod statement;
mod statistics;
mod storage_views;
mod stream;
mod transaction;
mod types;
mod view;
mod writer;
mod yielding;

pub use catalog::{
    Catalog, Check, ColumnDetail, ForeignKey, Identity, Index, IndexColumn, ReferentialAction, Sequence, Table, View,
};
pub use check::{CheckFault, CheckProgress, CheckReport};
pub use command::{Command, CopyFormat, CopyKind};
pub use constraint::{Consequence, Defaults, ForeignKeys, Keys, NewValue, RowChecks};
pub use copy_in::CopyTarget;
pub use database::{
    CACHE_BYTES_DEFAULT, CreateOptions, Database, LOAD_MEMORY_BYTES_DEFAULT, OpenOptions, PAGE_BYTES_DEFAULT,
};
pub use datafusion::common::ScalarValue;
pub use datafusion::execution::SendableRecordBatchStream;
pub use delta::CheckpointReport;
pub use error::{ErrorKind, Objects, Position, Result, SqlError};
pub use fast::{FastAnswer, FastPlan, RowSink};
pub use load::LoadProgress;
pub use merge::{ChangeSource, KeyChange, MergeReport, Pace};
pub use pg_catalog::{PG_COLUMN, PG_MODIFIER, PG_TABLE, PG_TYPE, SessionFacts, SystemView, SystemViews};
pub use prepared::Prepared;
pub use progress::Progress;
pub use saki_base::ValueRef;
pub use session::{Parsed, Session, StatementResult, TransactionStatus, parse};
pub use settings::{AccessPath, IndexJoin, JoinOrder, Operators, Settings, parse_size};
pub use snapshot::Snapshot;
pub use statistics::{ColumnStatistics, TableStatistics};
