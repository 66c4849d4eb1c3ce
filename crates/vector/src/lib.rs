//! Vectorised relational operators: expressions, aggregation and hash joins over batches of columns.
//!
//! ```text
//!   segments ─► scan ─► Batch ─► Expr::select ─► Expr::evaluate ─► Aggregator ─► Batch ─► SQL
//!                         │                                          ▲
//!                         └─► JoinBuild ─► JoinTable ─► probe ───────┘
//! ```
//!
//! # Words
//! - **logical type**: the Arrow type that SQL sees: what plans and results are made of.
//! - **native form**: how a column of that type is held between these operators ([`form`]). A decimal, for one, is
//!   an array of 8-byte integers as long as its values fit, whatever precision its type promises.
//! - **bounds**: what the integers of a column are known to lie between ([`Bounds`]); from zone maps, by
//!   interval arithmetic, or by a look at the data. They prove that arithmetic in 8 bytes cannot overflow.
//! - **surface**: Arrow arrays of exactly the logical type, for operators that are not ours.
//!
//! # Invariants
//! - Every operator takes every native form of a type; which form a batch has may change from batch to batch.
//! - A result does not depend on the form: `to_surface` of it is what SQL defines, or an error.
//! - Nothing here blocks, reads files or starts threads: callers decide where the work runs.
//!
//! # Failure model
//! Arithmetic that overflows its type, division by zero and impossible casts are [`VectorError`]s for the statement. No
//! input panics.
#![forbid(unsafe_code)]

pub mod aggregate;
mod batch;
mod column;
mod concat;
mod error;
pub mod expr;
pub mod form;
pub mod join;
mod key_filter;
mod key_index;
pub mod surface;
mod view;

pub use batch::Batch;
pub use column::{Bounds, Column};
pub use error::{FloatRange, ForeignError, VectorError};
pub use expr::Expr;
pub use key_filter::KeyFilter;

/// Result of vectorised work.
pub type Result<T, E = VectorError> = std::result::Result<T, E>;

/// Rows of a batch at most, unless an operator has a reason: its columns stay in the second-level cache.
pub const BATCH_ROWS: usize = 8192;
