//! Columns that were added to a table after a segment was written: the segment has no run of them, and all of its rows
//! have the same value.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringViewArray, UInt32Array,
};
use arrow_buffer::IntervalMonthDayNano;
use saki_base::types::{DECIMAL_PRECISION_MAX, DECIMAL64_PRECISION_MAX};
use saki_base::{DataType, Value};
use saki_vector::Column;

use crate::ColumnsError;
use crate::codec::no_values;
use crate::segment::{ColumnRun, ColumnType};
use crate::zone::{Zone, survey};

/// The values of so many rows that lack a column.
///
/// # Errors
/// `Corrupt` if no row of the table may lack it.
pub fn missing_column(column: &ColumnType, rows: usize) -> Result<Column, ColumnsError> {
    let Some(value) = &column.missing else {
        return Err(ColumnsError::Corrupt(format!("a segment without column {:?}", column.name)));
    };
    if value.is_null() {
        return Ok(no_values(column.data_type, rows));
    }
    let same = UInt32Array::from(vec![0; rows]);
    one(value, column.data_type)?.take(&same).map_err(|error| ColumnsError::Internal(error.to_string()))
}

/// What stands for a run of a column that a segment lacks.
pub(crate) fn missing_run(column: &ColumnType, rows: u32) -> Result<ColumnRun, ColumnsError> {
    let zone = survey(&missing_column(column, 1)?, column.data_type)?;
    let nulls = if zone.nulls > 0 { rows } else { 0 };
    Ok(ColumnRun::missing(Zone { nulls, ..zone }))
}

/// A column of one value, in the form that a segment's has.
fn one(value: &Value, data_type: DataType) -> Result<Column, ColumnsError> {
    let array: ArrayRef = match (data_type, value) {
        (DataType::Bool, Value::Bool(value)) => Arc::new(BooleanArray::from(vec![*value])),
        (DataType::Int2, Value::Int2(value)) => Arc::new(PrimitiveArray::<Int16Type>::from(vec![*value])),
        (DataType::Int4, Value::Int4(value)) => Arc::new(PrimitiveArray::<Int32Type>::from(vec![*value])),
        (DataType::Int8 | DataType::Enum(_), Value::Int8(value)) => {
            Arc::new(PrimitiveArray::<Int64Type>::from(vec![*value]))
        }
        (DataType::Float4, Value::Float4(value)) => Arc::new(PrimitiveArray::<Float32Type>::from(vec![*value])),
        (DataType::Float8, Value::Float8(value)) => Arc::new(PrimitiveArray::<Float64Type>::from(vec![*value])),
        (DataType::Date, Value::Date(value)) => Arc::new(PrimitiveArray::<Date32Type>::from(vec![*value])),
        (DataType::Timestamp, Value::Timestamp(value)) => {
            Arc::new(PrimitiveArray::<TimestampMicrosecondType>::from(vec![*value]))
        }
        (DataType::Timestamptz, Value::Timestamptz(value)) => {
            Arc::new(PrimitiveArray::<TimestampMicrosecondType>::from(vec![*value]).with_timezone("UTC"))
        }
        (DataType::Time, Value::Time(value)) => Arc::new(PrimitiveArray::<Time64MicrosecondType>::from(vec![*value])),
        (DataType::Interval, Value::Interval(value)) => {
            let value = IntervalMonthDayNano::new(value.months, value.days, value.nanos());
            Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::from(vec![value]))
        }
        (DataType::Decimal { precision, .. }, Value::Decimal(value)) if precision <= DECIMAL64_PRECISION_MAX => {
            Arc::new(PrimitiveArray::<Int64Type>::from(vec![*value as i64]))
        }
        (DataType::Decimal { scale, .. }, Value::Decimal(value)) => {
            let array = PrimitiveArray::<Decimal128Type>::from(vec![*value]);
            let typed = array.with_precision_and_scale(DECIMAL_PRECISION_MAX, scale as i8);
            Arc::new(typed.map_err(|error| ColumnsError::Internal(error.to_string()))?)
        }
        (DataType::Uuid, Value::Uuid(value)) => {
            let array = FixedSizeBinaryArray::try_from_iter(std::iter::once(value));
            Arc::new(array.map_err(|error| ColumnsError::Internal(error.to_string()))?)
        }
        (
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb,
            Value::Text(value),
        ) => Arc::new(StringViewArray::from_iter_values([value])),
        (DataType::Bytea | DataType::Array(_), Value::Bytea(value)) => {
            Arc::new(BinaryViewArray::from_iter_values([value]))
        }
        (expected, value) => {
            let found = value.as_ref().kind();
            return Err(ColumnsError::Internal(format!("a value of type {found} for a column of type {expected}")));
        }
    };
    Ok(Column::new(array))
}

#[cfg(test)]
mod tests {
    use saki_base::Interval;

    use super::*;
    use crate::values::for_each_value;

    #[test]
    fn values_of_every_type_are_the_same_in_all_rows() {
        let decimal = |precision| DataType::Decimal { precision, scale: 2 };
        for (data_type, value) in [
            (DataType::Bool, Value::Bool(true)),
            (DataType::Int2, Value::Int2(-2)),
            (DataType::Int4, Value::Int4(-4)),
            (DataType::Int8, Value::Int8(i64::MIN)),
            (DataType::Float4, Value::Float4(-0.0)),
            (DataType::Float8, Value::Float8(f64::INFINITY)),
            (decimal(18), Value::Decimal(-17)),
            (decimal(19), Value::Decimal(17)),
            (DataType::Date, Value::Date(9)),
            (DataType::Timestamp, Value::Timestamp(9)),
            (DataType::Timestamptz, Value::Timestamptz(-9)),
            (DataType::Time, Value::Time(9)),
            (DataType::Interval, Value::Interval(Interval { months: -1, days: 2, micros: -3 })),
            (DataType::Uuid, Value::Uuid([7; 16])),
            (DataType::Text, Value::Text("text ".repeat(100))),
            (DataType::Char(3), Value::Text("c".to_owned())),
            (DataType::Bytea, Value::Bytea(vec![0, 1])),
        ] {
            for missing in [value, Value::Null] {
                let column =
                    ColumnType { name: "c".to_owned(), data_type, nullable: true, missing: Some(missing.clone()) };
                let mut found = Vec::new();
                let values = missing_column(&column, 3).unwrap();
                for_each_value(&values, data_type, |value| found.push(Value::from(value))).unwrap();
                assert_eq!(found, vec![missing.clone(); 3]);
                let run = missing_run(&column, 9).unwrap();
                assert!(run.is_missing() && run.page_count(4096) == 0);
                assert_eq!(run.zone.nulls, if missing.is_null() { 9 } else { 0 });
                assert_eq!(missing_column(&column, 0).unwrap().len(), 0);
            }
        }
    }

    #[test]
    fn a_column_that_all_segments_have_is_not_missing() {
        let column = ColumnType { name: "c".into(), data_type: DataType::Int4, nullable: true, missing: None };
        assert!(matches!(missing_column(&column, 1), Err(ColumnsError::Corrupt(_))));
        let other = ColumnType { missing: Some(Value::Int8(1)), ..column };
        assert!(matches!(missing_column(&other, 1), Err(ColumnsError::Internal(_))));
    }
}
