//! What a scan of column segments is expected to read and to take.

use saki_base::Part;
use saki_columns::{ColumnCache, ColumnRun, Segment, SegmentTable};

use super::condition::zone_test;
use crate::access::path::Wanted;
use crate::cost::{ColumnWork, Costs, Estimate};

/// Runs that are looked for in the cache at most: a sample tells as much.
const CACHE_SAMPLE: usize = 64;

/// A scan of column segments as a way to find rows.
#[derive(Clone, Copy, Debug)]
pub struct ColumnPath {
    pub estimate: Estimate,
}

impl ColumnPath {
    pub fn new(wanted: &Wanted<'_>, segments: &SegmentTable, cache: &ColumnCache, costs: &dyn Costs) -> Self {
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
        let rows = (wanted.entries() * selectivity).min(rows_in + wanted.newer);
        // Columns that no test needs are read where a row passes; rows that do are taken to lie anywhere.
        let with_rows = if tested.is_empty() { 1.0 } else { 1.0 - (-rows / left.len().max(1) as f64).exp() };
        let share = match wanted.limit {
            Some(limit) if wanted.tests.is_empty() => (limit as f64 / rows_in.max(1.0)).min(1.0),
            _ => 1.0,
        };
        let runs_of = |columns: &[usize]| -> Vec<&ColumnRun> {
            let runs = left.iter().flat_map(|segment| columns.iter().map(|column| &segment.columns[*column]));
            runs.filter(|run| !run.is_missing()).collect()
        };
        let mut work = ColumnWork::default();
        for (columns, part) in [(&tested, share), (&output, share * with_rows)] {
            let runs = runs_of(columns);
            let missing = 1.0 - cached_share(&runs, cache);
            work.bytes += runs.iter().map(|run| f64::from(run.bytes)).sum::<f64>() * part * missing;
            work.runs += runs.len() as f64 * part * missing;
            work.values_decoded += rows_in * columns.len() as f64 * part * missing;
        }
        work.values_tested = rows_in * tested.len() as f64 * share;
        work.values_yielded = rows * share * wanted.columns.len() as f64;
        let parts: Vec<Part> =
            tested.iter().chain(&output).filter_map(|column| wanted.table.part_of(*column)).collect();
        let costs = costs.of(&parts);
        let seconds = costs.columns(&work) + costs.newer_by_column(wanted.newer);
        Self { estimate: Estimate { rows, seconds } }
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use saki_base::DataType;
    use saki_base::value::Value;
    use saki_catalog::{ColumnTest, Test};
    use saki_exec::predicate::CompareOp;

    use super::*;
    use crate::access::path::Path;
    use crate::fixture::{Fixture, TableBuilder};
    use saki_settings::AccessPath;

    /// 640 rows in segments of 64: `id` ascends, `text` is wide.
    static TABLE: LazyLock<Fixture> = LazyLock::new(|| {
        let fixture = Fixture::new();
        let table = TableBuilder::new("t")
            .column("id", DataType::Int8)
            .column("five", DataType::Int8)
            .column("text", DataType::Text)
            .key(&["id"]);
        let row = |id: i64| vec![Value::Int8(id), Value::Int8(id % 5), Value::Text(format!("{:0>300}", id * 7919))];
        fixture.load(table.with_segments(), &(0..640).map(row).collect::<Vec<_>>());
        fixture
    });

    fn below(value: i64) -> ColumnTest {
        ColumnTest::new(0, Test::Compare(CompareOp::Less, Value::Int8(value)))
    }

    fn estimate(columns: &[usize], tests: &[ColumnTest], limit: Option<usize>) -> Estimate {
        let env = TABLE.default_env();
        let table = TABLE.table("t");
        let segments = env.generation.segments(&table).unwrap().unwrap();
        let wanted = Wanted { limit, ..Wanted::new(&table, columns, tests) };
        // Nothing is in memory.
        let cache = ColumnCache::new(1 << 20);
        ColumnPath::new(&wanted, &segments, &cache, &*env).estimate
    }

    #[test]
    fn fewer_columns_and_fewer_segments_cost_less() {
        let all = estimate(&[0, 1, 2], &[], None).seconds;
        assert!(estimate(&[1], &[], None).seconds < all);
        let some = estimate(&[0, 1, 2], &[below(64)], None);
        assert!(some.seconds < all, "nine of ten segments have no such row");
        assert!((some.rows - 64.0).abs() < 12.0, "{}", some.rows);
    }

    #[test]
    fn no_more_rows_are_expected_than_lie_in_segments_that_may_have_some() {
        let beyond = ColumnTest::new(0, Test::Compare(CompareOp::Greater, Value::Int8(10_000)));
        assert_eq!(estimate(&[0], &[beyond], None).rows, 0.0);
        assert_eq!(estimate(&[0], &[], None).rows, 640.0);
        let first = ColumnTest::new(0, Test::Compare(CompareOp::Equal, Value::Int8(3)));
        assert!(estimate(&[0], &[first], None).rows <= 64.0);
    }

    #[test]
    fn a_limit_without_conditions_reads_a_part() {
        assert!(estimate(&[2], &[], Some(1)).seconds < estimate(&[2], &[], None).seconds);
        let tests = [below(600)];
        assert_eq!(estimate(&[2], &tests, Some(1)).seconds, estimate(&[2], &tests, None).seconds);
    }

    /// They are brought beside the segments one by one, whatever the conditions leave of them; a range of keys has few.
    #[test]
    fn newer_rows_make_columns_dear_and_lookups_by_key_hardly() {
        let env = TABLE.default_env();
        let table = TABLE.table("t");
        let segments = env.generation.segments(&table).unwrap().unwrap();
        let cache = ColumnCache::new(1 << 20);
        let tests = [ColumnTest::new(0, Test::OneOf { values: (0..3).map(Value::Int8).collect(), negated: false })];
        let seconds = |newer: f64| {
            let wanted = Wanted { newer, ..Wanted::new(&table, &[0, 1], &tests) };
            let path = Path::choose(&wanted, &env.costs, AccessPath::Rows);
            (ColumnPath::new(&wanted, &segments, &cache, &env.costs).estimate.seconds, path.estimate.seconds)
        };
        let ((few_columns, few_rows), (many_columns, many_rows)) = (seconds(0.0), seconds(212_000.0));
        assert!(many_columns - few_columns > 0.1, "{many_columns} {few_columns}");
        assert!(many_rows - few_rows < 1e-3 && many_rows < many_columns / 10.0, "{many_rows} {few_rows}");
    }

    #[test]
    fn more_rows_are_expected_where_the_base_has_none_yet() {
        let env = TABLE.default_env();
        let table = TABLE.table("t");
        let wanted = Wanted { newer: 64_000.0, ..Wanted::new(&table, &[0], &[]) };
        assert_eq!(Path::choose(&wanted, &env.costs, AccessPath::Auto).estimate.rows, 64_000.0);
        let segments = env.generation.segments(&table).unwrap().unwrap();
        let columns = ColumnPath::new(&wanted, &segments, &ColumnCache::new(1 << 20), &env.costs);
        assert_eq!(columns.estimate.rows, 64_000.0);
    }

    #[test]
    fn runs_in_memory_cost_no_reading() {
        let env = TABLE.default_env();
        let table = TABLE.table("t");
        let segments = env.generation.segments(&table).unwrap().unwrap();
        let seconds = |cache: &ColumnCache| {
            let wanted = Wanted::new(&table, &[0, 1, 2], &[]);
            ColumnPath::new(&wanted, &segments, cache, &*env).estimate.seconds
        };
        let cold = seconds(&ColumnCache::new(1 << 20));
        TABLE.rows(
            &TABLE.env({
                let mut settings = env.settings.clone();
                settings.set("access_path", Some("columns")).unwrap();
                settings
            }),
            "SELECT id, five, text FROM t",
        );
        let warm = seconds(env.segment_reader.cache());
        assert!(warm < cold, "{warm} against {cold}");
        assert!(Arc::strong_count(&segments) > 0);
    }
}
