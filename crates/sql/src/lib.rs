//! Sessions over a database: the statements that query it and change it. What they run in, `context` has: database,
//! transaction, planner. DataFusion parses and plans; this crate and those right below it are the only
//! ones that name it.
//!
//! ```text
//!   text ─► Session ─┬─► compiled statements (fast): rows by key, no planner
//!                    ├─► ours: ddl (a crate), dml, copy, settings
//!                    └─► query ─► postgres (dialect) ─► plan ─► page visits
//!                             └─ names: schema ─► tables of the snapshot, views, system relations
//! ```
//!
//! # Words
//! - *session*: one user's conversation with a database: its settings, and at most one open transaction.
//! - *statement*: what is carried out as one; it keeps the snapshot it began with.
//! - *compiled statement*: one about few rows by their keys, which runs without a plan.
//!
//! # Invariants
//! - Changes never go through DataFusion: its statement tree is refused before it is planned.
//! - All rows that a statement changes are found before any is changed.
//!
//! # Failure model
//! A statement that fails changes nothing: nothing is visible before its publication has committed. An
//! error says what, where in the text, and what to do. A dropped stream stops its pipelines.
#![forbid(unsafe_code)]

#[cfg(test)]
mod constraints;
mod copy;
mod dml;
mod fast;
mod prepared;
mod session;

pub use copy::CopyTarget;
pub use datafusion::common::ScalarValue;
pub use datafusion::execution::SendableRecordBatchStream;
pub use dml::bulk_load;
pub use fast::{FastAnswer, FastPlan, RowSink};
pub use prepared::Prepared;
pub use saki_base::ValueRef;
pub use saki_catalog::convert::array_of;
pub use saki_catalog::enumeration;
pub use saki_catalog::{
    Catalog, Check, ColumnDetail, ColumnStatistics, Deferral, ErrorKind, ForeignKey, Identity, Index, IndexColumn,
    ObjectId, ObjectKind, Objects, Position, Privilege, ReferentialAction, Result, Role, RoleId, Sequence, SqlError,
    Table, TableStatistics, View,
};
pub use saki_context::access::{Users, verifier};
pub use saki_context::database::{Database, FileAccess};
pub use saki_context::planner::stoppable;
pub use saki_context::shown_bytes;
pub use saki_context::statement::{Bound, Command, Discarded, Parsed, StatementResult, TableName, parse};
pub use saki_context::transaction::TransactionStatus;
pub use saki_parameters::{
    Effective, LogLevel, LoggedStatements, Logging, Parameters, ROLE, SESSION, SessionRoles, SessionTime, State,
    TimeStyle, duration,
};
pub use saki_plan::{AccessPath, IndexJoin, JoinOrder, Operators, Progress, Settings, parse_size};
pub use saki_postgres::statement::copy::csv::{CsvError, CsvFault, CsvOptions, CsvReader, CsvWriter};
pub use saki_postgres::statement::copy::lines::LineOptions;
pub use saki_postgres::statement::copy::records::{RecordFormat, RecordReader, RecordWriter};
pub use saki_postgres::statement::copy::{CopyFormat, CopyKind};
pub use saki_postgres::statement::{LiteralKind, Shape, kept_weight, without_passwords};
pub use saki_store::{
    ChangeSource, CheckFault, CheckProgress, CheckReport, CheckpointReport, CreateOptions, DeviceClass, DeviceSpec,
    DeviceStatus, Generation, KeyChange, LoadProgress, MergeReport, OpenOptions, PAGE_BYTES_DEFAULT, Pace, PolicyKind,
    Stop, memory_bytes,
};
pub use saki_system::types::procedure_name;
pub use saki_system::{Backends, PG_COLUMN, PG_MODIFIER, PG_TABLE, PG_TYPE, SessionFacts, SystemView, SystemViews};
pub use session::{Session, logged_by};
