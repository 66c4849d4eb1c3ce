//! What a pipeline is: a source of outer rows, and stages that look each row
//! up in a tree. The planner builds these values; [`crate::Executor`] runs them.
//!
//! ```text
//!  Source::Ranges ──┐                      ┌── keep ──────────────┐
//!   (a tree's keys) ├─► rows ─► Stage 0 ───┤  fetched inner cols  ├─► Stage 1 ─► … ─► output
//!  Source::Rows ────┘   registers   (a tree)   └── batch filter ──────┘
//!   (Arrow batches)
//! ```
//!
//! Rows between stages are made of *registers*. A `Ranges` source fills registers with the
//! columns it reads. A `Rows` source fills none: its rows stay in their Arrow
//! batches and are referred to, so that columns of any Arrow type pass through
//! untouched. A stage's registers are the outer registers it keeps, then the inner columns it fetches.

use std::any::Any;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use saki_base::{DataType, KeyLayout, PageRef, RowLayout, TreeId};

use crate::overlay::Overlay;
use crate::predicate::Predicate;

/// Where a logical column of a tree lies: entries are (key, row) pairs and no column is in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// `KeyLayout` column.
    Key(usize),
    /// `RowLayout` column.
    Row(usize),
}

/// A column of a tree, as read by a pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessColumn {
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
    pub place: Place,
}

/// A tree of one snapshot and how to read its entries.
#[derive(Clone, Debug)]
pub struct TreeAccess {
    pub tree: TreeId,
    /// For messages and EXPLAIN: `lineitem` or `orders.orders_custkey_idx`.
    pub name: String,
    /// `None`: the tree is empty.
    pub root: Option<PageRef>,
    /// Levels, leaves included; 0 when empty.
    pub height: u16,
    /// Leaf pages, for morsels and progress.
    pub leaf_pages: u64,
    pub key: KeyLayout,
    pub row: RowLayout,
    pub columns: Vec<AccessColumn>,
    /// What lies over the tree; `None`: nothing.
    pub overlay: Option<Arc<dyn Overlay>>,
}

/// Keys from `low` (inclusive) up to `high` (exclusive), encoded. `None` is unbounded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyRange {
    pub low: Option<Vec<u8>>,
    pub high: Option<Vec<u8>>,
}

/// Where outer rows come from.
#[derive(Clone)]
pub enum Source {
    /// The entries of disjoint key ranges of a tree (a full scan is one unbounded range).
    Ranges {
        access: Arc<TreeAccess>,
        ranges: Vec<KeyRange>,
        /// All must hold; evaluated on the encoded entry before anything is copied.
        predicates: Vec<Predicate>,
        /// Columns of `access` that become registers 0, 1, ….
        fetch: Vec<usize>,
        /// On batches of the fetched registers, after `predicates`.
        filter: Option<Arc<dyn BatchFilter>>,
    },
    /// Batches pushed by the caller through [`crate::InputSender`], of this schema.
    Rows { schema: SchemaRef },
}

/// How a stage treats outer rows with and without matches. NULL in a key never matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinKind {
    /// One row per match.
    Inner,
    /// One row per match; NULLs for the inner columns where there is none.
    Left,
    /// The outer row once if there is a match.
    Semi,
    /// The outer row once if there is no match.
    Anti,
}

/// One leading column of a stage's key, taken from the outer row.
#[derive(Clone, PartialEq, Debug)]
pub enum KeySource {
    /// A register of the outer row; its type equals the key column's.
    Register(usize),
    /// A column of the `Rows` source's batch; its Arrow type is that of the key column (`arrow_type`).
    Outer(usize),
    /// The same for all rows; already encoded for this key column.
    Encoded(Vec<u8>),
}

/// Looks every outer row up in a tree.
#[derive(Clone)]
pub struct Stage {
    pub access: Arc<TreeAccess>,
    pub kind: JoinKind,
    /// Leading key columns; matches are all entries whose key starts with them.
    pub key: Vec<KeySource>,
    /// `key` names every key column, so there is at most one match. A left
    /// stage that follows another left stage to fetch the row of an index entry is such a stage.
    pub unique: bool,
    /// On inner columns; all must hold for an entry to be a match.
    pub predicates: Vec<Predicate>,
    /// Outer registers carried on (they become registers 0, 1, …).
    pub keep: Vec<usize>,
    /// Inner columns fetched (the registers after the kept ones). Empty for semi and anti.
    pub fetch: Vec<usize>,
    /// On batches of this stage's registers. Not for left, semi or anti semantics: it only drops output rows.
    pub filter: Option<Arc<dyn BatchFilter>>,
}

/// A vectorised filter supplied by the planner, over batches of registers (fields named as the access columns).
pub trait BatchFilter: Send + Sync {
    /// Which rows stay. NULL counts as false.
    fn select(&self, batch: &RecordBatch) -> Result<BooleanArray, String>;
    /// For EXPLAIN.
    fn describe(&self) -> String;
}

/// A fused chain of page visits.
#[derive(Clone)]
pub struct Pipeline {
    pub source: Source,
    pub stages: Vec<Stage>,
    /// Stop after so many output rows over all partitions.
    pub limit: Option<usize>,
    /// Keeps the snapshot whose trees are read alive.
    pub snapshot: Arc<dyn Any + Send + Sync>,
}

/// In which order pages are visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VisitOrder {
    /// Thousands of visits in flight, processed as pages arrive.
    OutOfOrder,
    /// One page at a time, as a classical engine does: for comparison.
    InOrder,
}

/// How to run a pipeline.
#[derive(Clone, Debug)]
pub struct ExecutionOptions {
    pub order: VisitOrder,
    /// Upper bound on requests in flight for this execution; the governor may allow fewer.
    pub max_in_flight: u32,
    /// Bytes that live rows, probes and results may take; a full budget stops the source.
    pub memory_bytes: usize,
    /// Rows in an output batch.
    pub batch_rows: usize,
    /// Partitions of the execution: how many instances share the source. In-order executions have one.
    pub partitions: usize,
}

impl Default for ExecutionOptions {
    fn default() -> Self {
        Self {
            order: VisitOrder::OutOfOrder,
            max_in_flight: u32::MAX,
            memory_bytes: 64 << 20,
            batch_rows: 8192,
            partitions: std::thread::available_parallelism().map_or(1, |n| n.get()),
        }
    }
}
