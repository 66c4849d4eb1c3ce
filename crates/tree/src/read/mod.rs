//! Reading trees on one thread: waiting for pages, from memory alone, and bringing pages there.

mod bring;
mod reader;

pub use bring::Wanted;
pub(crate) use reader::{AheadError, descend, open_inner};
pub use reader::{CachedReader, TreeRange, TreeReader};
