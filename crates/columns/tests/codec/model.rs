//! Columns as lists of values: the naive model, and data to try.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::IntervalMonthDayNano;
use saki_base::{DataType, Interval, Random, Value};
use saki_vector::{Column, form};

/// Every type; of decimals, narrow and wide ones.
pub const DATA_TYPES: [DataType; 21] = [
    DataType::Bool,
    DataType::Int2,
    DataType::Int4,
    DataType::Int8,
    DataType::Float4,
    DataType::Float8,
    DataType::Decimal { precision: 15, scale: 2 },
    DataType::Decimal { precision: 18, scale: 0 },
    DataType::Decimal { precision: 38, scale: 10 },
    DataType::Text,
    DataType::Varchar(12),
    DataType::Char(10),
    DataType::Bytea,
    DataType::Date,
    DataType::Timestamp,
    DataType::Timestamptz,
    DataType::Time,
    DataType::Interval,
    DataType::Uuid,
    DataType::Json,
    DataType::Jsonb,
];

/// A column in a native form.
pub fn column(data_type: DataType, values: &[Value]) -> Column {
    macro_rules! numbers {
        ($array:ident, $variant:ident) => {
            Arc::new($array::from_iter(values.iter().map(|value| match value {
                Value::$variant(value) => Some(*value),
                _ => None,
            })))
        };
    }
    let array: ArrayRef = match data_type {
        DataType::Bool => numbers!(BooleanArray, Bool),
        DataType::Int2 => numbers!(Int16Array, Int2),
        DataType::Int4 => numbers!(Int32Array, Int4),
        DataType::Int8 | DataType::Enum(_) => numbers!(Int64Array, Int8),
        DataType::Float4 => numbers!(Float32Array, Float4),
        DataType::Float8 => numbers!(Float64Array, Float8),
        DataType::Date => numbers!(Date32Array, Date),
        DataType::Timestamp => numbers!(TimestampMicrosecondArray, Timestamp),
        DataType::Timestamptz => {
            let array: Arc<TimestampMicrosecondArray> = numbers!(TimestampMicrosecondArray, Timestamptz);
            Arc::new(array.as_ref().clone().with_timezone("UTC"))
        }
        DataType::Decimal { scale, .. } => {
            let wide: Arc<Decimal128Array> = numbers!(Decimal128Array, Decimal);
            match form::narrow_decimals(&wide) {
                Some(narrow) => Arc::new(narrow),
                None => Arc::new(wide.as_ref().clone().with_precision_and_scale(38, scale as i8).unwrap()),
            }
        }
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            Arc::new(StringViewArray::from_iter(values.iter().map(|value| match value {
                Value::Text(value) => Some(value),
                _ => None,
            })))
        }
        DataType::Bytea | DataType::Array(_) => {
            Arc::new(BinaryViewArray::from_iter(values.iter().map(|value| match value {
                Value::Bytea(value) => Some(value),
                _ => None,
            })))
        }
        DataType::Time => numbers!(Time64MicrosecondArray, Time),
        DataType::Interval => Arc::new(IntervalMonthDayNanoArray::from_iter(values.iter().map(|value| match value {
            Value::Interval(of) => Some(IntervalMonthDayNano::new(of.months, of.days, of.nanos())),
            _ => None,
        }))),
        DataType::Uuid => {
            let values = values.iter().map(|value| match value {
                Value::Uuid(value) => Some(*value),
                _ => None,
            });
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16).unwrap())
        }
    };
    Column::new(array)
}

/// The values of a column, one by one.
pub fn values(column: &Column, data_type: DataType) -> Vec<Value> {
    let array = match data_type {
        DataType::Decimal { .. } => Arc::new(form::wide_decimals(column).unwrap()),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            form::text_views(column).unwrap()
        }
        _ => Arc::clone(column.array()),
    };
    let value = |row: usize| match data_type {
        _ if array.is_null(row) => Value::Null,
        DataType::Bool => Value::Bool(array.as_boolean().value(row)),
        DataType::Int2 => Value::Int2(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int4 => Value::Int4(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int8 | DataType::Enum(_) => Value::Int8(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float4 => Value::Float4(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float8 => Value::Float8(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal { .. } => Value::Decimal(array.as_primitive::<Decimal128Type>().value(row)),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            Value::Text(array.as_string_view().value(row).to_owned())
        }
        DataType::Bytea | DataType::Array(_) => Value::Bytea(array.as_binary_view().value(row).to_owned()),
        DataType::Date => Value::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp => Value::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row)),
        DataType::Timestamptz => Value::Timestamptz(array.as_primitive::<TimestampMicrosecondType>().value(row)),
        DataType::Time => Value::Time(array.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Interval => {
            let of = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            Value::Interval(Interval::of_nanos(of.months, of.days, of.nanoseconds))
        }
        DataType::Uuid => Value::Uuid(array.as_fixed_size_binary().value(row).try_into().unwrap()),
    };
    (0..array.len()).map(value).collect()
}

/// Panics unless the values are the same to the last bit: NaN is itself, and 0 is not -0.
#[track_caller]
pub fn assert_same(found: &[Value], expected: &[Value]) {
    assert_eq!(found.len(), expected.len());
    let bits = |value: &Value| match value {
        Value::Float4(value) => Value::Int4(value.to_bits() as i32),
        Value::Float8(value) => Value::Int8(value.to_bits() as i64),
        other => other.clone(),
    };
    for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(bits(found), bits(expected), "row {row}");
    }
}

/// How the values of a column are spread: what encodings are made for.
#[derive(Clone, Copy, Debug)]
pub enum Spread {
    AllEqual,
    /// So many different ones, in any order.
    Few(u64),
    /// Runs of about so many equal ones.
    Runs(u64),
    Sorted,
    /// Small numbers, close to each other.
    Near,
    /// Near but for some that are far off.
    Outliers,
    /// Everything the type has.
    Anything,
}

/// Values of a type; every `nulls`-th is NULL or so (0: none).
pub fn data(data_type: DataType, spread: Spread, rows: usize, nulls: u64, random: &mut Random) -> Vec<Value> {
    let base = random.next_u64() >> random.below(64);
    let mut last = base;
    let mut values: Vec<Value> = (0..rows as u64)
        .map(|row| {
            last = match spread {
                Spread::AllEqual => base,
                Spread::Few(count) => base.wrapping_add(random.below(count).wrapping_mul(0x9e37_79b9)),
                Spread::Runs(length) if random.below(length) > 0 => last,
                Spread::Runs(_) | Spread::Anything => random.next_u64() >> random.below(64),
                Spread::Sorted => (base >> 8).wrapping_add(row * 7 + random.below(7)),
                Spread::Near => (base >> 8) + random.below(1000),
                Spread::Outliers if random.chance(0.01) => random.next_u64(),
                Spread::Outliers => random.below(1000),
            };
            value(data_type, last)
        })
        .collect();
    for value in &mut values {
        if nulls > 0 && random.below(nulls) == 0 {
            *value = Value::Null;
        }
    }
    values
}

/// The value of a type that a number stands for; the largest numbers stand for the ends of the type.
pub fn value(data_type: DataType, number: u64) -> Value {
    let float = |edge: u64| match edge {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => -0.0,
        4 => f64::MIN_POSITIVE / 2.0,
        _ => f64::MAX,
    };
    let digits = |number: u64| format!("Customer#{:09} {number:x}ä", number % 1000);
    match data_type {
        DataType::Bool => Value::Bool(number % 2 == 1),
        DataType::Int2 => Value::Int2(number as i16),
        DataType::Int4 => Value::Int4(number as i32),
        DataType::Int8 | DataType::Enum(_) => Value::Int8(number as i64),
        DataType::Float4 if number >> 60 == 15 => Value::Float4(float(number % 6) as f32),
        DataType::Float4 => Value::Float4((number as u32 as f32) / 100.0),
        DataType::Float8 if number >> 60 == 15 => Value::Float8(float(number % 6)),
        DataType::Float8 if number >> 60 == 14 => Value::Float8(f64::from_bits(number << 4)),
        DataType::Float8 => Value::Float8((number as f64) / 100.0),
        DataType::Decimal { precision, .. } => {
            let limit = 10_i128.pow(u32::from(precision)) - 1;
            Value::Decimal(match number >> 60 {
                15 => limit,
                14 => -limit,
                13 => (i128::from(number >> 1) * i128::from(number >> 1)) % limit,
                _ => i128::from(number as i64) % limit,
            })
        }
        DataType::Varchar(_) | DataType::Char(_) => Value::Text(format!("{:x}", number % 0xffff_ffff)),
        DataType::Text if number >> 61 == 7 => Value::Text(String::new()),
        DataType::Text | DataType::Json | DataType::Jsonb => Value::Text(digits(number)),
        DataType::Bytea | DataType::Array(_) => Value::Bytea(number.to_be_bytes()[..(number % 9) as usize].repeat(3)),
        DataType::Date => Value::Date(number as i32),
        DataType::Timestamp => Value::Timestamp(number as i64),
        DataType::Timestamptz => Value::Timestamptz(number as i64),
        DataType::Time => Value::Time(number as i64),
        DataType::Interval => Value::Interval(Interval {
            months: number as i32 % 100,
            days: (number >> 32) as i32,
            micros: number as i64 % 1_000_000_000_000_000,
        }),
        DataType::Uuid => {
            let mut bytes = [0x5a; 16];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            bytes[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            Value::Uuid(bytes)
        }
    }
}
