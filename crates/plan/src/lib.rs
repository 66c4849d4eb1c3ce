//! From a query to page visits. DataFusion plans; this crate gives it tables, and chooses how their rows are reached.
//!
//! ```text
//!   query ─► join::order ─► provider ─► access::path, column_scan ─► join::index_join ─► native ─► plan ─► plan_cache
//!            (logical)      which tree of a table, or its columns     fuse lookups        our operators
//! ```
//!
//! ```text
//!   settings ◄ cost ◄ access ◄ node ◄ native, pipeline, execution ◄ column_scan, subqueries ◄ provider
//!     ◄ join, plan_cache
//! ```
//! A node of ours is a `SakiNode`, whatever else it is; a plan comes [`Untracked`] and runs once its reads are tracked.
//!
//! # Words
//! - *path*: a way to a table's rows: a tree, key ranges in it, and perhaps a fetch from the primary tree.
//! - *chain*: a pipeline in symbols: an origin and *links*, one lookup each; joins fuse by adding links.
//! - *native*: an operator of ours in the place of one of DataFusion's.
//!
//! # Invariants
//! - A plan refers to one generation, in which every primary key it relies on holds.
//! - Costs and statistics only choose plans; no answer depends on them.
//!
//! # Failure model
//! A page that is rotten or cannot be read fails the query with the tree's name. A dropped stream stops its pipelines.
#![forbid(unsafe_code)]

mod access;
mod column_scan;
mod cost;
pub mod execution;
#[cfg(test)]
mod fixture;
mod join;
mod native;
mod node;
mod pipeline;
pub mod plan_cache;
mod provider;
mod subqueries;

pub use access::hidden::HiddenKey;
pub use cost::text::seconds;
pub use cost::{CostModel, Estimate};
pub use execution::constants;
pub use execution::counted::COUNTED_INPUTS;
pub use execution::keyless::{ALIKE_ROWS, KEYLESS_JOINS};
pub use execution::narrow::NARROW_BATCHES;
pub use execution::progress::QueryProgress;
pub use execution::tracked::{Reads, TrackReads, Tracked, TrackedSnapshot, Untracked};
pub use execution::traffic::Traffic;
pub use execution::weight::shown_bytes;
pub use execution::wide::batch_rows;
pub use join::implied::ImpliedConditions;
pub use join::index_join::IndexJoinRule;
pub use join::merge_filters::MergeFilters;
pub use join::order::OrderedPlanner;
pub use native::{NativeOptions, NativeRule};
pub use node::{Asking, EachNode, Plan, Progress, QueryEnv, StandIns};
pub use plan_cache::{PlanCache, Sighting};
pub use provider::SnapshotTable;
pub use saki_settings::{AccessPath, IndexJoin, JoinOrder, Operators, Setting, Settings, parse_size};
pub use subqueries::in_turn::UNIONS_IN_TURN;
pub use subqueries::recursion::RECURSIONS;
pub use subqueries::{nested_loops, once};
