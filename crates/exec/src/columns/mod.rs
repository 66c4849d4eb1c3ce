//! Scans over column segments: only the columns that are needed, of the segments that may have a row, late.
//!
//! ```text
//!   segments ─► zone maps ─► read ahead ─► conditions, cheapest first ─► rows that are left ─► batches
//!               (ahead)      (reader)      (filter)                       (selection)           (stream)
//!                               │ ▲            │ ▲
//!                               ▼ │            ▼ │
//!                            a thread       the column cache: decoded columns, shared by all queries
//!                            with a lane
//! ```
//!
//! Partitions share one queue of segments, so none is idle while another has segments left. A partition works on the
//! thread that polls it: reading is the reader's, decoding and filtering are the consumer's, and so is the core.
//!
//! # Order of work
//! Columns that conditions need are asked for ahead. The others are asked for with them while most segments turn out to
//! have a row that passes, and otherwise only once a segment has one; meanwhile the partition filters the next segment.
//! Conditions run in the order of what they cost and how many rows they have ruled out so far in this partition.
//!
//! # Newer rows
//! A [`ColumnOverlay`] hides rows of segments and has rows of its own. These pass through the same conditions, in parts
//! that queue behind the segments. [`locate`] finds the rows that primary keys hide.
//!
//! # Bounds
//! Bytes asked for ahead stay below [`crate::ExecutionOptions::memory_bytes`]; the requests at the device are the
//! governor's matter. In-order executions have one partition, which asks for one run at a time.

mod ahead;
mod execution;
mod filter;
mod locate;
mod metrics;
mod overlay;
mod prune;
mod reader;
mod segment;
mod selection;
mod setup;
mod stream;

use std::any::Any;
use std::sync::Arc;

use saki_columns::SegmentTable;
use saki_vector::{Expr, KeyFilter};

pub use execution::ScanExecution;
pub use locate::{ListIds, Positions, SegmentKey, locate, locate_blocking};
pub use metrics::ScanMetrics;
pub use overlay::ColumnOverlay;
pub use reader::SegmentReader;
pub use stream::ColumnStream;

/// What to scan.
#[derive(Clone)]
pub struct ColumnScan {
    pub table: Arc<SegmentTable>,
    /// What lies over the segments; `None`: nothing.
    pub overlay: Option<Arc<dyn ColumnOverlay>>,
    /// The overlay's rows are a partition of their own, behind the others: who groups rows by keys that ascend within
    /// each partition finds them ascending still.
    pub overlay_apart: bool,
    /// Columns of the table, in the order in which batches have them.
    pub output: Vec<usize>,
    /// Conditions that all must hold; column indices are the table's.
    pub filter: Vec<Expr>,
    /// What is known of the partners that rows need in joins above: a column of the table, and the keys there are.
    pub keys: Vec<(usize, Arc<KeyFilter>)>,
    /// Stop after so many rows over all partitions.
    pub limit: Option<usize>,
    /// Keeps the snapshot whose segments are read alive.
    pub snapshot: Arc<dyn Any + Send + Sync>,
}
