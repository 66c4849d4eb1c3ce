//! What the planner is told of a scan's rows.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use saki_base::DataType;
use saki_base::value::Value;

use super::parts::ColumnScanParts;

/// Of one of so many `partitions`.
pub fn of_scan(parts: &ColumnScanParts, partitions: usize) -> Statistics {
    let scan = &parts.scan;
    let rows = parts.estimate.rows / partitions.max(1) as f64;
    let whole = scan.tests.is_empty() && scan.rest.is_empty() && parts.limit.is_none() && parts.keys.is_empty();
    let is_changed = parts.env.snapshot.delta(&scan.table).is_some();
    let num_rows = match whole && partitions == 1 && !is_changed {
        true => Precision::Exact(parts.segments.rows as usize),
        false => Precision::Inexact(rows.ceil() as usize),
    };
    let columns = scan.columns.iter().map(|column| of_column(parts, *column, rows)).collect();
    Statistics { num_rows, total_byte_size: Precision::Absent, column_statistics: columns }
}

fn of_column(parts: &ColumnScanParts, column: usize, rows: f64) -> ColumnStatistics {
    let known = parts.scan.table.column_statistics(column);
    let zone = &parts.segments.zones[column];
    let data_type = parts.scan.table.columns[column].data_type;
    let bound = |value: &Value| scalar(value, data_type).map_or(Precision::Absent, Precision::Inexact);
    ColumnStatistics::new_unknown()
        .with_distinct_count(Precision::Inexact(known.distinct.min(rows).max(1.0) as usize))
        .with_null_count(Precision::Inexact((known.null_fraction * rows) as usize))
        .with_min_value(bound(&zone.min))
        .with_max_value(bound(&zone.max))
}

/// A bound of numbers and times, as the planner takes it; others do not help it.
fn scalar(value: &Value, data_type: DataType) -> Option<ScalarValue> {
    Some(match (value, data_type) {
        (Value::Int2(value), DataType::Int2) => ScalarValue::Int16(Some(*value)),
        (Value::Int4(value), DataType::Int4) => ScalarValue::Int32(Some(*value)),
        (Value::Int8(value), DataType::Int8) => ScalarValue::Int64(Some(*value)),
        (Value::Date(value), DataType::Date) => ScalarValue::Date32(Some(*value)),
        (Value::Timestamp(value), DataType::Timestamp) => ScalarValue::TimestampMicrosecond(Some(*value), None),
        (Value::Decimal(value), DataType::Decimal { precision, scale }) => {
            ScalarValue::Decimal128(Some(*value), precision, scale as i8)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bounds_that_the_planner_compares_are_told() {
        let money = DataType::Decimal { precision: 12, scale: 2 };
        let cases = [
            (Value::Int2(3), DataType::Int2, Some(ScalarValue::Int16(Some(3)))),
            (Value::Int4(3), DataType::Int4, Some(ScalarValue::Int32(Some(3)))),
            (Value::Int8(3), DataType::Int8, Some(ScalarValue::Int64(Some(3)))),
            (Value::Date(3), DataType::Date, Some(ScalarValue::Date32(Some(3)))),
            (Value::Timestamp(3), DataType::Timestamp, Some(ScalarValue::TimestampMicrosecond(Some(3), None))),
            (Value::Decimal(3), money, Some(ScalarValue::Decimal128(Some(3), 12, 2))),
            (Value::Text("a".into()), DataType::Text, None),
            (Value::Float8(1.0), DataType::Float8, None),
            (Value::Null, DataType::Int8, None),
        ];
        for (value, data_type, expected) in cases {
            assert_eq!(scalar(&value, data_type), expected, "{value:?}");
        }
    }

    #[test]
    fn a_scan_tells_of_its_columns_what_zones_and_samples_know() {
        use crate::fixture::{Fixture, TableBuilder};

        let fixture = Fixture::new();
        let table = TableBuilder::new("t").column("id", DataType::Int8).nullable("five", DataType::Int8).key(&["id"]);
        let row = |id: i64| vec![Value::Int8(id), if id % 4 == 0 { Value::Null } else { Value::Int8(id % 5) }];
        fixture.load(table.with_segments(), &(10..110).map(row).collect::<Vec<_>>());
        let mut settings = saki_settings::Settings { partitions: 1, ..Default::default() };
        settings.set("access_path", Some("columns")).unwrap();
        let env = fixture.env(settings);
        let plan = fixture.plan(&env, "SELECT five, id FROM t WHERE id < 60");
        let statistics = crate::node::statistics_of(plan.plan().as_ref()).unwrap();
        let [five, id] = &statistics.column_statistics[..] else { panic!("two columns") };
        assert_eq!(id.min_value, Precision::Inexact(ScalarValue::Int64(Some(10))));
        assert_eq!(id.max_value, Precision::Inexact(ScalarValue::Int64(Some(109))));
        assert!(matches!(five.distinct_count, Precision::Inexact(4..=6)), "{:?}", five.distinct_count);
        assert!(matches!(five.null_count, Precision::Inexact(10..=14)), "{:?}", five.null_count);
    }
}
