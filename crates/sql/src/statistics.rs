//! What is known of a table's values: gathered while loading or by ANALYZE, used to estimate
//! how many rows a condition leaves.
//!
//! Values are reduced to an *image*, a number that keeps their order as well as it can, so
//! that one histogram serves every type. Distinct values are counted by HyperLogLog over all rows;
//! histogram and common values come from an evenly spread sample.

use saki_base::value::Value;
use saki_base::{ValueRef, checksum};
use saki_columns::distinct::{DistinctCounter, hash_integer};
use saki_exec::predicate::CompareOp;
use serde::{Deserialize, Serialize};

use crate::catalog::Table;
use crate::column_test::{ColumnTest, Test};
use crate::columns::ColumnReader;

/// Buckets of a histogram.
const BUCKETS: usize = 100;
/// Common values remembered of a column.
const COMMON: usize = 24;
/// Rows kept in the sample at most.
const SAMPLE_ROWS: usize = 20_000;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TableStatistics {
    pub rows: u64,
    pub columns: Vec<ColumnStatistics>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ColumnStatistics {
    /// Distinct values, NULL not counted.
    pub distinct: f64,
    pub null_fraction: f64,
    /// Images of equally frequent steps of the non-NULL values; first and last are minimum and maximum.
    pub bounds: Vec<f64>,
    /// Hash and share of all rows of values far more frequent than the average.
    pub common: Vec<(u64, f64)>,
}

/// A number in the order of the values, as far as 53 bits carry.
pub fn image(value: ValueRef<'_>) -> f64 {
    let leading = |bytes: &[u8]| {
        let mut prefix = [0; 8];
        let n = bytes.len().min(6);
        prefix[2..2 + n].copy_from_slice(&bytes[..n]);
        u64::from_be_bytes(prefix) as f64
    };
    match value {
        ValueRef::Null => f64::NAN,
        ValueRef::Bool(v) => f64::from(u8::from(v)),
        ValueRef::Int2(v) => v.into(),
        ValueRef::Int4(v) | ValueRef::Date(v) => v.into(),
        ValueRef::Int8(v) | ValueRef::Timestamp(v) | ValueRef::Timestamptz(v) => v as f64,
        ValueRef::Float4(v) => v.into(),
        ValueRef::Float8(v) => v,
        ValueRef::Decimal(v) => v as f64,
        ValueRef::Text(v) => leading(v.as_bytes()),
        ValueRef::Bytea(v) => leading(v),
        ValueRef::Uuid(v) => leading(&v),
    }
}

/// Of a value; equal values of one type have equal hashes.
pub(crate) fn hash(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Bool(v) => hash_integer(v.into()),
        ValueRef::Int2(v) => hash_integer(v as u64),
        ValueRef::Int4(v) | ValueRef::Date(v) => hash_integer(v as u64),
        ValueRef::Int8(v) | ValueRef::Timestamp(v) | ValueRef::Timestamptz(v) => hash_integer(v as u64),
        ValueRef::Float4(v) => hash_integer(f64::from(v).to_bits()),
        ValueRef::Float8(v) => hash_integer(v.to_bits()),
        ValueRef::Decimal(v) => hash_integer(v as u64 ^ (v >> 64) as u64),
        ValueRef::Text(v) => checksum(v.as_bytes()),
        ValueRef::Bytea(v) => checksum(v),
        ValueRef::Uuid(v) => checksum(&v),
    }
}

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
        let mut images: Vec<f64> = self.sample.drain(..).flatten().map(|(image, _)| image).collect();
        images.sort_unstable_by(f64::total_cmp);
        let last = images.len().saturating_sub(1);
        let steps = BUCKETS.min(last.max(1));
        let bounds =
            if images.is_empty() { Vec::new() } else { (0..=steps).map(|i| images[i * last / steps]).collect() };
        ColumnStatistics { distinct, null_fraction: self.nulls as f64 / rows as f64, bounds, common }
    }
}

impl ColumnStatistics {
    /// Share of rows whose value is `value`.
    fn equal(&self, value: &Value) -> f64 {
        if let Some(share) = self.common_share(value) {
            return share;
        }
        if let (Some(low), Some(high)) = (self.bounds.first(), self.bounds.last()) {
            let at = image(value.as_ref());
            // A sample does not know the extremes exactly: allow a bucket's width beyond.
            let slack = (high - low) / BUCKETS as f64;
            if at < low - slack || at > high + slack {
                return 0.0;
            }
        }
        self.uncommon()
    }

    /// Share of rows whose value is `value`, if that is a common one.
    fn common_share(&self, value: &Value) -> Option<f64> {
        let wanted = hash(value.as_ref());
        self.common.iter().find(|(hash, _)| *hash == wanted).map(|(_, share)| *share)
    }

    /// Share of rows with a value that is not among the common ones.
    fn uncommon(&self) -> f64 {
        let common: f64 = self.common.iter().map(|(_, share)| share).sum();
        let others = (self.distinct - self.common.len() as f64).max(1.0);
        ((1.0 - self.null_fraction - common) / others).clamp(0.0, 1.0)
    }

    /// Share of the non-NULL values below `at`.
    fn below(&self, at: f64) -> f64 {
        let steps = self.bounds.len().saturating_sub(1);
        if steps == 0 {
            return 1.0 / 3.0;
        }
        let bucket = self.bounds.partition_point(|bound| *bound < at);
        if bucket == 0 {
            return 0.0;
        }
        if bucket > steps {
            return 1.0;
        }
        let (low, high) = (self.bounds[bucket - 1], self.bounds[bucket]);
        let inside = if high > low { (at - low) / (high - low) } else { 0.5 };
        ((bucket - 1) as f64 + inside) / steps as f64
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
        let distinct = if unique { rows } else { (rows / 10.0).clamp(1.0, 10_000.0) };
        ColumnStatistics { distinct, ..Default::default() }
    }

    /// Distinct values of a column.
    pub fn distinct(&self, column: usize) -> f64 {
        self.column_statistics(column).distinct.clamp(1.0, self.rows().max(1.0))
    }

    /// Share of the rows with a value, if it is there: that it lies beyond all that was seen says nothing, as new keys do. `None` without
    /// statistics.
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
            let least = 0.5 / self.rows().max(1.0);
            share *= (high - low).max(least) * (1.0 - statistics.null_fraction);
        }
        share.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
