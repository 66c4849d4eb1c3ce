//! The plan node that reads a table's column segments ("ColumnScanExec").
//!
//! ```text
//!   conditions ─► Expr, over the table's columns ─┐
//!   keys of joins above ─► DynamicKeys ───────────┼─► source: a scan of segments, or lookups ─► batches
//!   output columns, limit ────────────────────────┘           (decided when the keys are known)
//! ```
//!
//! Its rows are native; a node that wants record batches gets these instead. All partitions share one
//! [`Source`], which is chosen when the first of them is polled and all keys that were promised are known: the build
//! sides of the joins above are complete then, and how many keys there really are decides between reading on and
//! looking them up.

mod condition;
mod cost;
mod explain;
mod foresee;
mod lookup;
mod node;
mod parts;
mod source;
mod statistics;

pub use self::cost::ColumnPath;
pub use self::node::ColumnScanExec;
pub use self::parts::ColumnScanParts;
