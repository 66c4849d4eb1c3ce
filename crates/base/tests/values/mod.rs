//! Types and values to test with; shared by the tests of rows, keys and text.

use proptest::prelude::*;
use saki_base::civil::MICROS_PER_DAY;
use saki_base::types::decimal_limit;
use saki_base::{DataType, Element, Interval, Value, array};

/// Any type, with small lengths and all kinds of precision.
pub fn data_types() -> impl Strategy<Value = DataType> {
    prop_oneof![
        Just(DataType::Bool),
        Just(DataType::Int2),
        Just(DataType::Int4),
        Just(DataType::Int8),
        Just(DataType::Float4),
        Just(DataType::Float8),
        (1_u8..=38).prop_flat_map(|precision| (Just(precision), 0..=precision)
            .prop_map(|(precision, scale)| DataType::Decimal { precision, scale })),
        Just(DataType::Text),
        (1_u32..40).prop_map(DataType::Varchar),
        (1_u32..40).prop_map(DataType::Char),
        Just(DataType::Bytea),
        Just(DataType::Date),
        Just(DataType::Timestamp),
        Just(DataType::Timestamptz),
        Just(DataType::Time),
        Just(DataType::Interval),
        Just(DataType::Uuid),
        Just(DataType::Json),
        Just(DataType::Jsonb),
        prop::sample::select(vec![DataType::Int4, DataType::Text, DataType::Date])
            .prop_map(|element| DataType::Array(Element::new(element).expect("there are arrays of these"))),
    ]
}

/// Any value of a type, not NULL; small numbers and near texts are frequent, so that equal ones come up.
pub fn values(data_type: DataType) -> BoxedStrategy<Value> {
    fn text(longest: usize) -> impl Strategy<Value = String> {
        let character =
            prop_oneof![4 => prop::sample::select(vec!['a', 'b', ' ', 'é', '山', '\u{1}']), 1 => any::<char>()];
        prop::collection::vec(character.prop_filter("no text has it", |character| *character != '\0'), 0..=longest)
            .prop_map(String::from_iter)
    }
    match data_type {
        DataType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        DataType::Int2 => prop_oneof![any::<i16>(), -2_i16..3].prop_map(Value::Int2).boxed(),
        DataType::Int4 => prop_oneof![any::<i32>(), -2_i32..3].prop_map(Value::Int4).boxed(),
        DataType::Int8 | DataType::Enum(_) => prop_oneof![any::<i64>(), -2_i64..3].prop_map(Value::Int8).boxed(),
        DataType::Float4 => {
            let special =
                prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, f32::NAN, -f32::NAN, f32::INFINITY, -f32::INFINITY]);
            prop_oneof![any::<u32>().prop_map(f32::from_bits), special].prop_map(Value::Float4).boxed()
        }
        DataType::Float8 => {
            let special =
                prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, f64::NAN, -f64::NAN, f64::INFINITY, -f64::INFINITY]);
            prop_oneof![any::<u64>().prop_map(f64::from_bits), special].prop_map(Value::Float8).boxed()
        }
        DataType::Decimal { precision, .. } => {
            let limit = decimal_limit(precision);
            prop_oneof![
                1 - limit..limit,
                (-2_i128..3).prop_map(move |value| value.clamp(1 - limit, limit - 1)),
                Just(limit - 1),
                Just(1 - limit)
            ]
            .prop_map(Value::Decimal)
            .boxed()
        }
        DataType::Text => text(30).prop_map(Value::Text).boxed(),
        DataType::Varchar(length) => text(length as usize).prop_map(Value::Text).boxed(),
        DataType::Char(length) => {
            text(length as usize).prop_map(|text| Value::Text(text.trim_end_matches(' ').to_owned())).boxed()
        }
        DataType::Bytea => {
            let byte = prop_oneof![0_u8..3, Just(0xff_u8), any::<u8>()];
            prop::collection::vec(byte, 0..12).prop_map(Value::Bytea).boxed()
        }
        DataType::Array(element) => {
            let array = move |values: Vec<Option<Value>>| {
                let mut array = Vec::new();
                for value in values {
                    array::push(element, value.unwrap_or_default().as_ref(), &mut array).expect("of its elements");
                }
                Value::Bytea(array)
            };
            prop::collection::vec(prop::option::of(values(element.data_type())), 0..4).prop_map(array).boxed()
        }
        DataType::Date => prop_oneof![any::<i32>(), -2_i32..3].prop_map(Value::Date).boxed(),
        DataType::Timestamp => prop_oneof![any::<i64>(), -2_i64..3].prop_map(Value::Timestamp).boxed(),
        DataType::Timestamptz => prop_oneof![any::<i64>(), -2_i64..3].prop_map(Value::Timestamptz).boxed(),
        DataType::Time => prop_oneof![0..=MICROS_PER_DAY, 0_i64..3].prop_map(Value::Time).boxed(),
        DataType::Interval => {
            let parts = prop_oneof![
                (any::<i32>(), any::<i32>(), i64::MIN / 1_000..=i64::MAX / 1_000),
                (-1_i32..2, -31_i32..32, (-1_i64..2).prop_map(|days| days * MICROS_PER_DAY)),
            ];
            parts.prop_map(|(months, days, micros)| Value::Interval(Interval { months, days, micros })).boxed()
        }
        DataType::Uuid => any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
        DataType::Json | DataType::Jsonb => {
            let member = |(key, number)| Value::Text(format!("{{\"{key}\": {number}}}"));
            ("[a-bé]{0,3}", any::<i32>()).prop_map(member).boxed()
        }
    }
}

/// A type, whether it is nullable, and some values of it.
pub fn columns(values_per_column: usize) -> impl Strategy<Value = (DataType, bool, Vec<Value>)> {
    (data_types(), any::<bool>()).prop_flat_map(move |(data_type, nullable)| {
        let value = if nullable {
            prop_oneof![2 => values(data_type), 1 => Just(Value::Null)].boxed()
        } else {
            values(data_type)
        };
        (Just(data_type), Just(nullable), prop::collection::vec(value, values_per_column))
    })
}
