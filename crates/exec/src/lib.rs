//! Out-of-order execution: a query becomes thousands of asynchronous page
//! visits, processed in whatever order the pages arrive.
//!
//! The idea is that of OoODE (Goda, Hayamizu, Kitsuregawa: "Performance test of query processing by
//! out-of-order database engine (OoODE)", 2014): unroll the nested loops of an index join, issue the reads of
//! all iterations asynchronously, and continue each iteration when its record arrives. There, each record
//! fetched is a task on a user-level thread. Here **the unit of work is a page visit**: a page and all the probes
//! that wait for it, so that a page is asked for once, read once, and answers all its probes together.
//!
//! # Words
//! - **pipeline**: a source and stages ([`Pipeline`]). **Execution**: one time it is carried out. **Partition**: one of
//!   the instances that share an execution's source, each on a reactor of its own.
//! - **probe**: one key looked up on behalf of an outer row. **Visit**: a page and the probes waiting for it.
//! - **step**: 0 is the source, `n` is stage `n - 1`. **Register**: a column of the rows between stages.
//! - **reactor**: a thread with its own port to the pages; it never blocks but in that port's poll.
//!
//! # Where things are
//! [`plan`] what a pipeline is; `execution` its executions and [`Executor`] their threads; `instance` in which order a
//! partition works, and within it `visit` what it does with a page, `probes` and `visits` its two data structures,
//! `overlaid` how a tree and what lies over it ([`Overlay`]) are read as one; `execution_state` what partitions share,
//! and how they share key ranges; `rows` how columns are read and gathered; `stream` how rows leave. [`columns`] is the
//! other way to rows: scans over column segments.
//!
//! # Invariants
//! - Nothing is allocated per probe in steady state: probes are ranges of sorted batches, visits live in slabs.
//! - Requests in flight, memory and output are bounded (`instance`); a full bound makes the source wait and fails
//!   nothing.
//! - Dropping a stream ends its partition; nothing of it remains except reads that the device has not finished,
//!   whose pages land in the cache for whoever wants them.
//!
//! # Failure model
//! A page that cannot be had, or is not what its parent promises, ends the execution with an error that names it. Rows
//! already sent stay sent; the stream's last item is the error. A panic in an instance ends its execution, not its
//! reactor.

#![forbid(unsafe_code)]

mod blocking;
pub mod columns;
mod error;
mod execution;
mod execution_state;
mod instance;
mod metrics;
mod overlay;
pub mod plan;
pub mod predicate;
mod reactor;
mod rows;
mod stream;

pub use columns::{ColumnOverlay, ColumnScan, ColumnStream, ScanExecution, ScanMetrics, SegmentReader};
pub use error::ExecError;
pub use execution::{Execution, PipelineStream};
pub use metrics::{DEPTH_BUCKETS, ExecutionMetrics, StageMetrics};
pub use overlay::{EntryKeys, Overlay, OverlayReader, VisitEntry};
pub use plan::{
    AccessColumn, BatchFilter, ExecutionOptions, JoinKind, KeyRange, KeySource, Pipeline, Place, Source, Stage,
    TreeAccess, VisitOrder,
};
pub use predicate::{CompareOp, Predicate};
pub use reactor::{Executor, ExecutorOptions};
pub use rows::registers::{OuterRows, OutputBatch};
pub use saki_vector::surface::labels::{STATES_MAX, enumeration};
pub use saki_vector::surface::lists::ARRAY_ORDER;
pub use saki_vector::surface::{array_value, arrow_interval, arrow_type, data_type, interval, lists};
pub use stream::{Closed, InputSender};
