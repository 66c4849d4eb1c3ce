//! Ordered maps from keys to values, on pages that never change.
//!
//! ```text
//!                    root ── kept by whoever refers to the tree (TreeRoot)
//!                      │
//!                ┌─────┴─────┐            inner pages: separators, and references
//!              inner       inner          (address + checksum) to the pages below
//!             ┌──┼──┐      ┌─┴──┐
//!           leaf leaf leaf leaf leaf      leaves: keys and values, sorted
//!                 │
//!              overflow pages             a value too large for a leaf
//! ```
//!
//! A tree is not changed; another one is made that shares every page the changes do not touch:
//!
//! ```text
//!   sorted entries ──► BulkLoader ──► TreeRoot          unsorted ones go through a Sorter first
//!   TreeRoot + sorted changes ──► apply ──► TreeRoot', and the pages that only the old tree used
//!   TreeRoot, TreeRoot' ──► difference ──► the keys that one has otherwise
//!   TreeRoot ──► free_all ──► its pages                 for DROP
//! ```
//!
//! New pages go through a [`saki_volume::PageWriter`], which is told whether they are inner pages, leaves or large
//! values, freed ones to [`saki_volume::Publication::free`], and the new root counts once the publication is committed.
//! Keys and values are bytes; what they mean is known above.
//!
//! # Who reads how
//!
//! A [`Fetcher`] is one thread's way to pages. Whatever here reads many pages keeps many in flight:
//! walks in any order ([`verify()`], [`free_all`], overflow values, [`TreeReader::bring`]), and leaves in
//! key order with those ahead asked for ([`TreeRange`], [`apply()`]). Queries do not read through this crate
//! but through `exec`.
//!
//! # Invariants
//!
//! - Keys ascend strictly within a tree. Below a child, no key is less than its separator, and none reaches
//!   the next one. All leaves are on one level.
//! - A leaf has at least one entry, an inner page at least one child; the root of a tree of several levels has two or
//!   more.
//! - Every page belongs to one tree and is referred to once.
//! - The counts in a [`TreeRoot`] are exact.
//!
//! # Failure model
//!
//! A page that cannot be read or is not what its parent promises is a [`TreeError`] that names tree, page and
//! device; no wrong entry is ever returned. [`verify()`] finds every fault that can be reached, and goes on past it.
//! Failed writes leave the old tree as it is: abandon the publication.
//!
//! # Where the proofs are
//!
//! `tests/it`: everything against a `BTreeMap`, with pages of 4 KiB and 128 KiB and caches barely large enough
//! (`model`), rotten pages and failing devices (`damage`), sorting in several passes (`sorting`).
//! `examples/throughput.rs` measures.

#![forbid(unsafe_code)]

mod apply;
mod build;
mod difference;
mod error;
mod fetch;
mod free;
mod live;
mod overflow;
mod read;
mod root;
mod sink;
mod sort;
mod verify;

pub use apply::{Applied, Change, Effect, Met, apply, apply_met};
pub use build::BulkLoader;
pub use difference::{Differing, TreeDifference};
pub use error::TreeError;
pub use fetch::Fetcher;
pub use free::{TreePages, free_all};
pub use live::{LiveDifference, LivePages};
pub use read::{CachedReader, TreeRange, TreeReader, Wanted};
pub use root::{TREE_ROOT_BYTES, TreeRoot};
pub use sort::{SORT_MEMORY_BYTES, Sorted, Sorter};
pub use verify::{Fault, Inspect, NoInspection, Verification, verify};

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);
