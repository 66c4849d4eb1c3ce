//! A test on encoded values finds the rows that it finds on decoded ones.

use arrow_array::BooleanArray;
use arrow_buffer::Buffer;
use proptest::prelude::*;
use saki_base::{DataType, Random, Value};
use saki_columns::{Codec, Test, VortexCodec};
use saki_vector::expr::CompareOp;

use crate::model::{self, DATA_TYPES, Spread};

const OPS: [CompareOp; 6] = [
    CompareOp::Equal,
    CompareOp::NotEqual,
    CompareOp::Less,
    CompareOp::LessOrEqual,
    CompareOp::Greater,
    CompareOp::GreaterOrEqual,
];

/// Compares with the naive answer; says whether the codec had one.
#[track_caller]
fn check(codec: &VortexCodec, blob: &Buffer, data_type: DataType, values: &[Value], test: &Test) -> bool {
    let expected: BooleanArray = values.iter().map(|value| Some(test.passes(value.as_ref()))).collect();
    match codec.select(blob, data_type, values.len(), test).expect("what was encoded") {
        Some(found) => {
            assert_eq!(found, expected, "{test:?}");
            true
        }
        None => false,
    }
}

fn encoded(codec: &VortexCodec, data_type: DataType, values: &[Value]) -> Buffer {
    Buffer::from_slice_ref(codec.encode(&model::column(data_type, values), data_type).expect("values of the type"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_test_of_any_column(
        data_type in prop::sample::select(&DATA_TYPES[..]),
        spread in prop_oneof![
            Just(Spread::AllEqual),
            (1..400_u64).prop_map(Spread::Few),
            (1..200_u64).prop_map(Spread::Runs),
            Just(Spread::Sorted),
            Just(Spread::Near),
            Just(Spread::Outliers),
            Just(Spread::Anything),
        ],
        rows in prop_oneof![1..4_usize, 1..3000_usize],
        nulls in prop_oneof![Just(0), Just(1), 2..100_u64],
        seed: u64,
    ) {
        let mut random = Random::new(seed);
        let values = model::data(data_type, spread, rows, nulls, &mut random);
        let codec = VortexCodec::default();
        let blob = encoded(&codec, data_type, &values);
        let mut constant = || match values[random.below(rows as u64) as usize].clone() {
            // Constants that the column has not, too.
            value if !value.is_null() && random.chance(0.7) => value,
            _ => model::value(data_type, random.next_u64() >> random.below(64)),
        };
        for op in OPS {
            check(&codec, &blob, data_type, &values, &Test::Compare(op, constant()));
        }
        check(&codec, &blob, data_type, &values, &Test::OneOf(Vec::new()));
        check(&codec, &blob, data_type, &values, &Test::OneOf((0..5).map(|_| constant()).collect()));
        prop_assert!(check(&codec, &blob, data_type, &values, &Test::IsNull));
        prop_assert!(check(&codec, &blob, data_type, &values, &Test::IsNotNull));
    }
}

#[test]
fn encodings_that_tests_are_decided_on() {
    let codec = VortexCodec::default();
    let mut random = Random::new(12);
    for (data_type, spread) in [
        (DataType::Int4, Spread::AllEqual),
        (DataType::Int8, Spread::Near),
        (DataType::Date, Spread::Near),
        (DataType::Decimal { precision: 15, scale: 2 }, Spread::Near),
        (DataType::Text, Spread::AllEqual),
        (DataType::Text, Spread::Few(7)),
        (DataType::Text, Spread::Few(200)),
        (DataType::Int8, Spread::Runs(200)),
    ] {
        let values = model::data(data_type, spread, 20_000, 10, &mut random);
        let blob = encoded(&codec, data_type, &values);
        let constant = values.iter().find(|value| !value.is_null()).expect("some value").clone();
        for op in OPS {
            let test = Test::Compare(op, constant.clone());
            assert!(check(&codec, &blob, data_type, &values, &test), "{data_type} {spread:?} {op:?}");
        }
    }
}

#[test]
fn constants_beyond_what_is_packed() {
    let codec = VortexCodec::default();
    let values: Vec<Value> = (0..5000).map(|row| Value::Int8(row % 1000 - 300)).collect();
    let blob = encoded(&codec, DataType::Int8, &values);
    for constant in [i64::MIN, i64::MIN + 1, -301, -300, -1, 0, 699, 700, i64::MAX - 1, i64::MAX] {
        for op in OPS {
            check(&codec, &blob, DataType::Int8, &values, &Test::Compare(op, Value::Int8(constant)));
        }
    }
}
