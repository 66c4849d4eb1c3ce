//! What is known of a table's values: gathered while loading or by ANALYZE, used to estimate
//! how many rows a condition leaves.
//!
//! Values are reduced to an *image*, a number that keeps their order as well as it can, so
//! that one histogram serves every type. Distinct values are counted by HyperLogLog over all rows;
//! histogram and common values come from an evenly spread sample.

use saki_base::ValueRef;
use saki_base::value::Value;
use saki_columns::distinct::DistinctCounter;
use saki_exec::predicate::CompareOp;

use crate::catalog::Table;
use crate::catalog::statistics::BUCKETS;
use crate::column_test::{ColumnTest, Test};
use crate::columns::ColumnReader;
use crate::guesses;

pub use crate::catalog::statistics::{ColumnStatistics, TableStatistics, hash, image};

/// Common values remembered of a column.
const COMMON: usize = 24;
/// Rows kept in the sample at most.
const SAMPLE_ROWS: usize = 20_000;

/// Gathers statistics from batches.
pub struct Collector {
    rows: u64,
    columns: Vec<ColumnCollector>,
    /// One row in so many is sampled.
    stride: u64,
    next_sample: u64,
}

struct ColumnCollector {
    nulls: u64,
    distinct: DistinctCounter,
    sample: Vec<Option<(f64, u64)>>,
}

impl Collector {
    pub fn new(table: &Table) -> Self {
        let column = || ColumnCollector { nulls: 0, distinct: DistinctCounter::default(), sample: Vec::new() };
        Self { rows: 0, columns: table.columns.iter().map(|_| column()).collect(), stride: 1, next_sample: 0 }
    }

    /// Adds `rows` rows of the table's columns.
    pub fn add(&mut self, readers: &[ColumnReader<'_>], rows: usize) {
        for (column, reader) in self.columns.iter_mut().zip(readers) {
            for row in 0..rows {
                match reader.value(row) {
                    ValueRef::Null => column.nulls += 1,
                    value => column.distinct.add(hash(value)),
                }
            }
        }
        let end = self.rows + rows as u64;
        while self.next_sample < end {
            let row = (self.next_sample - self.rows) as usize;
            for (column, reader) in self.columns.iter_mut().zip(readers) {
                let value = reader.value(row);
                column.sample.push((value != ValueRef::Null).then(|| (image(value), hash(value))));
            }
            self.next_sample += self.stride;
            if self.columns.first().is_some_and(|column| column.sample.len() >= SAMPLE_ROWS) {
                self.thin();
            }
        }
        self.rows = end;
    }

    /// Drops every second sampled row and samples half as often.
    fn thin(&mut self) {
        for column in &mut self.columns {
            let mut index = 0;
            column.sample.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.stride *= 2;
        self.next_sample = self.next_sample.next_multiple_of(self.stride);
    }

    pub fn finish(self) -> TableStatistics {
        let rows = self.rows;
        let whole = self.stride == 1;
        let columns = self.columns.into_iter().map(|column| column.finish(rows, whole)).collect();
        TableStatistics { rows, columns }
    }
}

impl ColumnCollector {
    fn finish(mut self, rows: u64, whole: bool) -> ColumnStatistics {
        let present = rows.saturating_sub(self.nulls);
        if present == 0 {
            return ColumnStatistics { null_fraction: if rows == 0 { 0.0 } else { 1.0 }, ..Default::default() };
        }
        let mut distinct = self.distinct.estimate().clamp(1.0, present as f64);
        let sampled_rows = self.sample.len() as f64;
        let mut hashes: Vec<u64> = self.sample.iter().flatten().map(|(_, hash)| *hash).collect();
        hashes.sort_unstable();
        let mut counts: Vec<(u64, usize)> = hashes.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
        if whole {
            distinct = counts.len() as f64;
        }
        counts.sort_unstable_by_key(|(hash, count)| (std::cmp::Reverse(*count), *hash));
        let average = hashes.len() as f64 / distinct;
        let common = counts
            .iter()
            .take(COMMON)
            .filter(|(_, count)| *count > 3 && *count as f64 > 1.25 * average)
            .map(|(hash, count)| (*hash, *count as f64 / sampled_rows))
            .collect();
        let mut images: Vec<f64> =
            self.sample.drain(..).flatten().map(|(image, _)| image).filter(|image| image.is_finite()).collect();
        images.sort_unstable_by(f64::total_cmp);
        let last = images.len().saturating_sub(1);
        let steps = BUCKETS.min(last.max(1));
        let bounds =
            if images.is_empty() { Vec::new() } else { (0..=steps).map(|i| images[i * last / steps]).collect() };
        ColumnStatistics { distinct, null_fraction: self.nulls as f64 / rows as f64, bounds, common }
    }
}

impl Table {
    pub fn rows(&self) -> f64 {
        self.root.entries as f64
    }

    /// Statistics of a column, or a guess where there are none.
    pub fn column_statistics(&self, column: usize) -> ColumnStatistics {
        if let Some(known) = self.statistics.as_ref().and_then(|s| s.columns.get(column)) {
            return known.clone();
        }
        let rows = self.rows().max(1.0);
        let unique = self.key_columns() == [column]
            || self.indexes.iter().any(|i| i.unique && i.columns.len() == 1 && i.columns[0].column == column);
        let distinct = if unique { rows } else { guesses::distinct(rows) };
        ColumnStatistics { distinct, ..Default::default() }
    }

    /// Distinct values of a column.
    pub fn distinct(&self, column: usize) -> f64 {
        self.column_statistics(column).distinct.clamp(1.0, self.rows().max(1.0))
    }

    /// Share of the rows with a value, if it is there: that it lies beyond all that was seen says nothing, as new keys
    /// do. `None` without statistics.
    pub fn likely_share(&self, column: usize, value: &Value) -> Option<f64> {
        let statistics = self.statistics.as_ref()?.columns.get(column)?;
        Some(statistics.common_share(value).unwrap_or_else(|| statistics.uncommon()))
    }

    /// Share of the rows for which all tests hold.
    pub fn selectivity<'t>(&self, tests: impl IntoIterator<Item = &'t ColumnTest>) -> f64 {
        let mut share = 1.0;
        // Lower and upper bounds of one column belong together.
        let mut intervals: Vec<(usize, f64, f64)> = Vec::new();
        for ColumnTest { column, test, .. } in tests {
            let statistics = self.column_statistics(*column);
            let present = 1.0 - statistics.null_fraction;
            match test {
                Test::Compare(CompareOp::Equal, value) => share *= statistics.equal(value),
                Test::Compare(CompareOp::NotEqual, value) => share *= (present - statistics.equal(value)).max(0.0),
                Test::Compare(op, value) => {
                    let position = intervals.iter().position(|(c, ..)| c == column).unwrap_or_else(|| {
                        intervals.push((*column, 0.0, 1.0));
                        intervals.len() - 1
                    });
                    let interval = &mut intervals[position];
                    let mut below = statistics.below(image(value.as_ref()));
                    if matches!(op, CompareOp::LessOrEqual | CompareOp::Greater) {
                        below = (below + statistics.equal(value)).min(1.0);
                    }
                    match op {
                        CompareOp::Less | CompareOp::LessOrEqual => interval.2 = interval.2.min(below),
                        _ => interval.1 = interval.1.max(below),
                    }
                }
                Test::OneOf { values, negated } => {
                    let any: f64 = values.iter().map(|value| statistics.equal(value)).sum::<f64>().min(present);
                    share *= if *negated { (present - any).max(0.0) } else { any };
                }
                Test::IsNull => share *= statistics.null_fraction,
                Test::IsNotNull => share *= present,
            }
        }
        for (column, low, high) in intervals {
            let statistics = self.column_statistics(column);
            // No estimate is exact enough to promise an empty range.
            let least = guesses::EMPTY_RANGE_ROWS / self.rows().max(1.0);
            share *= (high - low).max(least) * (1.0 - statistics.null_fraction);
        }
        share.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use saki_base::DataType;

    use super::*;
    use crate::convert::array_of;
    use crate::fixture::{TYPES, column, index, table, value};

    fn statistics(values: impl Iterator<Item = i32>) -> ColumnStatistics {
        let mut column = ColumnCollector { nulls: 0, distinct: DistinctCounter::default(), sample: Vec::new() };
        let mut rows = 0;
        for v in values {
            column.distinct.add(hash(ValueRef::Int4(v)));
            column.sample.push(Some((v.into(), hash(ValueRef::Int4(v)))));
            rows += 1;
        }
        column.finish(rows, false)
    }

    #[test]
    fn distinct_values_are_counted_within_a_few_percent() {
        for n in [1, 10, 1000, 100_000] {
            let distinct = statistics((0..200_000).map(|i| i % n)).distinct;
            assert!((distinct / f64::from(n) - 1.0).abs() < 0.05, "{n}: {distinct}");
        }
    }

    #[test]
    fn a_histogram_interpolates_and_knows_its_ends() {
        let s = statistics(0..10_000);
        assert!((s.below(2500.0) - 0.25).abs() < 0.01);
        assert_eq!(s.below(-1.0), 0.0);
        assert_eq!(s.below(20_000.0), 1.0);
        assert_eq!(s.equal(&Value::Int4(50_000)), 0.0);
    }

    #[test]
    fn a_common_value_keeps_its_share() {
        let s = statistics((0..10_000).map(|i| if i % 2 == 0 { 7 } else { i }));
        assert!((s.equal(&Value::Int4(7)) - 0.5).abs() < 0.01);
        assert!(s.equal(&Value::Int4(9)) < 0.001);
    }

    /// A table of one column with statistics of these values.
    fn of_values(data_type: DataType, values: &[Value]) -> Table {
        let mut table = table("t", vec![column("x", data_type, true)], Vec::new());
        let array = array_of(data_type, values);
        let mut collector = Collector::new(&table);
        collector.add(&[ColumnReader::new(&array, &table.columns[0]).unwrap()], values.len());
        table.root.entries = values.len() as u64;
        table.statistics = Some(collector.finish());
        table
    }

    fn test(op: CompareOp, value: Value) -> ColumnTest {
        ColumnTest::new(0, Test::Compare(op, value))
    }

    #[test]
    fn values_that_are_no_numbers_leave_statistics_that_can_be_stored() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, 2.0].map(Value::Float8);
        let table = of_values(DataType::Float8, &odd);
        let statistics = table.statistics.clone().unwrap();
        let json = serde_json::to_string(&statistics).unwrap();
        assert_eq!(serde_json::from_str::<TableStatistics>(&json).unwrap(), statistics);
        assert_eq!(statistics.columns[0].bounds, [1.0, 2.0]);
        for value in odd {
            let share = table.selectivity([&test(CompareOp::LessOrEqual, value)]);
            assert!((0.0..=1.0).contains(&share), "{share}");
        }
    }

    #[test]
    fn statistics_with_null_for_a_bound_are_read_without_it() {
        let stored = r#"{"distinct":3.0,"null_fraction":0.0,"bounds":[null,1.0,2.5,null],"common":[]}"#;
        assert_eq!(serde_json::from_str::<ColumnStatistics>(stored).unwrap().bounds, [1.0, 2.5]);
    }

    #[test]
    fn null_is_a_share_of_its_own() {
        let values: Vec<_> = (0..100).map(|i| if i % 4 == 0 { Value::Null } else { Value::Int4(i) }).collect();
        let table = of_values(DataType::Int4, &values);
        assert_eq!(table.selectivity([&ColumnTest::new(0, Test::IsNull)]), 0.25);
        assert_eq!(table.selectivity([&ColumnTest::new(0, Test::IsNotNull)]), 0.75);
        let none = ColumnTest::new(0, Test::OneOf { values: Vec::new(), negated: true });
        assert_eq!(table.selectivity([&none]), 0.75, "NULL is not among none");
        assert_eq!(of_values(DataType::Int4, &[Value::Null]).column_statistics(0).null_fraction, 1.0);
    }

    #[test]
    fn bounds_of_one_column_belong_together() {
        let values: Vec<_> = (0..10_000).map(Value::Int4).collect();
        let table = of_values(DataType::Int4, &values);
        let between = [test(CompareOp::GreaterOrEqual, Value::Int4(4000)), test(CompareOp::Less, Value::Int4(5000))];
        let share = table.selectivity(&between);
        assert!((share - 0.1).abs() < 0.01, "{share}");
        let nothing = [test(CompareOp::Greater, Value::Int4(5000)), test(CompareOp::Less, Value::Int4(4000))];
        assert!(table.selectivity(&nothing) > 0.0, "no estimate promises that there is nothing");
    }

    #[test]
    fn without_statistics_a_unique_column_has_as_many_values_as_rows() {
        let mut table =
            table("t", vec![column("a", DataType::Int4, false), column("b", DataType::Int4, false)], vec![0]);
        table.root.entries = 1000;
        assert_eq!((table.distinct(0), table.distinct(1)), (1000.0, 100.0));
        table.indexes.push(index("t_b", &[(1, false)], true, &[]));
        assert_eq!(table.distinct(1), 1000.0);
        assert_eq!(table.likely_share(0, &Value::Int4(1)), None);
    }

    #[test]
    fn a_value_beyond_what_was_seen_is_as_likely_as_any_uncommon_one() {
        let values: Vec<_> = (0..1000).map(|i| Value::Int4(if i < 500 { -1 } else { i })).collect();
        let table = of_values(DataType::Int4, &values);
        let likely = |value| table.likely_share(0, &Value::Int4(value)).unwrap();
        assert_eq!(likely(-1), 0.5);
        assert_eq!(likely(5_000_000), likely(700));
        assert_eq!(table.selectivity([&test(CompareOp::Equal, Value::Int4(5_000_000))]), 0.0);
    }

    #[test]
    fn images_keep_the_order_of_values() {
        let ordered = ["", "a", "aa", "ab", "b", "zz"].map(|text| image(ValueRef::Text(text)));
        assert!(ordered.is_sorted());
        assert!(image(ValueRef::Bool(false)) < image(ValueRef::Bool(true)));
        assert!(image(ValueRef::Decimal(-1)) < image(ValueRef::Decimal(0)));
        assert!(image(ValueRef::Null).is_nan());
    }

    proptest! {
        #[test]
        fn shares_are_shares_and_grow_with_the_range(
            values in TYPES.map(|data_type| prop::collection::vec(value(data_type, true), 1..60)).to_vec(),
            pick in any::<prop::sample::Index>(),
        ) {
            for (data_type, values) in TYPES.iter().zip(&values) {
                let table = of_values(*data_type, values);
                let mut present: Vec<_> = values.iter().filter(|value| !value.is_null()).cloned().collect();
                present.sort_by(|a, b| image(a.as_ref()).total_cmp(&image(b.as_ref())));
                let below = |value: &Value| table.selectivity([&test(CompareOp::Less, value.clone())]);
                let shares: Vec<f64> = present.iter().map(below).collect();
                prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{:?}", shares);
                prop_assert!(shares.is_sorted(), "{:?} of {:?}", shares, present);
                let any = &values[pick.index(values.len())];
                for op in [CompareOp::Equal, CompareOp::NotEqual, CompareOp::GreaterOrEqual] {
                    let share = table.selectivity([&test(op, any.clone())]);
                    prop_assert!((0.0..=1.0).contains(&share), "{}", share);
                }
            }
        }
    }

    proptest! {
        /// Floats of all kinds among the values, and few of them.
        #[test]
        fn statistics_are_finite_whatever_was_seen(
            floats in prop::collection::vec(prop_oneof![
                any::<f64>(),
                prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, f64::MAX, f64::MIN]),
            ], 0..80),
            nulls in 0..5_usize,
        ) {
            let mut values: Vec<Value> = floats.iter().map(|float| Value::Float8(*float)).collect();
            values.extend(std::iter::repeat_n(Value::Null, nulls));
            let table = of_values(DataType::Float8, &values);
            let column = &table.statistics.as_ref().unwrap().columns[0];
            prop_assert!(column.distinct.is_finite() && column.distinct >= 0.0);
            prop_assert!((0.0..=1.0).contains(&column.null_fraction));
            prop_assert!(column.bounds.iter().all(|bound| bound.is_finite()) && column.bounds.is_sorted());
            prop_assert!(column.common.iter().all(|(_, share)| (0.0..=1.0).contains(share)));
            let json = serde_json::to_string(&table.statistics).unwrap();
            // The last bit of a number may be lost on the way; of the smallest, which have few, more.
            let again = serde_json::from_str::<TableStatistics>(&json).unwrap();
            prop_assert_eq!(again.columns[0].bounds.len(), column.bounds.len());
            for (read, bound) in again.columns[0].bounds.iter().zip(&column.bounds) {
                let lost = (bound.abs() * 1e-15).max(f64::MIN_POSITIVE * 1e-14);
                prop_assert!((read - bound).abs() <= lost, "{} is read as {}", bound, read);
            }
            for value in values.iter().filter(|value| !value.is_null()) {
                for op in [CompareOp::Equal, CompareOp::Less, CompareOp::Greater, CompareOp::NotEqual] {
                    let share = table.selectivity([&test(op, value.clone())]);
                    prop_assert!((0.0..=1.0).contains(&share), "{:?} {:?}: {}", op, value, share);
                }
                let likely = table.likely_share(0, value).unwrap();
                prop_assert!((0.0..=1.0).contains(&likely), "{}", likely);
            }
        }

        /// Batches of any size make the same statistics.
        #[test]
        fn how_rows_are_cut_into_batches_makes_no_difference(
            values in prop::collection::vec(value(DataType::Int4, true), 1..200),
            cuts in prop::collection::vec(1..40_usize, 1..8),
        ) {
            let table = table("t", vec![column("x", DataType::Int4, true)], Vec::new());
            let whole = of_values(DataType::Int4, &values).statistics.unwrap();
            let mut collector = Collector::new(&table);
            let (mut rest, mut cuts) = (&values[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                let array = array_of(DataType::Int4, now);
                collector.add(&[ColumnReader::new(&array, &table.columns[0]).unwrap()], now.len());
                rest = later;
            }
            prop_assert_eq!(collector.finish(), whole);
        }
    }

    #[test]
    fn a_long_load_is_sampled_evenly() {
        let rows = 3 * SAMPLE_ROWS as i32;
        let values: Vec<Value> = (0..rows).map(Value::Int4).collect();
        let table = of_values(DataType::Int4, &values);
        let column = &table.statistics.as_ref().unwrap().columns[0];
        assert_eq!(column.bounds.len(), BUCKETS + 1);
        for (at, bound) in column.bounds.iter().enumerate() {
            let expected = f64::from(rows) * at as f64 / BUCKETS as f64;
            assert!((bound - expected).abs() < f64::from(rows) / 50.0, "{at}: {bound}, not about {expected}");
        }
    }

    #[test]
    fn of_no_rows_nothing_is_known() {
        let table = of_values(DataType::Int4, &[]);
        let column = table.column_statistics(0);
        assert_eq!((column.distinct, column.null_fraction, column.bounds.len()), (0.0, 0.0, 0));
        assert_eq!(table.distinct(0), 1.0);
        let share = table.selectivity([&test(CompareOp::Equal, Value::Int4(1))]);
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
