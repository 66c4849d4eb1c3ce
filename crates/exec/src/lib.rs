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
//! - **pipeline**: a source and stages ([`Pipeline`]). **Run**: one execution of it. **Partition**: one of the
//!   instances that share a run's source, each on a reactor of its own.
//! - **probe**: one key looked up on behalf of an outer row. **Visit**: a page and the probes waiting for it.
//! - **depth**: 0 is the source, `n` is stage `n - 1`. **Slot**: a column of the rows between stages.
//! - **reactor**: a thread with its own port to the pages; it never blocks but in that port's poll.
//!
//! # Where things are
//! [`plan`] what a pipeline is; `instance` in which order a partition works; `visit` what it does with a page;
//! `probes` and `visits` its two data structures; `source` how partitions share key ranges; `entry` how columns are
//! read; [`Overlay`] what lies over a tree, and `overlaid` how both
//! are read as one; `stream` how rows leave; [`Executor`] the threads. [`columns`] is the other way to rows: scans over column segments.
//!
//! # Invariants
//! - Nothing is allocated per probe in steady state: probes are ranges of sorted batches, visits live in slabs.
//! - Requests in flight, memory and output are bounded (`instance`); a full bound waits, it does not fail.
//! - Dropping a stream ends its partition; nothing of it stays behind but reads the device has not finished,
//!   whose pages land in the cache for whoever wants them.
//!
//! # Failure model
//! A page that cannot be had, or is not what its parent promises, ends the run with an error that names it. Rows already
//! sent stay sent; the stream's last item is the error. A panic in an instance ends its run, not its reactor.

#![forbid(unsafe_code)]

mod blocking;
mod column;
pub mod columns;
mod entry;
mod error;
mod instance;
mod large;
mod metrics;
mod overlaid;
mod overlay;
pub mod plan;
pub mod predicate;
mod probes;
mod reactor;
mod run;
mod slots;
mod source;
mod stream;
mod visit;
mod visits;

pub use column::{array_value, arrow_type};
pub use columns::{ColumnOverlay, ColumnScan, ColumnScanRun, ColumnStream, ScanMetrics, SegmentReader};
pub use error::ExecError;
pub use metrics::{DEPTH_BUCKETS, RunMetrics, StageMetrics};
pub use overlay::{EntryKeys, Overlay, OverlayReader, VisitEntry};
pub use plan::{
    AccessColumn, BatchFilter, Execution, JoinKind, KeyRange, KeySource, Pipeline, Place, RunOptions, Source, Stage,
    TreeAccess,
};
pub use predicate::{CompareOp, Predicate};
pub use reactor::{Executor, ExecutorOptions};
pub use run::Run;
pub use stream::{Closed, InputSender, OuterRows, OutputBatch, PipelineStream};
