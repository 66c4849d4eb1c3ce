//! What the directory says of a segment: where its columns lie and what is in them.

use saki_base::{DataType, PageAddress, Value};

use crate::zone::Zone;

/// Rows of a segment at most.
pub const SEGMENT_ROWS: u32 = 128 << 10;

/// A column of a table, as segments hold it.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnType {
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
    /// What all rows of segments have that were written before the column was the table's; `None`: there are none.
    pub missing: Option<Value>,
}

/// Consecutive rows of a table in primary-key order.
#[derive(Clone, PartialEq, Debug)]
pub struct Segment {
    /// Encoded primary key of the first row.
    pub first_key: Vec<u8>,
    pub rows: u32,
    /// One for each column of the table.
    pub columns: Vec<ColumnRun>,
}

/// One column of a segment: an encoded blob in consecutive pages. If the segment lacks the column it has no pages, and
/// its zone says what all rows have ([`ColumnType::missing`]).
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnRun {
    pub first_page: PageAddress,
    /// Of the blob, without the zeros that fill up the last page.
    pub bytes: u32,
    /// xxh3-64 of the blob.
    pub checksum: u64,
    pub zone: Zone,
}

impl ColumnRun {
    /// Of a column that a segment lacks.
    pub(crate) fn missing(zone: Zone) -> Self {
        Self { first_page: PageAddress(0), bytes: 0, checksum: 0, zone }
    }

    /// Whether the segment lacks the column: then there is nothing to read.
    pub fn is_missing(&self) -> bool {
        self.bytes == 0
    }

    /// The run's pages, of `page_bytes` each.
    pub fn pages(&self, page_bytes: usize) -> impl Iterator<Item = PageAddress> + use<> {
        let first = self.first_page.0;
        (first..first + self.page_count(page_bytes)).map(PageAddress)
    }

    pub fn page_count(&self, page_bytes: usize) -> u64 {
        u64::from(self.bytes).div_ceil(page_bytes as u64)
    }
}

impl Segment {
    /// Pages of all columns.
    pub fn pages(&self, page_bytes: usize) -> impl Iterator<Item = PageAddress> + '_ {
        self.columns.iter().flat_map(move |run| run.pages(page_bytes))
    }

    /// Bytes of all columns, encoded.
    pub fn bytes(&self) -> u64 {
        self.columns.iter().map(|run| u64::from(run.bytes)).sum()
    }
}
