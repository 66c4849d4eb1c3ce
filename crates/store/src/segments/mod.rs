//! A table's rows a second time, column by column: built beside the primary tree, and kept equal to it.
//!
//! ```text
//!   load    batches in key order ─► native columns ─┐
//!   ALTER   primary tree ─► rows ─► native columns ─┼─► SegmentBuilder ─► runs, directory ─► Table::segments
//!   merge   changed rows ─► segments touched ───────┘     (segments not touched are kept as they are)
//! ```
//!
//! # Invariant
//! A table with `columns = on` has exactly its rows in its segments, in the order of the primary tree: both are
//! published by one commit.

mod check;
mod native;
mod rebuild;
mod rows;

#[cfg(test)]
mod tests;

use saki_columns::{BuildOptions, SegmentBuilder, SegmentsRoot};

pub use check::SegmentSums;
pub use native::NativeBatches;
pub use rebuild::{add_rows, build, free_directory};
pub use rows::RowBatch;

use crate::writer::Trees;
use saki_catalog::{Result, Table};

/// A builder of a table's segments in place of those `before`, with pages of the publication under way; `share`: it has
/// one of so many parts of the machine.
pub fn builder<'w>(trees: Trees<'w>, table: &Table, before: &SegmentsRoot, share: usize) -> SegmentBuilder<'w> {
    builder_of(trees, table, before, BuildOptions::default().threads.div_ceil(share))
}

/// The same with so many threads that encode.
pub fn builder_of<'w>(trees: Trees<'w>, table: &Table, before: &SegmentsRoot, threads: usize) -> SegmentBuilder<'w> {
    let rows = trees.db.options.segment_rows;
    let options = BuildOptions { rows, threads, bloom: table.bloom.clone(), ..BuildOptions::default() };
    let (codec, directory) = (trees.db.codec.as_ref(), before.directory.id);
    SegmentBuilder::new(codec, table.segment_columns(), directory, trees.pages(), options)
}

/// Writes the directory and hands all pages over to the publication.
pub fn finish(trees: Trees<'_>, builder: SegmentBuilder<'_>) -> Result<SegmentsRoot> {
    let (root, pages) = builder.finish(trees.db.page_size())?;
    pages.finish()?;
    Ok(root)
}
