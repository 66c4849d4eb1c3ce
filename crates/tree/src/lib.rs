//! Ordered maps of keys to values on pages that never change.
#![forbid(unsafe_code)]

mod apply;
mod build;
mod error;
mod fetch;
mod free;
mod group;
mod live;
mod merge;
mod overflow;
mod read;
mod root;
mod sort;
mod verify;

pub use apply::{Applied, Change, apply};
pub use build::BulkLoader;
pub use error::TreeError;
pub use fetch::Fetcher;
pub use free::{TreePages, free_all};
pub use live::{LiveDifference, LivePages};
pub use read::{TreeRange, TreeReader};
pub use root::{TREE_ROOT_BYTES, TreeRoot};
pub use sort::{SORT_MEMORY_BYTES, Sorted, Sorter};
pub use verify::{Fault, Inspect, NoInspection, Verification, verify};
