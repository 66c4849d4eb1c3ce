//! A table's rows a second time, column by column: built beside the primary tree, and kept equal to it.
//!
//! ```text
//!   load    batches in key order ─► native columns ─┐
//!   ALTER   primary tree ─► rows ─► native columns ─┼─► SegmentBuilder ─► runs, directory ─► Table::segments
//!   merge   changed rows ─► segments touched ───────┘     (segments not touched are kept as they are)
//! ```
//!
//! # Invariant
//! A table with `columns = on` has exactly its rows in its segments, in the order of the primary tree: both are published by one commit.

mod check;
mod cut;
mod merge;
mod native;
mod read;
mod rebuild;
mod rows;
mod splice;
mod tables;
#[cfg(test)]
mod tests;

use saki_columns::{BuildOptions, ColumnType, ColumnsError, SegmentBuilder, SegmentsRoot};

pub use check::SegmentSums;
pub use merge::{SegmentMerge, SegmentsMerged};
pub use native::NativeBatches;
pub use rebuild::{build, free};
pub use tables::SegmentTables;

use crate::catalog::Table;
use crate::database::{tree_error, volume_error};
use crate::error::{Result, SqlError};
use crate::writer::Trees;

impl Table {
    /// The columns that segments have: those that queries see.
    pub fn column_types(&self) -> Vec<ColumnType> {
        let column =
            |c: &saki_base::Column| ColumnType { name: c.name.clone(), data_type: c.data_type, nullable: c.nullable };
        self.columns.iter().map(column).collect()
    }
}

/// A builder of a table's segments, with pages of the publication under way; `share`: it has one of so many parts of the machine.
pub fn builder<'w>(trees: Trees<'w>, table: &Table, share: usize) -> SegmentBuilder<'w> {
    builder_of(trees, table, BuildOptions::default().threads.div_ceil(share))
}

/// The same with so many threads that encode.
pub fn builder_of<'w>(trees: Trees<'w>, table: &Table, threads: usize) -> SegmentBuilder<'w> {
    let rows = trees.db.options.segment_rows;
    let options = BuildOptions { rows, threads, bloom: table.bloom.clone(), ..BuildOptions::default() };
    SegmentBuilder::new(trees.db.codec.as_ref(), table.column_types(), trees.pages(), options)
}

/// Writes the directory and hands all pages over to the publication.
pub fn finish(trees: Trees<'_>, builder: SegmentBuilder<'_>, before: &SegmentsRoot) -> Result<SegmentsRoot> {
    let (root, pages) = builder.finish(trees.db.page_size(), before.directory.id).map_err(columns_error)?;
    pages.finish().map_err(volume_error)?;
    Ok(root)
}

/// A failure of segments as a statement's error.
pub fn columns_error(error: ColumnsError) -> SqlError {
    match error {
        ColumnsError::Tree(error) => tree_error(error),
        ColumnsError::Volume(error) => volume_error(error),
        ColumnsError::Corrupt(what) => SqlError::corrupt(format!("column segments: {what}")),
        ColumnsError::Storage(_) => SqlError::storage(error),
        ColumnsError::Unsupported(_) => SqlError::unsupported(error.to_string()),
        ColumnsError::Internal(_) => SqlError::internal(error),
    }
}
