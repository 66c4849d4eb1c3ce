//! The directory of a table's segments: a tree from first primary key to entry, and what its table keeps of it.

pub mod entry;
mod table;

use saki_base::PageSize;
use saki_tree::{BulkLoader, TreeReader, TreeRoot};
use saki_volume::PageWriter;
use serde::{Deserialize, Serialize};

use crate::ColumnsError;
use crate::segment::{Segment, SegmentColumns};

pub use table::{SegmentTable, TableZone};

/// Where the segments of a table begin, and how large they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentsRoot {
    pub directory: TreeRoot,
    pub segments: u64,
    /// As many as the table has.
    pub rows: u64,
    /// Of all runs; those of the directory are counted there.
    pub pages: u64,
    /// Encoded, without what fills up pages.
    pub bytes: u64,
}

impl SegmentsRoot {
    /// Of a table without rows.
    pub const fn empty(directory: saki_base::TreeId) -> Self {
        Self { directory: TreeRoot::empty(directory), segments: 0, rows: 0, pages: 0, bytes: 0 }
    }
}

/// Writes the directory of `segments`, which ascend by first key. Gives the writer back, settled.
pub(crate) fn write(
    writer: PageWriter,
    page_size: PageSize,
    directory: saki_base::TreeId,
    columns: &SegmentColumns,
    segments: &[Segment],
) -> Result<(SegmentsRoot, PageWriter), ColumnsError> {
    let mut root = SegmentsRoot::empty(directory);
    let mut loader = BulkLoader::new(writer, page_size, directory);
    let mut value = Vec::new();
    for segment in segments {
        value.clear();
        entry::encode(segment, columns, &mut value)?;
        loader.push(&segment.first_key, &value)?;
        root.segments += 1;
        root.rows += u64::from(segment.rows);
        root.pages += segment.columns.iter().map(|run| run.page_count(page_size.bytes())).sum::<u64>();
        root.bytes += segment.bytes();
    }
    let writer;
    (root.directory, writer) = loader.finish()?;
    Ok((root, writer))
}

/// Reads all entries of a directory, in key order.
pub fn read_directory(
    reader: &mut TreeReader,
    root: &SegmentsRoot,
    columns: &SegmentColumns,
) -> Result<Vec<Segment>, ColumnsError> {
    let mut segments = Vec::new();
    let mut entries = reader.scan(&root.directory);
    while let Some((key, value)) = entries.next()? {
        segments.push(entry::decode(key, value, columns)?);
    }
    Ok(segments)
}
