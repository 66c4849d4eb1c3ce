//! Segments from the primary tree.

use std::ops::Bound;

use saki_columns::{SegmentBuilder, SegmentsRoot};

use super::rows::RowBatch;
use super::{builder, finish};
use crate::writer::Trees;
use saki_catalog::{Result, Table};

/// Builds the segments of a table from its primary tree.
pub fn build(trees: Trees<'_>, table: &Table, before: &SegmentsRoot) -> Result<SegmentsRoot> {
    let mut builder = builder(trees, table, before, 1);
    add_rows(trees, table, (Bound::Unbounded, Bound::Unbounded), &mut builder)?;
    finish(trees, builder)
}

/// Gives the pages of a directory back.
pub fn free_directory(trees: Trees<'_>, root: &SegmentsRoot) -> Result<()> {
    let mut reader = trees.db.tree_reader()?;
    let mut found = saki_tree::free_all(reader.fetcher(), &root.directory);
    if let Some(error) = found.unreadable.pop() {
        return Err(error.into());
    }
    trees.free(&found.pages);
    Ok(())
}

/// Adds the rows of a range of the primary tree.
pub fn add_rows(
    trees: Trees<'_>,
    table: &Table,
    (low, high): (Bound<&[u8]>, Bound<&[u8]>),
    builder: &mut SegmentBuilder<'_>,
) -> Result<()> {
    let mut reader = trees.db.tree_reader()?;
    let mut entries = reader.range(&table.root, low, high);
    let mut rows = RowBatch::new(table);
    while let Some((key, row)) = entries.next()? {
        rows.push(key, row)?;
        if rows.is_full() {
            trees.stop.check()?;
            add_batch(&mut rows, builder)?;
        }
    }
    add_batch(&mut rows, builder)
}

fn add_batch(rows: &mut RowBatch<'_>, builder: &mut SegmentBuilder<'_>) -> Result<()> {
    let batch = rows.take()?;
    builder.push(&batch, &mut |row| Ok(rows.key(row).to_vec()))?;
    rows.clear();
    Ok(())
}
