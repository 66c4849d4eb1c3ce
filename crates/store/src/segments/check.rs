//! Whether a table's segments have its rows: each column of each segment is reduced to a sum over its values' hashes,
//! from the run and from the rows of the primary tree between the segment's first key and the next one's.

use saki_base::ValueRef;
use saki_columns::values::for_each_value;
use saki_columns::{ColumnType, InspectColumns, SegmentsRoot, SegmentsVerification, VerifySource, verify};
use saki_tree::{Fetcher, LivePages};
use saki_vector::Column;

use crate::database::Database;
use saki_catalog::entries::describe_key;
use saki_catalog::statistics::hash;
use saki_catalog::{EntryLayout, Table};

/// What a table's segments hold, to be compared with its rows.
pub struct SegmentSums {
    seen: SegmentsVerification,
    /// By segment and column, of the runs; `None`: the run cannot be read, which is a fault of its own.
    found: Vec<Vec<Option<u64>>>,
    /// The same, of the rows.
    expected: Vec<Vec<u64>>,
    /// Rows by segment.
    rows: Vec<u64>,
    /// Rows whose key is below that of the first segment.
    rows_before: u64,
}

impl SegmentSums {
    /// Looks at all segments of a table. `progress` is told pages seen and pages there are.
    pub fn of_segments(
        db: &Database,
        fetcher: &mut Fetcher,
        table: &Table,
        root: &SegmentsRoot,
        live: &mut LivePages,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Self {
        let runs = table.segment_columns();
        let segments = usize::try_from(root.directory.entries).unwrap_or(0);
        let mut sums = Summing { columns: runs.columns(), found: Vec::with_capacity(segments.min(1 << 20)), progress };
        let source = VerifySource { fetcher, runs: &*db.volume, codec: db.codec.as_ref() };
        let seen = verify(source, root, &runs, live, &mut sums);
        let mut found = sums.found;
        found.resize(seen.segments.len(), vec![None; table.columns.len()]);
        let expected = vec![vec![0; table.columns.len()]; seen.segments.len()];
        let rows = vec![0; seen.segments.len()];
        Self { seen, found, expected, rows, rows_before: 0 }
    }

    /// Adds a row of the primary tree: its key, and the values of the table's columns.
    pub fn add_row(&mut self, key: &[u8], values: &[ValueRef<'_>]) {
        let up_to = self.seen.segments.partition_point(|segment| segment.first_key.as_slice() <= key);
        let Some(segment) = up_to.checked_sub(1) else {
            self.rows_before += 1;
            return;
        };
        self.rows[segment] += 1;
        for (sum, value) in self.expected[segment].iter_mut().zip(values) {
            *sum = sum.wrapping_add(hash(*value));
        }
    }

    pub fn segments(&self) -> u64 {
        self.seen.segments.len() as u64
    }

    /// Of the directory and the runs.
    pub fn pages(&self) -> u64 {
        self.seen.pages
    }

    /// All that is wrong, in words.
    pub fn faults(&self, table: &Table) -> Vec<String> {
        let layout = table.primary_layout();
        let mut faults: Vec<String> =
            self.seen.directory_faults.iter().map(|fault| format!("column segments: {fault}")).collect();
        for fault in &self.seen.faults {
            faults.push(format!("{}: {}", self.place(table, &layout, fault.segment, fault.column), fault.what));
        }
        if self.rows_before > 0 {
            faults.push(format!("column segments: {} rows are before the first segment", self.rows_before));
        }
        for (index, segment) in self.seen.segments.iter().enumerate() {
            if self.rows[index] != u64::from(segment.rows) {
                let place = self.place(table, &layout, index, None);
                faults.push(format!("{place}: {} rows, where the table has {}", segment.rows, self.rows[index]));
                continue;
            }
            for (column, found) in self.found[index].iter().enumerate() {
                if found.is_some_and(|found| found != self.expected[index][column]) {
                    faults.push(format!(
                        "{}: values differ from the rows",
                        self.place(table, &layout, index, Some(column))
                    ));
                }
            }
        }
        faults
    }

    /// `segment 3 from (id)=(7) on, column "name"`
    fn place(&self, table: &Table, layout: &EntryLayout, segment: usize, column: Option<usize>) -> String {
        let first_key = &self.seen.segments[segment].first_key;
        let key = describe_key(table, layout, first_key, layout.key_columns.len());
        let column = column.map_or_else(String::new, |column| format!(", column {:?}", table.columns[column].name));
        format!("segment {segment} from {key} on{column}")
    }
}

struct Summing<'s> {
    columns: &'s [ColumnType],
    found: Vec<Vec<Option<u64>>>,
    progress: &'s mut dyn FnMut(u64, u64),
}

impl InspectColumns for Summing<'_> {
    fn column(&mut self, segment: usize, column: usize, values: &Column) {
        let mut sum = 0_u64;
        let summed =
            for_each_value(values, self.columns[column].data_type, |value| sum = sum.wrapping_add(hash(value)));
        if self.found.len() <= segment {
            self.found.resize(segment + 1, vec![None; self.columns.len()]);
        }
        self.found[segment][column] = summed.is_ok().then_some(sum);
    }

    fn progress(&mut self, pages: u64, pages_expected: u64) {
        (self.progress)(pages, pages_expected);
    }
}
