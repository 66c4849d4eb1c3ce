//! The segments of a table as a scan sees them: the directory in memory, and what it says of the whole table.

use std::sync::Arc;

use saki_base::value::{Value, compare};
use saki_tree::TreeReader;

use super::{SegmentsRoot, read_directory};
use crate::segment::{ColumnType, Segment, SegmentColumns};
use crate::{ColumnsError, Zone};

/// All segments of a table, in key order. Immutable, as what it describes is.
#[derive(Debug)]
pub struct SegmentTable {
    pub name: String,
    pub columns: Vec<ColumnType>,
    pub segments: Arc<[Segment]>,
    pub rows: u64,
    /// Of each column, over all segments.
    pub zones: Vec<TableZone>,
}

/// What is known of the values of a column of a table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TableZone {
    pub nulls: u64,
    /// No value is less. NULL: nothing is known, or all are NULL.
    pub min: Value,
    /// No value is greater. NULL: as above.
    pub max: Value,
}

impl SegmentTable {
    pub fn new(name: String, columns: Vec<ColumnType>, segments: Vec<Segment>) -> Self {
        let is_whole = |segment: &Segment| segment.columns.len() == columns.len();
        assert!(segments.iter().all(is_whole), "a segment of other columns than its table");
        let zones = (0..columns.len()).map(|column| TableZone::of(&segments, column)).collect();
        let rows = segments.iter().map(|segment| u64::from(segment.rows)).sum();
        Self { name, columns, segments: segments.into(), rows, zones }
    }

    /// Reads the directory.
    pub fn read(
        reader: &mut TreeReader,
        root: &SegmentsRoot,
        name: String,
        columns: &SegmentColumns,
    ) -> Result<Self, ColumnsError> {
        let segments = read_directory(reader, root, columns)?;
        Ok(Self::new(name, columns.columns().to_vec(), segments))
    }
}

impl TableZone {
    fn of(segments: &[Segment], column: usize) -> Self {
        let runs = || segments.iter().map(|segment| (&segment.columns[column].zone, segment.rows));
        // Where all are NULL there is no value to bound.
        let bounded: Vec<&Zone> = runs().filter(|(zone, rows)| zone.nulls < *rows).map(|(zone, _)| zone).collect();
        let bound = |of: fn(&Zone) -> &Value, before: fn(std::cmp::Ordering) -> bool| {
            let values = bounded.iter().map(|zone| of(zone));
            let best = values.reduce(|best, value| {
                let unknown = best.is_null() || !value.is_null() && before(compare(best.as_ref(), value.as_ref()));
                if unknown { best } else { value }
            });
            best.cloned().unwrap_or_default()
        };
        Self {
            nulls: runs().map(|(zone, _)| u64::from(zone.nulls)).sum(),
            min: bound(|zone| &zone.min, std::cmp::Ordering::is_le),
            max: bound(|zone| &zone.max, std::cmp::Ordering::is_ge),
        }
    }
}
