//! What the directory says of a segment: where its columns lie and what is in them.

use saki_base::value::Value;
use saki_base::{DataType, PageAddress};

use crate::test::Test;

/// A column of a table, as segments hold it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnType {
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
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

/// One column of a segment: an encoded blob in consecutive pages.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnRun {
    pub first_page: PageAddress,
    /// Of the blob, without the zeros that fill up the last page.
    pub bytes: u32,
    /// xxh3-64 of the blob.
    pub checksum: u64,
    pub zone: Zone,
}

/// What is known of the values of a column of a segment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Zone {
    pub nulls: u32,
    /// No value is less; of long text, a prefix. NULL: all are NULL, or nothing is known.
    pub min: Value,
    /// No value is greater.
    pub max: Value,
    /// Distinct values, estimated; 0: unknown.
    pub distinct: u32,
}

impl Zone {
    /// Whether a row may pass.
    pub fn may_pass(&self, test: &Test, rows: u32) -> bool {
        let _ = (test, rows);
        todo!()
    }

    /// Whether every row passes.
    pub fn all_pass(&self, test: &Test, rows: u32) -> bool {
        let _ = (test, rows);
        todo!()
    }
}
