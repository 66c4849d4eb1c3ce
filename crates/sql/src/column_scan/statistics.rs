//! What the planner is told of a scan's rows.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use saki_base::DataType;
use saki_base::value::Value;

use super::ColumnScanParts;

/// Of one of so many `partitions`.
pub fn of_scan(parts: &ColumnScanParts, partitions: usize) -> Statistics {
    let scan = &parts.scan;
    let rows = parts.estimate.rows / partitions.max(1) as f64;
    let whole = scan.tests.is_empty() && scan.rest.is_empty() && parts.limit.is_none() && parts.keys.is_empty();
    let is_changed = parts.env.view.delta(&scan.table).is_some();
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
