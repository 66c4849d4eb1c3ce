//! Segments that lack a column: all of their rows have the same value, and nothing is read for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use saki_base::PageAddress;
use saki_base::value::Value;
use saki_columns::SegmentTable;

use super::table::{FLAG, Fixture, ID, NAME, Row, rows};
use super::{Condition, collect, expected, options, run, scan};

#[test]
fn a_column_that_segments_lack_is_the_same_in_all_rows() {
    let rows: Vec<Row> = rows(7, 5000).into_iter().map(|row| Row { flag: Some(true), ..row }).collect();
    let mut fixture = Fixture::new(7, &rows, 500);
    let mut columns = fixture.table.columns.clone();
    columns[FLAG].missing = Some(Value::Bool(true));
    let mut segments = fixture.table.segments.to_vec();
    // Every second segment: its zone says already what all rows have.
    for segment in segments.iter_mut().step_by(2) {
        (segment.columns[FLAG].first_page, segment.columns[FLAG].bytes) = (PageAddress(0), 0);
    }
    fixture.table = Arc::new(SegmentTable::new("things".to_owned(), columns, segments));
    let reader = fixture.reader(64 << 20);
    for filter in [
        vec![],
        vec![Condition::Flag],
        vec![Condition::NotFlag],
        vec![Condition::IdBelow(9_000), Condition::NameLike("am"), Condition::Flag],
    ] {
        for output in [&[ID, NAME, FLAG][..], &[FLAG]] {
            let execution = run(&reader, scan(&fixture, output, &filter, None), &options(2));
            assert_eq!(collect(&execution, output).unwrap(), expected(&rows, output, &filter), "{filter:?}");
        }
    }
    let fresh = fixture.reader(64 << 20);
    let execution = run(&fresh, scan(&fixture, &[FLAG], &[], None), &options(1));
    assert_eq!(collect(&execution, &[FLAG]).unwrap().len(), 5000);
    assert_eq!(execution.metrics().runs_read.load(Ordering::Relaxed), 5, "{}", execution.metrics());
}
