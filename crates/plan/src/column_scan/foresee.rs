//! What a scan of segments is about to read: the runs of its columns in the segments that its zone maps leave.

use datafusion::physical_expr::utils::collect_columns;
use saki_columns::Test as ZoneTest;

use super::condition::zone_test;
use super::parts::ColumnScanParts;
use crate::node::Forecast;

/// Runs that are in memory are left out. A scan that stops at a limit says nothing: how far it comes is not known.
pub fn of_scan(parts: &ColumnScanParts, forecast: &mut Forecast) {
    let ColumnScanParts { env, segments, scan, limit, keys, .. } = parts;
    let Some(database) = forecast.database(env).filter(|_| limit.is_none()) else { return };
    let mut always: Vec<usize> = scan.columns.clone();
    always.extend(scan.rest.iter().flat_map(collect_columns).map(|column| column.index()));
    always.extend(keys.iter().map(|(column, _)| *column));
    let tests: Vec<_> = scan.tests.iter().map(|test| (test.column, zone_test(&test.test))).collect();
    let page_bytes = database.page_size().bytes();
    let cache = env.segment_reader.cache();
    for segment in segments.segments.iter() {
        let zone = |column: usize| &segment.columns[column].zone;
        let may_pass = |(column, test): &(usize, Option<ZoneTest>)| {
            test.as_ref().is_none_or(|test| zone(*column).may_pass(test, segment.rows))
        };
        // Where all rows pass, none is looked at for it.
        let all_pass = |(column, test): &(usize, Option<ZoneTest>)| {
            test.as_ref().is_some_and(|test| zone(*column).all_pass(test, segment.rows))
        };
        if !tests.iter().all(may_pass) {
            continue;
        }
        let tested = tests.iter().filter(|test| !all_pass(test)).map(|(column, _)| *column);
        let mut columns: Vec<usize> = always.iter().copied().chain(tested).collect();
        columns.sort_unstable();
        columns.dedup();
        for run in columns.into_iter().filter_map(|column| segment.columns.get(column)) {
            if !run.is_missing() && !cache.contains(run.first_page) {
                forecast.run(&database, run.first_page, run.page_count(page_bytes));
            }
        }
    }
}
