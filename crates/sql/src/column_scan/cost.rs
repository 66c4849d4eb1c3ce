//! What a scan of column segments is expected to read and to take.

use saki_columns::{ColumnCache, ColumnRun, Segment, SegmentTable};

use super::condition::zone_test;
use crate::cost::{ColumnWork, CostModel, Estimate};
use crate::path::Wanted;

/// Runs that are looked for in the cache at most: a sample tells as much.
const CACHE_SAMPLE: usize = 64;

/// A scan of column segments as a way to find rows.
#[derive(Clone, Copy, Debug)]
pub struct ColumnPath {
    pub estimate: Estimate,
}

impl ColumnPath {
    pub fn new(wanted: &Wanted<'_>, segments: &SegmentTable, cache: &ColumnCache, costs: &CostModel) -> Self {
        let tested: Vec<usize> = wanted.tests.iter().map(|test| test.column).collect();
        let output: Vec<usize> = wanted.columns.iter().copied().filter(|column| !tested.contains(column)).collect();
        let zone_tests: Vec<_> =
            wanted.tests.iter().filter_map(|test| Some((test.column, zone_test(&test.test)?))).collect();
        let may_have_rows = |segment: &&Segment| {
            zone_tests.iter().all(|(column, test)| segment.columns[*column].zone.may_pass(test, segment.rows))
        };
        let left: Vec<&Segment> = segments.segments.iter().filter(may_have_rows).collect();
        let rows_in: f64 = left.iter().map(|segment| f64::from(segment.rows)).sum();
        let selectivity = wanted.table.selectivity(wanted.tests) * wanted.other_selectivity;
        let rows = (wanted.table.rows() * selectivity).min(rows_in);
        // Columns that no test needs are read where a row passes; rows that do are taken to lie anywhere.
        let with_rows = if tested.is_empty() { 1.0 } else { 1.0 - (-rows / left.len().max(1) as f64).exp() };
        let share = match wanted.limit {
            Some(limit) if wanted.tests.is_empty() => (limit as f64 / rows_in.max(1.0)).min(1.0),
            _ => 1.0,
        };
        let runs_of = |columns: &[usize]| -> Vec<&ColumnRun> {
            left.iter().flat_map(|segment| columns.iter().map(|column| &segment.columns[*column])).collect()
        };
        let mut work = ColumnWork::default();
        for (columns, part) in [(&tested, share), (&output, share * with_rows)] {
            let runs = runs_of(columns);
            let bytes: f64 = runs.iter().map(|run| f64::from(run.bytes)).sum();
            let missing = 1.0 - cached_share(&runs, cache);
            work.bytes += bytes * part * missing;
            work.runs += runs.len() as f64 * part * missing;
            work.values_decoded += rows_in * columns.len() as f64 * part * missing;
        }
        work.values_tested = rows_in * tested.len() as f64 * share;
        work.values_yielded = rows * share * wanted.columns.len() as f64;
        Self { estimate: Estimate { rows, seconds: costs.columns(&work) } }
    }
}

/// The share of runs that is in memory, judged by a sample.
fn cached_share(runs: &[&ColumnRun], cache: &ColumnCache) -> f64 {
    let step = runs.len().div_ceil(CACHE_SAMPLE).max(1);
    let sample = runs.iter().step_by(step);
    let (looked_at, found) = sample.fold((0_u32, 0_u32), |(looked_at, found), run| {
        (looked_at + 1, found + u32::from(cache.contains(run.first_page)))
    });
    f64::from(found) / f64::from(looked_at.max(1))
}
